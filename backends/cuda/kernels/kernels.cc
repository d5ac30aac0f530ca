// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/kernels.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "backends/common/print_expression.h"
#include "backends/common/print_rows.h"
#include "backends/cuda/kernels/prelude.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using common::Dialect;

std::string filled(std::string_view text, std::initializer_list<std::pair<const char*, std::string>> words) {
  std::string result(text);
  for (const auto& [from, to] : words) result = replaced(std::move(result), from, to);
  return result;
}

using common::memory_type;
// In which a sum is computed.
std::string sum_type(DType dtype) { return common::register_type(sum_dtype(dtype)); }
// A function from an element to that type, and back.
std::string load(DType dtype) {
  return dtype == DType::bf16 ? "unroll_from_bf16" : dtype == DType::f16 ? "unroll_from_f16" : "";
}
std::string store(DType dtype) {
  return dtype == DType::bf16 ? "unroll_to_bf16" : dtype == DType::f16 ? "unroll_to_f16" : "";
}

std::string sizes_struct(std::size_t n) {
  return "struct KERNEL_sizes { long long sizes[" + std::to_string(n) + "]; };\n";
}

void append(std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
}

// Fused multiply-adds, which the tests on the host have in another form. Numbers of an element along axes whose sizes
// begin at n[first], and their offset by strides behind them.
constexpr std::string_view k_offset = R"(
#ifndef UNROLL_SHIM
__device__ inline float unroll_fma(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double unroll_fma(double a, double b, double c) { return fma(a, b, c); }
#endif
__device__ inline long long unroll_offset(long long number, const long long* axes, int rank) {
  if (rank == 1) return number * axes[1];
  long long at = 0;
  for (int axis = rank - 1; axis >= 0; --axis) {
    at += number % axes[axis] * axes[rank + axis];
    number /= axes[axis];
  }
  return at;
}
)";

// Sizes: 0 m, 1 columns, 2 k, 3 4 strides of a, 5 6 of b, 7 of rows of c, 8 terms of a part, 9 from part to part of c,
// 10 whether rows limit k, 11 rank, then sizes and strides of a, b and c. DEPTH terms of a tile at a time are shared.
// BLOCK terms are added up, then their sum to those before: the rounding error of one chain of all terms may exceed
// what docs/numerics.md allows.
constexpr std::string_view k_product = R"(
extern "C" __global__ void KERNEL(const IN* a, const IN* b, ROWS_PARAMETEROUT* c, KERNEL_sizes n) {
  __shared__ SUM as[DEPTH][HEIGHT + 1], bs[DEPTH][WIDTH + 1];
  const long long m = n.sizes[0], columns = n.sizes[1], k = n.sizes[2], part = n.sizes[8];
  const long long a_row = n.sizes[3], a_column = n.sizes[4], b_row = n.sizes[5], b_column = n.sizes[6];
  const int rank = int(n.sizes[11]), thread = int(threadIdx.x);
  const long long across = (columns + WIDTH - 1) / WIDTH, down = (m + HEIGHT - 1) / HEIGHT;
  const long long tile_column = blockIdx.x % across * WIDTH;
  long long rest = blockIdx.x / across;
  const long long tile_row = rest % down * HEIGHT;
  rest /= down;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const long long* const sizes = n.sizes + 12 + axis;
    const long long coordinate = rest % sizes[0];
    rest /= sizes[0];
    a += coordinate * sizes[rank];
    b += coordinate * sizes[2 * rank];
    c += coordinate * sizes[3 * rank];
  }
  const long long begin = rest * part;
  long long end = begin + part < k ? begin + part : k, m_end = m;
  c += rest * n.sizes[9];
