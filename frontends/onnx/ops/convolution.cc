// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling. ONNX has channels first, [N, C, L...]; the graph has them last.
#include <algorithm>
#include <numeric>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

Value channels_last(Value x) {
  Ints order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return transpose(x, order);
}
Value channels_first(Value x) {
  Ints order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return transpose(x, order);
}

// A list with an element for each convolved axis.
Ints list_of(Call& call, const char* name, std::size_t n, std::int64_t fallback) {
  Ints list = call.list(name).value_or(Ints(n, fallback));
  if (list.size() != n) call.refuse(std::string(name) + " needs " + std::to_string(n) + " elements");
  return list;
}
void require_positive(Call& call, const char* name, const Ints& list) {
  if (std::ranges::any_of(list, [](std::int64_t value) { return value < 1 || value > INT32_MAX; }))
    call.refuse(std::string(name) + " must be positive 32-bit numbers");
}

Value image_of(Call& call, Value x) {
  if (x.rank() < 3) call.refuse("needs an operand [N, C, L...]; got " + x.shape().text());
  if (x.rank() > 4) call.unsupported("more than two convolved axes");
  return x;
}

// Strides, dilations and padding for windows of `kernel` positions over x [N, C, L...].
ConvOptions windows_for(Call& call, Value x, const Ints& kernel) {
  const auto n = static_cast<std::size_t>(x.rank() - 2);
  if (kernel.size() != n) call.refuse("the kernel has another number of axes than " + x.shape().text());
  ConvOptions o{.axes = {}, .stride = list_of(call, "strides", n, 1), .dilation = list_of(call, "dilations", n, 1)};
  require_positive(call, "the kernel", kernel);
  require_positive(call, "strides", o.stride);
  require_positive(call, "dilations", o.dilation);
  for (std::size_t i = 0; i < n; ++i) o.axes.push_back(static_cast<std::int64_t>(i) + 1);
  const std::string mode = call.text("auto_pad", "NOTSET");
  const std::optional<Ints> pads = call.list("pads");
  if (mode == "NOTSET" || mode == "VALID") {
    const Ints both = mode == "VALID" ? Ints(2 * n) : pads.value_or(Ints(2 * n));
    if (both.size() != 2 * n) call.refuse("pads needs two elements for each axis");
    for (const std::int64_t pad : both)
      if (pad < 0 || pad > INT32_MAX) call.refuse("pads must be 32-bit numbers from 0");
    o.low.assign(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(n));
    o.high.assign(both.begin() + static_cast<std::ptrdiff_t>(n), both.end());
    return o;
  }
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") call.unsupported("auto_pad '" + mode + "'");
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t L = x.shape()[static_cast<int>(i) + 2], windows = (L + o.stride[i] - 1) / o.stride[i];
    const std::int64_t missing =
        std::max<std::int64_t>((windows - 1) * o.stride[i] + (kernel[i] - 1) * o.dilation[i] + 1 - L, 0);
    o.low.push_back(mode == "SAME_UPPER" ? missing / 2 : missing - missing / 2);
    o.high.push_back(missing - o.low.back());
  }
  return o;
}

// The kernel is that of the weight [O, C, K...].
Ints kernel_of(Call& call, Value weight, Value x) {
  if (weight.rank() != x.rank()) call.refuse("the weight must have the rank of " + x.shape().text());
  const Ints kernel(weight.shape().begin() + 2, weight.shape().end());
  if (call.list("kernel_shape").value_or(kernel) != kernel) call.refuse("kernel_shape is not that of the weight");
  return kernel;
}

std::vector<Value> convolve(Call& call) { return {convolved(call, call.in(0), call.in(1), call.in_or_none(2))}; }

// com.microsoft: X, W, B, and Z, which is added before the activation
std::vector<Value> convolve_fused(Call& call) {
  Value y = convolved(call, call.in(0), call.in(1), call.in_or_none(2));
  if (call.has(3)) y = add(y, call.in(3));
  const std::string activation = call.text("activation", "");
  if (activation == "Relu") return {relu(y)};
  if (activation == "Sigmoid") return {sigmoid(y)};
  if (activation == "Tanh") return {tanh(y)};
  if (!activation.empty()) call.unsupported("activation '" + activation + "'");
  return {y};
}

// The padding that gives `length` positions: ConvTranspose takes the size of its result instead of its padding.
void pad_to(Call& call, ConvOptions& o, std::size_t i, std::int64_t whole, std::int64_t length, bool upper) {
  const std::int64_t cut = whole - length, half = cut < 0 ? (cut - 1) / 2 : cut / 2;  // rounded down
  if (length < 0 || length > INT32_MAX) call.refuse("output_shape must have positive 32-bit numbers");
  o.low[i] = upper ? half : cut - half;
  o.high[i] = cut - o.low[i];
}

