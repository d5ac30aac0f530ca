// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling of layers.py. Shapes: T steps, B sequences, C and O channels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontends/python/network/layers.h"
#include "frontends/python/network/value.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

using Sizes = std::variant<std::int64_t, std::vector<std::int64_t>>;

// A number stands for each axis.
Ints sizes_of(const Sizes& given, std::size_t axes, const char* what) {
  if (const auto* number = std::get_if<std::int64_t>(&given)) return Ints(axes, *number);
  const auto& list = std::get<std::vector<std::int64_t>>(given);
  if (list.size() != axes)
    throw Error(ErrorKind::usage, "layers",
                std::string(what) + " must be a number, or have one for each of the " + std::to_string(axes) +
                    " axes of the kernel");
  return Ints(list.begin(), list.end());
}

// One axis of a kernel is time, the first axis of x; two are those before the channels.
ConvOptions options_of(const NetworkValue& x, const Ints& kernel, const Sizes& stride, const Sizes& dilation,
                       const std::string& padding) {
  const std::size_t n = kernel.size();
  const std::int64_t rank = x.get().rank();
  if (n < 1 || n > 2 || rank <= static_cast<std::int64_t>(n))
    throw Error(ErrorKind::shape, "layers", "a kernel of " + std::to_string(n) + " axes does not fit x " +
                                                x.get().type().text() + ": it is [T,B,C] or [B,H,W,C]");
  ConvOptions o{.axes = n == 1 ? Ints{0} : Ints{rank - 3, rank - 2}, .stride = sizes_of(stride, n, "stride"),
                .dilation = sizes_of(dilation, n, "dilation")};
  if (padding == "valid") return o;
  if (padding != "causal" && padding != "same")
    throw Error(ErrorKind::usage, "layers", "padding is '" + padding + "'", "Use causal, same or valid");
  for (std::size_t k = 0; k < n; ++k) {
    const std::int64_t all = (kernel[k] - 1) * o.dilation[k], before = padding == "causal" ? all : all / 2;
    o.low.push_back(before);
    o.high.push_back(all - before);
  }
  return o;
}

Ints kernel_of(const Sizes& kernel) {
  if (const auto* number = std::get_if<std::int64_t>(&kernel)) return {*number};
  const auto& list = std::get<std::vector<std::int64_t>>(kernel);
  return Ints(list.begin(), list.end());
}

NetworkValue convolved(const NetworkValue& x, std::int64_t channels, const Sizes& kernel, const Sizes& stride,
                       const Sizes& dilation, std::int64_t groups, const std::string& padding, bool bias,
                       const std::string& name) {
  const Ints sizes = kernel_of(kernel);
  ConvOptions options = options_of(x, sizes, stride, dilation, padding);
  options.groups = groups;
  return x.with(conv_layer(x.scope(name), x.get(), channels, sizes, options, bias));
}

NetworkValue pooled_by(const NetworkValue& x, const Sizes& size, const std::optional<Sizes>& stride,
                       const std::string& kind) {
  const Ints sizes = kernel_of(size);
  const ConvOptions options = options_of(x, sizes, stride.value_or(size), std::int64_t{1}, "valid");
  return x.with(kind == "max" ? max_pool(x.get(), sizes, options) : average_pool(x.get(), sizes, options));
}

}  // namespace

void add_convolutions(nb::module_& module) {
  module.def("_conv", convolved, "x"_a, "channels"_a, "kernel"_a, "stride"_a, "dilation"_a, "groups"_a, "padding"_a,
             "bias"_a, "name"_a);
  module.def("_pool", pooled_by, "x"_a, "size"_a, "stride"_a.none(), "kind"_a);
}

}  // namespace unroll::python
