// SPDX-License-Identifier: Apache-2.0
// Kernels of the steps of packed loops, which run on the rows of the step, and what stands around such a loop.
#include <string_view>

#include "backends/common/dialect.h"
#include "backends/cuda/kernels/kernels.h"

namespace unroll::cuda {

namespace {

// The rows of each step, cut to 0 .. batch, and those of all earlier steps. Sizes: steps, batch.
constexpr std::string_view k_live_rows = R"(struct KERNEL_sizes { long long sizes[2]; };
extern "C" __global__ void KERNEL(const int* batch_sizes, int* live, KERNEL_sizes n) {
  const int steps = int(n.sizes[0]), batch = int(n.sizes[1]), all = int(gridDim.x * blockDim.x);
  for (int step = int(blockIdx.x * blockDim.x + threadIdx.x); step < steps; step += all) {
    int before = 0, rows = 0;
    for (int t = 0; t <= step; ++t) {
      before += rows;
      rows = batch_sizes[t] < 0 ? 0 : batch_sizes[t] > batch ? batch : batch_sizes[t];
    }
    live[2 * step] = rows;
    live[2 * step + 1] = before;
  }
}
)";

// The steps of a row are as many as have more rows than its number; rows never become more. The state of a row is in
// the copy of its last step, which is the one of all steps in reverse. Sizes: elements, elements of a row, steps,
// elements between the copies, whether in reverse.
constexpr std::string_view k_final_states = R"(struct KERNEL_sizes { long long sizes[5]; };
extern "C" __global__ void KERNEL(const int* live, const TYPE* first, const TYPE* copies, TYPE* last, KERNEL_sizes n) {
  const long long all = (long long)gridDim.x * blockDim.x;
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n.sizes[0]; e += all) {
    const long long row = e / n.sizes[1];
    int low = 0, high = int(n.sizes[2]);
    while (low < high) {
      const int middle = (low + high) / 2;
      if (row < live[2 * middle]) low = middle + 1;
      else high = middle;
    }
    const int step = (n.sizes[4] != 0 ? int(n.sizes[2]) : low) - 1;
    last[e] = low == 0 ? first[e] : copies[(step & 1) * n.sizes[3] + e];
  }
}
)";

// Zeros in the rows of a matrix that are not there. Sizes: rows, columns, strides of both.
constexpr std::string_view k_zero_tail = R"(struct KERNEL_sizes { long long sizes[4]; };
extern "C" __global__ void KERNEL(const int* rows, TYPE* x, KERNEL_sizes n) {
  const long long columns = n.sizes[1], all = (long long)gridDim.x * blockDim.x;
  const long long first = (rows[0] < 0 ? 0 : (long long)rows[0]) * columns;
  for (long long e = first + (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n.sizes[0] * columns; e += all)
    x[e / columns * n.sizes[2] + e % columns * n.sizes[3]] = TYPE(0);
}
)";

}  // namespace

Printed print_zero_tail(DType dtype, const MatrixRows& m) {
  const std::string type = common::memory_type(dtype);
  return {replaced(std::string(k_zero_tail), "TYPE", type),
          {m.rows, m.columns, m.row_stride, m.column_stride},
          blocks_for(m.rows * m.columns),
          k_threads};
}

Printed print_live_rows(std::int64_t steps, std::int64_t batch) {
  return {std::string(k_live_rows), {steps, batch}, blocks_for(steps), k_threads};
}

Printed print_final_states(DType dtype, const std::vector<std::int64_t>& sizes) {
  return {replaced(std::string(k_final_states), "TYPE", common::memory_type(dtype)), sizes, blocks_for(sizes[0]),
          k_threads};
}

std::string for_live_rows(std::string text, const std::vector<std::int64_t>& moves, std::int64_t items) {
  const std::size_t head = text.find(k_kernel_head) + k_kernel_head.size();
  std::string statements;
  for (std::size_t k = 0, at = head; k < moves.size(); ++k) {  // "const float* x0, float* y0, "
    const std::size_t comma = text.find(',', at), name = text.rfind(' ', comma) + 1;
    if (moves[k] > 0)
      statements += "  " + text.substr(name, comma - name) + " += (long long)live[1] * " + std::to_string(moves[k]) +
                    ";\n";
    at = comma + 1;
  }
  if (items > 0) {
    text = replaced(std::move(text), "n.sizes[0]", "live_end");
    statements += "  typedef decltype(n.sizes[0] + n.sizes[0]) live_index;\n"
                  "  const live_index live_end = live_index(live[0]) * " + std::to_string(items) + ";\n";
  }
  const std::size_t last = text.find(k_kernel_last, head);
  text.insert(text.find('\n', last) + 1, statements);
  return text.insert(last, "const int* live, ");
}

}  // namespace unroll::cuda
