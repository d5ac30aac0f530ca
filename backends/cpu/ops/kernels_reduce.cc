// SPDX-License-Identifier: Apache-2.0
// Reductions in two phases whose pieces depend on the shape only. First come partial sums of pieces of fixed size, then
// the partial sums of each output in order, floats in double.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/reduce.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

constexpr Index k_line = 8192;    // elements of one piece of a line
constexpr Index k_rows = 128;     // rows of one piece of columns
constexpr Index k_columns = 512;  // columns of one piece
constexpr int k_rank = Shape::k_max_rank;

// Some of the dimensions, traversed in row-major order.
struct Axes {
  int rank = 0;
  Index count = 1;
  std::array<Index, k_rank> dims{}, strides{};

  void prepend(Index dim, Index stride) {
    std::copy_backward(dims.begin(), dims.begin() + rank, dims.begin() + rank + 1);
    std::copy_backward(strides.begin(), strides.begin() + rank, strides.begin() + rank + 1);
    dims[0] = dim;
    strides[0] = stride;
    count *= dim;
    ++rank;
  }
  Index offset(Index index) const {
    Index sum = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      sum += index % dims[axis] * strides[axis];
      index /= dims[axis];
    }
    return sum;
  }
};

// Outputs [kept][inner] if columns are kept; each combines `pieces` partial results.
struct ReducePlan {
  Axes kept, reduced;  // without the inner dimension
  Index inner = 1;
  bool lines = false;  // the inner dimension is reduced
  Index pieces = 1;    // per output
  Index outputs() const { return kept.count * (lines ? 1 : inner); }
};
ReducePlan plan_of(const Reduce& reduce) {
  ReducePlan plan;
  Index stride = 1;
  for (int axis = reduce.rank - 1; axis >= 0; --axis) {
    const Index dim = reduce.dims[axis];
    const bool is_reduced = (axis % 2 == 0) == reduce.first_reduced;
    if (axis == reduce.rank - 1) {
      plan.inner = dim;
      plan.lines = is_reduced;
    } else {
      (is_reduced ? plan.reduced : plan.kept).prepend(dim, stride);
    }
    stride *= dim;
  }
  plan.pieces = plan.lines ? plan.reduced.count * ((plan.inner + k_line - 1) / k_line)
                           : (plan.reduced.count + k_rows - 1) / k_rows;
  return plan;
}