ROWS_LIMIT
  const int x = thread % (WIDTH / OWN), y = thread / (WIDTH / OWN);
  SUM sums[OWN][OWN], added[OWN][OWN];
  for (int i = 0; i < OWN; ++i)
    for (int j = 0; j < OWN; ++j) sums[i][j] = SUM(0);
  for (long long block = begin; block < end; block += BLOCK) {
    const long long block_end = block + BLOCK < end ? block + BLOCK : end;
    for (int i = 0; i < OWN; ++i)
      for (int j = 0; j < OWN; ++j) added[i][j] = SUM(0);
    for (long long first = block; first < block_end; first += DEPTH) {
      for (int e = thread; e < DEPTH * HEIGHT; e += THREADS) {
        const int depth = a_column <= a_row ? e % DEPTH : e / HEIGHT, row = a_column <= a_row ? e / DEPTH : e % HEIGHT;
        const bool there = tile_row + row < m_end && first + depth < block_end;
        as[depth][row] = there ? LOAD(a[(tile_row + row) * a_row + (first + depth) * a_column]) : SUM(0);
      }
      for (int e = thread; e < DEPTH * WIDTH; e += THREADS) {
        const int depth = b_row < b_column ? e % DEPTH : e / WIDTH, column = b_row < b_column ? e / DEPTH : e % WIDTH;
        const bool there = tile_column + column < columns && first + depth < block_end;
        bs[depth][column] = there ? LOAD(b[(first + depth) * b_row + (tile_column + column) * b_column]) : SUM(0);
      }
      __syncthreads();
      for (int depth = 0; depth < DEPTH; ++depth) {
        SUM own[OWN];
        for (int j = 0; j < OWN; ++j) own[j] = bs[depth][x + j * (WIDTH / OWN)];
        for (int i = 0; i < OWN; ++i) {
          const SUM left = as[depth][y + i * (HEIGHT / OWN)];
          for (int j = 0; j < OWN; ++j) added[i][j] = unroll_fma(left, own[j], added[i][j]);
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < OWN; ++i)
      for (int j = 0; j < OWN; ++j) sums[i][j] += added[i][j];
  }
  for (int i = 0; i < OWN; ++i)
    for (int j = 0; j < OWN; ++j) {
      const long long row = tile_row + y + i * (HEIGHT / OWN), column = tile_column + x + j * (WIDTH / OWN);
      if (row < m_end && column < columns) c[row * n.sizes[7] + column] = OUT(STORE(sums[i][j]));
    }
}
)";
constexpr std::string_view k_rows_limit = R"(  const long long counted = ROWS < 0 ? 0 : ROWS;
  if (n.sizes[10] != 0) end = counted < end ? counted : end;
  else m_end = counted < m ? counted : m;
  if (tile_row >= m_end) return;)";

constexpr int k_block_terms = 1024;

struct Tile {
  int height, width, own, depth;
  int threads() const { return height / own * (width / own); }
};
constexpr Tile k_large{64, 64, 4, 16}, k_small{16, 32, 2, 32};
// If a product has few large tiles, small ones keep more multiprocessors busy.
Tile tile_of(const device::ProductShape& s) { return s.m >= 64 && s.n >= 64 && s.m * s.n >= 65536 ? k_large : k_small; }
std::int64_t tiles(const device::ProductShape& s, const Tile& t) {
  std::int64_t n = (s.m + t.height - 1) / t.height * ((s.n + t.width - 1) / t.width);
  for (const std::int64_t size : s.matrices.sizes) n *= size;
  return n;
}