std::vector<Value> convolve_transposed(Call& call) {
  const Value x = image_of(call, call.in(0)), weight = call.in(1);
  const Ints kernel = kernel_of(call, weight, x);
  const std::string mode = call.text("auto_pad", "NOTSET");
  const std::size_t n = kernel.size();
  const Ints extra = list_of(call, "output_padding", n, 0);
  const std::optional<Ints> wanted = call.list("output_shape");
  if (wanted && wanted->size() != n && wanted->size() != n + 2) call.refuse("output_shape has another rank than x");
  ConvOptions o = windows_for(call, x, kernel);
  o.groups = call.integer("group", 1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t N = x.shape()[static_cast<int>(i) + 2];
    const std::int64_t whole = (N - 1) * o.stride[i] + (kernel[i] - 1) * o.dilation[i] + 1;
    if (extra[i] < 0 || extra[i] > INT32_MAX) call.refuse("output_padding must not be negative");
    if (wanted)
      pad_to(call, o, i, whole + extra[i], (*wanted)[wanted->size() - n + i], mode == "SAME_UPPER");
    else if (mode.starts_with("SAME"))
      pad_to(call, o, i, whole + extra[i], N * o.stride[i], mode == "SAME_UPPER");
    o.high[i] -= extra[i];
  }
  return {channels_first(conv_transpose(channels_last(x), channels_last(weight), call.in_or_none(2), o))};
}

// The last window may reach behind the padding with ceil_mode, but not begin there.
void round_up(ConvOptions& o, std::size_t i, std::int64_t L, std::int64_t kernel) {
  const std::int64_t reach = (kernel - 1) * o.dilation[i] + 1, room = L + o.low[i] + o.high[i] - reach;
  if (room < 0) return;
  std::int64_t last = (room + o.stride[i] - 1) / o.stride[i] * o.stride[i];
  if (last >= L + o.low[i]) last -= o.stride[i];
  o.high[i] += std::max<std::int64_t>(last - room, 0);
}

struct Pool {
  Ints kernel;
  ConvOptions declared, options;  // without and with what ceil_mode adds
};
Pool pool_of(Call& call, Value x) {
  Pool pool{list_of(call, "kernel_shape", static_cast<std::size_t>(x.rank() - 2), 0), {}, {}};
  pool.declared = pool.options = windows_for(call, x, pool.kernel);
  if (call.integer("ceil_mode", 0) != 0)
    for (std::size_t i = 0; i < pool.kernel.size(); ++i)
      round_up(pool.options, i, x.shape()[static_cast<int>(i) + 2], pool.kernel[i]);
  return pool;
}

std::vector<Value> pool_maxima(Call& call) {
  const Value x = image_of(call, call.in(0));
  const Pool pool = pool_of(call, x);
  call.integer("storage_order", 0);  // of the indices, which are not returned
  return {channels_first(max_pool(channels_last(x), pool.kernel, pool.options))};
}

std::vector<Value> pool_averages(Call& call) {
  const Value x = image_of(call, call.in(0));
  Pool pool = pool_of(call, x);
  Value last = channels_last(x);
  if (call.integer("count_include_pad", 0) != 0)
    for (std::size_t i = 0; i < pool.kernel.size(); ++i) {
      last = pad(last, static_cast<int>(i) + 1, pool.declared.low[i], pool.declared.high[i]);
      pool.options.low[i] = 0;
      pool.options.high[i] -= pool.declared.high[i];
    }
  return {channels_first(average_pool(last, pool.kernel, pool.options))};
}

Ints image_axes(Value x) {
  Ints axes(x.rank() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}
std::vector<Value> average_image(Call& call) {
  const Value x = image_of(call, call.in(0));
  return {mean(x, image_axes(x), true)};
}
std::vector<Value> largest_of_image(Call& call) {
  const Value x = image_of(call, call.in(0));
  return {max(x, image_axes(x), true)};
}

constexpr OperatorRow k_convolution_rows[] = {
    {"AveragePool", 7, pool_averages},
    {"Conv", 1, convolve},
    {"ConvTranspose", 1, convolve_transposed},
    {"FusedConv", 1, convolve_fused, k_microsoft},
    {"GlobalAveragePool", 1, average_image},
    {"GlobalMaxPool", 1, largest_of_image},
    {"MaxPool", 1, pool_maxima},
};

}  // namespace

std::span<const OperatorRow> convolution_rows() { return k_convolution_rows; }

Value convolved(Call& call, Value x, Value weight, Value bias) {
  image_of(call, x);
  ConvOptions o = windows_for(call, x, kernel_of(call, weight, x));
  o.groups = call.integer("group", 1);
  return channels_first(conv(channels_last(x), channels_last(weight), bias, o));
}

}  // namespace unroll::onnx
