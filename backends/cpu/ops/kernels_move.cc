// SPDX-License-Identifier: Apache-2.0
// Copies between strided views, fills, and the row masks of scan. A copy is divided into lines of its inner dimension,
// or into square blocks if source and destination are contiguous along different dimensions.
#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels/kernels.h"
#include "core/support/formats.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;
using Sizes = std::array<Index, Shape::k_max_rank>;

struct MovedOffsets {
  Index src = 0, dst = 0;  // in elements
};

// Position in a copy's dimensions, except the last `inner` of them.
class Odometer {
 public:
  Odometer(const Copy& copy, int rank, Index start) : copy_(copy), rank_(rank) {
    for (int axis = rank - 1; axis >= 0; --axis) {
      position_[axis] = start % copy.dims[axis];
      start /= copy.dims[axis];
      offsets_.src += position_[axis] * copy.src[axis];
      offsets_.dst += position_[axis] * copy.dst[axis];
    }
  }
  const MovedOffsets& offsets() const { return offsets_; }
  void advance() {
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      offsets_.src += copy_.src[axis];
      offsets_.dst += copy_.dst[axis];
      if (++position_[axis] < copy_.dims[axis]) return;
      offsets_.src -= position_[axis] * copy_.src[axis];
      offsets_.dst -= position_[axis] * copy_.dst[axis];
      position_[axis] = 0;
    }
  }

 private:
  const Copy& copy_;
  int rank_;
  Sizes position_{};
  MovedOffsets offsets_;
};

template <class T>
void copy_line(const T* src, Index src_stride, T* dst, Index dst_stride, Index n) {
  if (src_stride == 1 && dst_stride == 1) std::memcpy(dst, src, n * sizeof(T));
  else if (src_stride == 0 && dst_stride == 1) std::fill_n(dst, n, *src);
  else
    for (Index i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
}

// Long lines are divided into pieces; short ones stay whole.
template <class T>
void copy_lines(const Copy& copy, const T* src, T* dst, const Worker& worker) {
  constexpr Index k_piece = 4096;
  const int inner = copy.rank - 1;
  const Index line = copy.dims[inner];
  const Index pieces = (line + k_piece - 1) / k_piece;
  Index lines = 1;
  for (int axis = 0; axis < inner; ++axis) lines *= copy.dims[axis];
  const Range mine = worker.share(lines * pieces);
  if (mine.empty()) return;
  Odometer odometer(copy, inner, mine.begin / pieces);
  for (Index i = mine.begin; i < mine.end; ++i) {
    const Index begin = i % pieces * k_piece, n = std::min(k_piece, line - begin);
    const MovedOffsets& o = odometer.offsets();
    copy_line(src + o.src + begin * copy.src[inner], copy.src[inner],
              dst + o.dst + begin * copy.dst[inner], copy.dst[inner], n);
    if (begin + n == line) odometer.advance();
  }
}

// The last two dimensions are [columns of src, rows of src]: src is contiguous along the first, dst along the second.
void copy_transposed(const Copy& copy, const std::byte* src, std::byte* dst, const Worker& worker) {
  constexpr Index k_block = 64;
  const int outer_rank = copy.rank - 2;
  const Index columns = copy.dims[outer_rank], rows = copy.dims[outer_rank + 1];
  const Index blocks = (columns + k_block - 1) / k_block;
  Index outer = 1;
  for (int axis = 0; axis < outer_rank; ++axis) outer *= copy.dims[axis];
  const Range mine = worker.share(outer * blocks);
  if (mine.empty()) return;
  const auto transpose = gemm_kernels(copy.bytes == 8 ? DType::f64 : DType::f32).transpose;
  const Index src_stride = copy.src[outer_rank + 1], dst_stride = copy.dst[outer_rank];
  Odometer odometer(copy, outer_rank, mine.begin / blocks);
  for (Index i = mine.begin; i < mine.end; ++i) {
    const Index begin = i % blocks * k_block, n = std::min(k_block, columns - begin);
    const MovedOffsets& o = odometer.offsets();
    transpose(src + (o.src + begin) * copy.bytes, src_stride, rows, n,
              dst + (o.dst + begin * dst_stride) * copy.bytes, dst_stride);
    if (begin + n == columns) odometer.advance();
  }
}

bool is_transposed(const Copy& copy) {
  const int inner = copy.rank - 1;
  return copy.rank >= 2 && copy.bytes >= 4 && copy.dst[inner] == 1 && copy.src[inner] != 1 &&
         copy.src[inner] != 0 && copy.src[inner - 1] == 1;
}

void exchange(Copy& copy, int a, int b) {
  std::swap(copy.dims[a], copy.dims[b]);
  std::swap(copy.src[a], copy.src[b]);
  std::swap(copy.dst[a], copy.dst[b]);
}

// A copy may visit elements in any order: the contiguous dimension of dst becomes the inner one, that of src the next.
void order_dimensions(Copy& copy) {
  const int inner = copy.rank - 1;
  for (int axis = 0; axis < inner && copy.dst[inner] != 1; ++axis)
    if (copy.dst[axis] == 1) exchange(copy, axis, inner);
  if (copy.src[inner] == 1 || copy.src[inner] == 0) return;
  for (int axis = 0; axis < inner - 1; ++axis)
    if (copy.src[axis] == 1) return exchange(copy, axis, inner - 1);
}

template <class T>
void fill_share(T value, Index elements, void* dst, const Worker& worker) {
  const Range mine = worker.share(elements, 64);
  std::fill(static_cast<T*>(dst) + mine.begin, static_cast<T*>(dst) + mine.end, value);
}

}  // namespace