// Sizes: 0 outputs, 1 chunks, 2 length, 3 total, 4 rank of kept axes, 5 of reduced ones; sizes and strides of both.
constexpr std::string_view k_reduction = R"(
extern "C" __global__ void KERNEL(const IN* x, OUT* y, KERNEL_sizes n) {
  const long long outputs = n.sizes[0], length = n.sizes[2], total = n.sizes[3];
  const int kept = int(n.sizes[4]), reduced = int(n.sizes[5]);
  const long long* const axes = n.sizes + 6 + 2 * kept;
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < outputs * n.sizes[1]; e += step) {
LIVE_LIMIT    const IN* const from = x + unroll_offset(e % outputs, n.sizes + 6, kept);
    const long long begin = e / outputs * length, end = begin + length < total ? begin + length : total;
    SUM best = NOTHING;
    int place = 0;
    for (long long i = begin; i < end; ++i) {
      const SUM value = LOAD(from[unroll_offset(i, axes, reduced)]);
      STEP
    }
    y[e] = OUT(RESULT);
  }
}
)";
constexpr const char* k_add = "best = ADD;";
// A NaN beats all and stays.
constexpr const char* k_largest = "if (best == best && (value != value || value > best)) best = value;";
constexpr const char* k_first_largest =
    "if (i == begin || (best == best && (value != value || value > best))) best = value, place = int(i);";

constexpr std::string_view k_addition = R"(
extern "C" __global__ void KERNEL(const TYPE* left, const TYPE* right, TYPE* sum, KERNEL_sizes n) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n.sizes[0]; e += step)
    sum[e] = left[e] + right[e];
}
)";
constexpr std::string_view k_gather = R"(
extern "C" __global__ void KERNEL(const TYPE* table, const int* indices, TYPE* y, KERNEL_sizes n) {
  const long long rows = n.sizes[1], size = n.sizes[2], step = (long long)gridDim.x * blockDim.x;
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < n.sizes[0]; e += step) {
    const long long index = indices[e / size];
    y[e] = index >= 0 && index < rows ? table[index * size + e % size] : TYPE(0);
  }
}
)";
constexpr std::string_view k_links = R"(
extern "C" __global__ void KERNEL(const int* indices, int* links, KERNEL_sizes n) {
  const int count = int(n.sizes[0]), step = int(gridDim.x * blockDim.x);
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
    const int index = indices[i];
    int next = i + 1, before = i - 1;
    while (next < count && indices[next] != index) ++next;
    while (before >= 0 && indices[before] != index) --before;
    links[i] = next < count ? next : -1;
    links[count + i] = before < 0 ? 1 : 0;
  }
}
)";
constexpr std::string_view k_scatter = R"(
extern "C" __global__ void KERNEL(const int* indices, const TYPE* updates, const int* links, TYPE* y, KERNEL_sizes n) {
  const long long count = n.sizes[0], rows = n.sizes[1], size = n.sizes[2];
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < count * size; e += step) {
    const long long first = e / size, column = e % size, index = indices[first];
    if (links[count + first] == 0 || index < 0 || index >= rows) continue;
    TYPE best = TYPE(0);
    for (long long i = first; i >= 0; i = links[i]) {
      const TYPE value = updates[i * size + column];
      best = ADD;
    }
    y[index * size + column] = best;
  }
}
)";
// Everything follows from sums over the rows of the batch, so no thread needs the result of another one.
constexpr std::string_view k_pack_lengths = R"(
extern "C" __global__ void KERNEL(const int* lengths, int* batch_sizes, int* order, int* rank, int* pack, int* unpack,
                                  int* rows, KERNEL_sizes n) {
  const int batch = int(n.sizes[0]), steps = int(n.sizes[1]), width = batch == 0 ? 1 : batch;
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x; p < n.sizes[2]; p += step) {
    const int b = int(p % width), t = int(p / width);
    int own = 0, place = 0, before = 0, total = 0, size = 0;
    if (b < batch) own = lengths[b] < 0 ? 0 : lengths[b] > steps ? steps : lengths[b];
    for (int other = 0; other < batch; ++other) {
      const int length = lengths[other] < 0 ? 0 : lengths[other] > steps ? steps : lengths[other];
      place += length > own || (length == own && other < b) ? 1 : 0;
      before += length < t ? length : t;
      total += length;
      size += length > p ? 1 : 0;
    }
    if (p < steps) batch_sizes[p] = size;
    if (p < batch) order[place] = b, rank[b] = place;
    if (p < (long long)batch * steps) {
      if (t < own) pack[before + place] = int(p);
      if (p >= total) pack[p] = -1;
      unpack[p] = t < own ? before + place : -1;
    }
    if (p == 0) rows[0] = total;
  }
}
)";

