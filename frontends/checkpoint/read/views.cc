// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/read/views.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/support/checked_size.h"
#include "core/support/formats.h"
#include "core/support/text/in_quotes.h"
#include "unroll/ir/attributes.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::checkpoint {

namespace {

// Copies a row of a tensor: n elements, `stride` apart. Returns the first index whose value does not fit, or n.
using CopyRow = std::int64_t (*)(const std::byte* from, std::int64_t stride, Tensor& to, std::int64_t at,
                                 std::int64_t n);

template <class From, class To, auto convert>
std::int64_t copy_row(const std::byte* from, std::int64_t stride, Tensor& to, std::int64_t at, std::int64_t n) {
  To* out = to.values<To>().data() + at;
  for (std::int64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * stride * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    if (!convert(value, out[i])) return i;
  }
  return n;
}
template <class T>
bool same(T from, T& to) {
  to = from;
  return true;
}
template <class T>
bool narrow(T from, std::int32_t& to) {
  to = static_cast<std::int32_t>(from);
  return static_cast<T>(to) == from;
}
template <class T>
bool widen(T from, float& to) {
  to = to_float(from);
  return true;
}
bool truth(std::uint8_t from, std::uint8_t& to) {
  to = from;
  return from <= 1;
}

struct ReadRow {
  DType dtype;
  CopyRow copy;
};
// In the order of Stored.
constexpr ReadRow k_reads[] = {{DType::f32, copy_row<float, float, same<float>>},
                               {DType::f64, copy_row<double, double, same<double>>},
                               {DType::f32, copy_row<F16, float, widen<F16>>},
                               {DType::f32, copy_row<Bf16, float, widen<Bf16>>},
                               {DType::i32, copy_row<std::int64_t, std::int32_t, narrow<std::int64_t>>},
                               {DType::i32, copy_row<std::int32_t, std::int32_t, same<std::int32_t>>},
                               {DType::i32, copy_row<std::int16_t, std::int32_t, narrow<std::int16_t>>},
                               {DType::i32, copy_row<std::int8_t, std::int32_t, narrow<std::int8_t>>},
                               {DType::i32, copy_row<std::uint8_t, std::int32_t, narrow<std::uint8_t>>},
                               {DType::b8, copy_row<std::uint8_t, std::uint8_t, truth>}};

std::string stored_text(const TensorView& view) {
  std::string text(stored_name(view.type));
  for (std::size_t k = 0; k < view.sizes.size(); ++k) text += (k == 0 ? "[" : ",") + std::to_string(view.sizes[k]);
  return text + (view.sizes.empty() ? "[]" : "]");
}

Tensor copy_view(const TensorView& view, std::span<const std::byte> storage, const std::string& file,
                 const std::string& name) {
  const ReadRow& row = k_reads[static_cast<int>(view.type)];
  Tensor tensor(row.dtype, Shape(view.sizes));
  const auto rank = view.sizes.size();
  const std::int64_t n = rank == 0 ? 1 : view.sizes.back(), stride = rank == 0 ? 1 : view.strides.back();
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t at = 0; at < tensor.elements(); at += n) {
    std::int64_t from = view.offset;
    for (std::size_t k = 0; k + 1 < rank; ++k) from += index[k] * view.strides[k];
    const std::size_t bytes = from * stored_bytes(view.type);
    const std::int64_t done = row.copy(storage.data() + bytes, stride, tensor, at, n);
    if (done != n)
      damaged(file, "tensor '" + name + "' " + stored_text(view) + " has an element that does not fit " +
                       std::string(dtype_name(row.dtype)) + ": element " + std::to_string(at + done),
             "Leave the tensor out of the file");
    for (std::size_t k = rank; k-- > 1;) {
      if (++index[k - 1] < view.sizes[k - 1]) break;
      index[k - 1] = 0;
    }
  }
  return tensor;
}

}  // namespace

void damaged(const std::string& file, const std::string& what, std::string_view next) {
  throw Error(ErrorKind::input_file, file, what, next);
}

std::int64_t check_view(const TensorView& view, const std::string& file, const std::string& name) {
  const std::string who = "tensor '" + name + "' " + stored_text(view);
  if (view.sizes.size() != view.strides.size()) damaged(file, who + " has strides of another rank", "Save it again");
  CheckedSize elements = 1, last = static_cast<std::uint64_t>(std::max<std::int64_t>(view.offset, 0));
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, size
  bool is_valid = view.offset >= 0, is_empty = false;
  for (std::size_t k = 0; k < view.sizes.size(); ++k) {
    const std::int64_t size = view.sizes[k], stride = view.strides[k];
    is_valid &= size >= 0 && size <= Shape::k_max_dimension && stride >= 0;
    if (!is_valid) break;
    is_empty |= size == 0;
    elements *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (size > 1) last += CheckedSize(static_cast<std::uint64_t>(size - 1)) * static_cast<std::uint64_t>(stride);
    if (size > 1) axes.emplace_back(stride, size);
  }
  constexpr std::uint64_t k_most = std::uint64_t{1} << 62;  // of a Shape
  if (!is_valid || elements.get().value_or(k_most) >= k_most)
    damaged(file, who + " has an impossible size or stride", "Save it again");
  if (is_empty) return 0;
  if (!last.get() || *last.get() >= static_cast<std::uint64_t>(view.count))
    damaged(file, who + " reaches beyond its storage of " + std::to_string(view.count) + " elements", "Save it again");
  // Sorted by stride, each axis must step over all inner axes.
  std::sort(axes.begin(), axes.end());
  std::int64_t extent = 0;  // last index of the axes so far; at most that of the storage
  for (const auto& [stride, size] : axes) {
    if (stride <= extent)
      damaged(file, who + " reads an element of its storage twice, as after expand()", "Save it with .contiguous()");
    extent += stride * (size - 1);
  }
  return static_cast<std::int64_t>(*elements.get());
}

NamedTensor read_view(const TensorView& view, std::span<const std::byte> storage, const std::string& file,
                      const std::string& name) {
  const std::string who = "tensor '" + name + "'";
  if ((CheckedSize(static_cast<std::uint64_t>(view.count)) * stored_bytes(view.type)).get() != storage.size())
    damaged(file, who + ": its storage " + in_quotes(view.key) + " has " + std::to_string(storage.size()) + " bytes; " +
                     std::to_string(view.count) + " elements of " + std::string(stored_name(view.type)) +
                     " are described",
           "Save the file again");
  return named_tensor(name, attempt([&] { return copy_view(view, storage, file, name); }), stored_text(view),
                      Shape(view.sizes));
}

}  // namespace unroll::checkpoint