Copy make_copy(DType dtype, const Shape& shape, const Strides& src, const Strides& dst) {
  Copy copy;
  copy.bytes = static_cast<int>(dtype_bytes(dtype));
  copy.rank = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const Index size = shape[axis];
    if (size == 1) continue;
    const int last = std::max(copy.rank - 1, 0);
    const bool join = copy.rank > 0 && copy.src[last] == src[axis] * size && copy.dst[last] == dst[axis] * size;
    const int to = join ? last : copy.rank++;
    copy.dims[to] = join ? copy.dims[to] * size : size;
    copy.src[to] = src[axis];
    copy.dst[to] = dst[axis];
  }
  if (copy.rank == 0) {
    copy.rank = 1;
    copy.dims[0] = shape.elements();
    copy.src[0] = copy.dst[0] = 1;
  }
  order_dimensions(copy);
  return copy;
}

void run_copy(const Copy& copy, const void* src, void* dst, const Worker& worker) {
  for (int axis = 0; axis < copy.rank; ++axis)
    if (copy.dims[axis] == 0) return;
  if (is_transposed(copy)) {
    copy_transposed(copy, static_cast<const std::byte*>(src), static_cast<std::byte*>(dst), worker);
  } else if (copy.bytes == 4) {
    copy_lines(copy, static_cast<const std::uint32_t*>(src), static_cast<std::uint32_t*>(dst), worker);
  } else if (copy.bytes == 2) {
    copy_lines(copy, static_cast<const std::uint16_t*>(src), static_cast<std::uint16_t*>(dst), worker);
  } else if (copy.bytes == 8) {
    copy_lines(copy, static_cast<const std::uint64_t*>(src), static_cast<std::uint64_t*>(dst), worker);
  } else {
    copy_lines(copy, static_cast<const std::uint8_t*>(src), static_cast<std::uint8_t*>(dst), worker);
  }
}

void run_fill(DType dtype, double value, Index elements, void* dst, const Worker& worker) {
  switch (dtype) {
    case DType::f32: return fill_share(static_cast<float>(value), elements, dst, worker);
    case DType::f64: return fill_share(value, elements, dst, worker);
    case DType::i32: return fill_share(static_cast<std::int32_t>(value), elements, dst, worker);
    case DType::b8: return fill_share(static_cast<std::uint8_t>(value != 0), elements, dst, worker);
    case DType::bf16: return fill_share(to_bf16(value), elements, dst, worker);
    case DType::f16: return fill_share(to_f16(value), elements, dst, worker);
  }
}

}  // namespace unroll::cpu