std::string add_text(DType dtype) {
  return dtype == DType::i32 ? "int(uint(best) + uint(value))" : "best + value";
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::unsupported, "cuda", "has no kernel for " + what, "Use the cpu backend");
}

}  // namespace

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

DType sum_dtype(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

int Kernels::add(const std::string& text, const BlockNeeds& needs) {
  const auto [found, is_new] = numbers_.try_emplace(text, count());
  if (is_new) all_.push_back({text, needs});
  return found->second;
}
int Kernels::add_rows(const std::string& text, const BlockNeeds& needs) {
  has_rows_ = true;
  return add(text, needs);
}
int Kernels::add_loop(const std::string& text, bool has_rows, bool is_resident) {
  has_rows_ = has_rows_ || has_rows;
  has_loops_ = true;
  has_resident_ = has_resident_ || is_resident;
  has_wgmma_ = has_wgmma_ || text.find("unroll_wgmma_sums<") != std::string::npos;
  return add(text);
}
std::string Kernels::source() const {
  std::string text = common::print_prelude(Dialect::cuda).append(k_offset);
  if (has_rows_) text += common::print_row_prelude();
  if (has_loops_) text += loop_prelude();
  if (has_resident_) text += resident_prelude();
  if (has_wgmma_) text += wgmma_prelude();
  for (int kernel = 0; kernel < count(); ++kernel) text += replaced(this->text(kernel), "KERNEL", name(kernel));
  return text;
}

std::int64_t product_parts(const device::ProductShape& s, int multiprocessors) {
  constexpr std::int64_t k_least_terms = 256, k_most_parts = 64;
  const std::int64_t n = tiles(s, tile_of(s)), wanted = 2 * std::int64_t{multiprocessors};
  const auto most = std::clamp<std::int64_t>(s.k / k_least_terms, 1, k_most_parts);
  return std::clamp<std::int64_t>(n == 0 ? 1 : wanted / n, 1, most);
}

Printed print_product(const ProductForm& form, const ProductSizes& sizes) {
  const bool supported = is_float(form.operands) || is_half(form.operands);
  if (!supported) refuse("matmul on " + std::string(dtype_name(form.operands)));
  const device::ProductShape& s = sizes.shape;
  const Tile tile = tile_of(s);
  const bool limits_rows = form.has_rows || form.is_live;
  const auto n = [](int value) { return std::to_string(value); };
  std::vector<std::int64_t> all{s.m,     s.n,     s.k,         s.a_row,      s.a_column,         s.b_row,
                                s.b_column, s.c_row, sizes.part, sizes.c_part, sizes.rows_limit_k,
                                static_cast<std::int64_t>(s.matrices.sizes.size())};
  append(all, s.matrices.sizes);
  for (const auto& strides : s.matrices.strides) append(all, strides);
  const std::string text = sizes_struct(all.size()) +
                           filled(k_product, {{"ROWS_PARAMETER", form.has_rows ? "const int* rows, " : ""},
                                              {"ROWS_LIMIT", limits_rows ? std::string(k_rows_limit) : ""},
                                              {"ROWS", form.is_live ? "live[0]" : "rows[0]"},
                                              {"IN*", memory_type(form.operands) + "*"},
                                              {"OUT", memory_type(form.result)},
                                              {"SUM", sum_type(form.operands)},
                                              {"LOAD", load(form.operands)},
                                              {"STORE", store(form.result)},
                                              {"HEIGHT", n(tile.height)},
                                              {"WIDTH", n(tile.width)},
                                              {"DEPTH", n(tile.depth)},
                                              {"OWN", n(tile.own)},
                                              {"BLOCK", n(k_block_terms)},
                                              {"THREADS", n(tile.threads())}});
  const std::int64_t parts = std::max<std::int64_t>(1, (s.k + sizes.part - 1) / std::max<std::int64_t>(sizes.part, 1));
  const auto threads = static_cast<unsigned>(tile.threads());
  const std::size_t shared = tile.depth * (tile.height + tile.width + 2) * dtype_bytes(sum_dtype(form.operands));
  return {text, all, static_cast<std::uint64_t>(tiles(s, tile) * parts), threads, {shared, threads}};
}

Printed print_reduction(Reduction reduction, DType dtype, const ReductionSizes& sizes) {
  const device::ReductionShape& s = sizes.shape;
  if (dtype == DType::b8) refuse("reductions of b8");
  const bool sums = reduction == Reduction::sum, finds = reduction == Reduction::argmax;
  const DType result = finds ? DType::i32 : sums ? sum_dtype(dtype) : dtype;
  const std::string lowest = dtype == DType::i32 ? "-2147483647 - 1" : "-SUM(__uint_as_float(0x7f800000u))";
  std::vector<std::int64_t> all{s.outputs, sizes.chunks, sizes.length, s.total,
                                static_cast<std::int64_t>(s.kept.sizes.size()),
                                static_cast<std::int64_t>(s.reduced.sizes.size())};
  for (const device::Axes* axes : {&s.kept, &s.reduced}) {
    append(all, axes->sizes);
    append(all, axes->strides[0]);
  }
  const std::string limit =
      "    if (e % outputs >= (long long)live[0] * " + std::to_string(sizes.live_items) + ") continue;\n";
  const std::string text =
      sizes_struct(all.size()) + filled(k_reduction, {{"LIVE_LIMIT", sizes.live_items > 0 ? limit : ""},
                                                      {"STEP", sums ? k_add : finds ? k_first_largest : k_largest},
                                                      {"ADD", add_text(dtype)},
                                                      {"NOTHING", sums ? "SUM(0)" : lowest},
                                                      {"IN*", memory_type(dtype) + "*"},
                                                      {"IN ", memory_type(dtype) + " "},
                                                      {"OUT", memory_type(result)},
                                                      {"SUM", sum_type(dtype)},
                                                      {"LOAD", load(dtype)},
                                                      {"RESULT", finds  ? "place"
                                                                 : sums ? "best"
                                                                        : store(dtype) + "(best)"}});
  return {text, all, blocks_for(s.outputs * sizes.chunks), k_threads};
}

Printed print_addition(DType dtype, std::int64_t n) {
  return {sizes_struct(1) + filled(k_addition, {{"TYPE", memory_type(dtype)}}), {n}, blocks_for(n), k_threads};
}

Printed print_gather(DType dtype, std::int64_t rows, std::int64_t row_size, std::int64_t n) {
  const std::vector<std::int64_t> sizes{n, rows, row_size};
  return {sizes_struct(3) + filled(k_gather, {{"TYPE", memory_type(dtype)}}), sizes, blocks_for(n), k_threads};
}

Printed print_links(std::int64_t n) { return {sizes_struct(1) + std::string(k_links), {n}, blocks_for(n), k_threads}; }

Printed print_scatter(DType dtype, std::int64_t rows, std::int64_t row_size, std::int64_t n) {
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::i32)
    refuse("scatter_add on " + std::string(dtype_name(dtype)));
  return {sizes_struct(3) + filled(k_scatter, {{"TYPE", memory_type(dtype)}, {"ADD", add_text(dtype)}}),
          {n, rows, row_size},
          blocks_for(n * row_size),
          k_threads};
}

Printed print_pack_lengths(std::int64_t batch, std::int64_t steps) {
  const std::int64_t threads = std::max({batch * steps, batch, steps, std::int64_t{1}});
  return {sizes_struct(3) + std::string(k_pack_lengths), {batch, steps, threads}, blocks_for(threads), k_threads};
}

}  // namespace unroll::cuda