template <class T>
T nothing(Op op) {
  if (op == Op::reduce_sum) return T{0};
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

// Reads x in place, or converts it piece by piece if it has 16 bits.
template <class T>
class Source {
 public:
  Source(const void* x, DType dtype)
      : x_(static_cast<const std::byte*>(x)),
        bytes_(static_cast<Index>(dtype_bytes(dtype))),
        widen_(is_half(dtype) ? tile_function(Op::cast, dtype, DType::f32) : nullptr) {}

  bool is_wide() const { return !widen_; }
  const T* at(Index offset) const { return reinterpret_cast<const T*>(x_ + offset * bytes_); }
  void convert(Index offset, Index n, T* to) const {
    widen_({to, at(offset), nullptr, nullptr, 0, 0, 0, 0, 1, static_cast<std::size_t>(n)});
  }

 private:
  const std::byte* x_;
  Index bytes_;
  Elementwise::TileFunction widen_;
};

template <class T>
void reduce_lines(const ReducePlan& plan, const ReduceKernels& kernels, const Source<T>& x, T* partial,
                  const Worker& worker) {
  const Index cuts = (plan.inner + k_line - 1) / k_line;
  const Range mine = worker.share(plan.kept.count * plan.pieces);
  for (Index i = mine.begin; i < mine.end; ++i) {
    const Index cut = i % cuts, line = i / cuts;
    const Index begin = plan.inner * cut / cuts, end = plan.inner * (cut + 1) / cuts;
    const Index start = plan.kept.offset(line / plan.reduced.count) + plan.reduced.offset(line % plan.reduced.count);
    if (x.is_wide()) {
      kernels.line(x.at(start + begin), end - begin, partial + i);
      continue;
    }
    alignas(64) T wide[k_line];
    x.convert(start + begin, end - begin, wide);
    kernels.line(wide, end - begin, partial + i);
  }
}

template <class T>
void reduce_columns(const ReducePlan& plan, const ReduceKernels& kernels, T start, const Source<T>& x, T* partial,
                    const Worker& worker) {
  const Index blocks = (plan.inner + k_columns - 1) / k_columns;
  const Range mine = worker.share(plan.kept.count * plan.pieces * blocks);
  for (Index i = mine.begin; i < mine.end; ++i) {
    const Index block = i % blocks, piece = i / blocks % plan.pieces, output = i / blocks / plan.pieces;
    const Index column = plan.inner * block / blocks, n = plan.inner * (block + 1) / blocks - column;
    const Index first = plan.reduced.count * piece / plan.pieces;
    const Index count = plan.reduced.count * (piece + 1) / plan.pieces - first;
    const Index from = plan.kept.offset(output) + column;
    T* to = partial + i / blocks * plan.inner + column;
    std::fill_n(to, n, start);
    const void* rows[k_rows];
    if (x.is_wide()) {
      for (Index r = 0; r < count; ++r) rows[r] = x.at(from + plan.reduced.offset(first + r));
      kernels.rows(rows, count, n, to);
      continue;
    }
    constexpr Index k_converted = 8;  // rows at once, which the kernel adds in this order in any case
    alignas(64) T wide[k_converted * k_columns];
    for (Index r = 0; r < count; r += k_converted) {
      const Index some = std::min(k_converted, count - r);
      for (Index k = 0; k < some; ++k) {
        x.convert(from + plan.reduced.offset(first + r + k), n, wide + k * k_columns);
        rows[k] = wide + k * k_columns;
      }
      kernels.rows(rows, some, n, to);
    }
  }
}

// Computes out[e] from partial[pieces][width], for the outputs [e / width][e % width] of this worker.
template <class T, class Wide, class F>
void combine(const ReducePlan& plan, T start, const T* partial, T* out, const Worker& worker, F f) {
  constexpr Index k_together = 64;
  const Index width = plan.lines ? 1 : plan.inner;
  const Range mine = worker.share(plan.outputs());
  for (Index e = mine.begin; e < mine.end;) {
    const Index output = e / width, column = e % width;
    const Index n = std::min({k_together, width - column, mine.end - e});
    Wide sums[k_together];
    std::fill_n(sums, n, static_cast<Wide>(start));
    for (Index p = 0; p < plan.pieces; ++p) {
      const T* row = partial + (output * plan.pieces + p) * width + column;
      for (Index j = 0; j < n; ++j) sums[j] = f(sums[j], static_cast<Wide>(row[j]));
    }
    for (Index j = 0; j < n; ++j) out[e + j] = static_cast<T>(sums[j]);
    e += n;
  }
}

template <class T>
void reduce_all(const Reduce& reduce, const void* x_bytes, void* out_bytes, void* scratch, const Worker& worker) {
  const ReducePlan plan = plan_of(reduce);
  if (plan.outputs() == 0) return;
  const T start = nothing<T>(reduce.op);
  const Source<T> x(x_bytes, reduce.dtype);
  T* out = static_cast<T*>(out_bytes);
  const ReduceKernels& kernels = reduce_kernels(reduce.op, arithmetic_dtype(reduce.dtype));
  T* partial = plan.pieces == 1 ? out : static_cast<T*>(scratch);
  if (plan.lines) reduce_lines(plan, kernels, x, partial, worker);
  else reduce_columns(plan, kernels, start, x, partial, worker);
  if (plan.pieces == 1) return;
  if (plan.pieces > 0) worker.sync();
  if (reduce.op == Op::reduce_sum) {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    combine<T, Wide>(plan, start, partial, out, worker, [](Wide a, Wide b) { return a + b; });
  } else {
    combine<T, T>(plan, start, partial, out, worker, [](T a, T b) { return a > b || a != a ? a : b; });
  }
}

template <class T>
bool beats(T candidate, T best) {
  return best == best && (candidate != candidate || candidate > best);
}

// Scans the rows of x [axis, inner] and keeps the best of each column.
template <class T>
void argmax_share(const Argmax& a, const T* x, std::int32_t* out, const Worker& worker) {
  const Range mine = worker.share(a.outer * a.inner, 16);
  for (Index e = mine.begin; e < mine.end;) {
    const Index outer = e / a.inner, column = e % a.inner;
    const Index n = std::min(a.inner - column, mine.end - e);
    const T* start = x + outer * a.axis * a.inner + column;
    std::fill_n(out + e, n, 0);
    for (Index i = 1; i < a.axis; ++i)
      for (Index j = 0; j < n; ++j)
        if (beats(start[i * a.inner + j], start[out[e + j] * a.inner + j])) out[e + j] = static_cast<std::int32_t>(i);
    e += n;
  }
}

}  // namespace

Reduce make_reduce(Op op, const Type& x, std::span<const Index> axes) {
  Reduce reduce;
  reduce.op = op;
  reduce.dtype = x.dtype;
  bool last_reduced = false;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (x.shape[axis] == 1) continue;
    const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (reduce.rank == 0) reduce.first_reduced = is_reduced;
    const bool join = reduce.rank > 0 && is_reduced == last_reduced;
    if (!join) reduce.dims[reduce.rank++] = 1;
    reduce.dims[reduce.rank - 1] *= x.shape[axis];
    last_reduced = is_reduced;
  }
  if (reduce.rank == 0) reduce.dims[reduce.rank++] = 1;
  return reduce;
}

std::size_t reduce_scratch_bytes(const Reduce& reduce, int) {
  const ReducePlan plan = plan_of(reduce);
  if (plan.pieces <= 1) return 0;
  return plan.outputs() * plan.pieces * dtype_bytes(arithmetic_dtype(reduce.dtype));
}

void run_reduce(const Reduce& reduce, const void* x, void* out, void* scratch, const Worker& worker) {
  switch (arithmetic_dtype(reduce.dtype)) {
    case DType::f32: return reduce_all<float>(reduce, x, out, scratch, worker);
    case DType::f64: return reduce_all<double>(reduce, x, out, scratch, worker);
    default: return reduce_all<std::int32_t>(reduce, x, out, scratch, worker);
  }
}

Argmax make_argmax(const Type& x, int axis) {
  Argmax argmax;
  argmax.dtype = x.dtype;
  for (int i = 0; i < x.shape.rank(); ++i)
    (i < axis ? argmax.outer : i == axis ? argmax.axis : argmax.inner) *= x.shape[i];
  return argmax;
}

void run_argmax(const Argmax& argmax, const void* x, std::int32_t* out, const Worker& worker) {
  switch (argmax.dtype) {
    case DType::f32: return argmax_share(argmax, static_cast<const float*>(x), out, worker);
    case DType::f64: return argmax_share(argmax, static_cast<const double*>(x), out, worker);
    default: return argmax_share(argmax, static_cast<const std::int32_t*>(x), out, worker);
  }
}

}  // namespace unroll::cpu
