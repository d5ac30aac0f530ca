// SPDX-License-Identifier: Apache-2.0
// Division of a matmul over workers and blocks. The order in which an element of c sums its products depends on k and
// the processor only.
#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/gemm/product_cut.h"
#include "backends/cpu/kernels/kernels.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

using namespace cut;

namespace {

constexpr Index k_alignment = 64;

// A single column is a single row of the transposed matmul, and a stored column is a row if it is contiguous.
Matmul turned(const Matmul& matmul, bool& swapped) {
  Matmul t = matmul;
  swapped = false;
  if (matmul.has_windows()) return t;
  swapped = matmul.n == 1 && matmul.m != 1 && matmul.c_stride == 1;
  if (swapped) {
    std::swap(t.m, t.n);
    std::swap(t.a_stride, t.b_stride);
    std::swap(t.a_batch, t.b_batch);
    t.transpose_a = !matmul.transpose_b;
    t.transpose_b = !matmul.transpose_a;
    t.c_stride = t.n;
  }
  if (t.m == 1 && t.transpose_a && t.a_stride == 1) {
    t.transpose_a = false;
    t.a_stride = t.k;
  }
  if (t.n == 1 && !t.transpose_b && t.b_stride == 1) {
    t.transpose_b = true;
    t.b_stride = t.k;
  }
  return t;
}

using Kernel = MatmulCut::Kernel;
Kernel kernel_of(const Matmul& matmul, Index tile_rows) {
  constexpr Index k_rows_for_dots = 4, k_tiles_without_packing = 2;
  if (matmul.transpose_a || matmul.has_windows() || is_half(matmul.dtype)) return Kernel::blocks;
  if (matmul.transpose_b) return matmul.m <= k_rows_for_dots ? Kernel::dots : Kernel::blocks;
  return matmul.m <= k_tiles_without_packing * tile_rows ? Kernel::rows : Kernel::blocks;
}

MatmulCut cut_matmul(const Matmul& matmul, const GemmKernels& kernels, int parts) {
  return cut_matmul(matmul, kernels.columns, kernels.tile_rows, parts);
}

// Rows of a copied block are this much further apart than their k, so that they map to different cache sets.
Index skew_of(const GemmKernels& kernels) { return std::max<Index>(16, kernels.k_multiple); }

bool is_far_wider(const Matmul& matmul, const GemmKernels& kernels, int parts) {
  constexpr Index k_enough_blocks = 4;
  return parts > 1 && !matmul.transpose_a &&
         panels_of(matmul, kernels) >= k_enough_blocks * parts * cut_of(matmul, kernels).panels;
}
// True if b is far wider than the panels packed at once and a stays in L2: each worker then takes separate blocks of b.
// It reads only blocks that it packed itself, so it needs no barrier.
bool takes_own_blocks(const Matmul& matmul, const GemmKernels& kernels, int parts) {
  constexpr Index k_bytes_of_a = 1 << 20;
  return is_far_wider(matmul, kernels, parts) && matmul.m * matmul.k * stored_bytes(matmul) <= k_bytes_of_a;
}
// Number of packed blocks of b that fit, for any number of rows.
Index blocks_at_once(const Matmul& matmul, const GemmKernels& kernels, int parts) {
  return is_far_wider(matmul, kernels, parts) ? std::max(2, parts) : 2;
}

struct Layout {
  Index block;  // bytes of one packed block of b
  Index worker;  // private bytes of one worker: a block of a, or the ragged panel of b, and behind them windows
  Index windows;  // of `worker`: where windows lie that are transposed or packed
};
Layout layout_of(const Matmul& matmul, Kernel kernel, const GemmKernels& kernels) {
  const Cut cut = cut_of(matmul, kernels);
  const Index panels = std::min(cut.panels, panels_of(matmul, kernels));
  const Index size = bytes_of(kernels.operand);
  const auto aligned = [](Index bytes) { return ceil_div(bytes, k_alignment) * k_alignment; };
  switch (kernel) {
    case Kernel::dots: return {0, 0, 0};
    case Kernel::rows: return {0, aligned(kernels.columns * matmul.k * size), 0};
    case Kernel::blocks: break;
  }
  const Index a_stride = depth_of(kernels, cut.depth) + skew_of(kernels);
  const Index rows = std::min(cut.rows, matmul.m);
  const Index a_block = aligned(converts_a(matmul, kernels) ? rows * a_stride * size : 0);
  const Index a_windows = window_bytes_of_a(matmul, kernels, rows, cut.depth);
  const Index b_windows = matmul.b_windows ? panels * kernels.columns * cut.depth * stored_bytes(matmul) : 0;
  return {aligned(panels * depth_of(kernels, cut.depth) * kernels.columns * size),
          a_block + aligned(std::max(a_windows, b_windows)), a_block};
}

// One matmul of a batch.
struct Product {
  const Matmul& matmul;
  const GemmKernels& kernels;
  const void* a;
  const void* b;
  void* c;
  const Epilogue* epilogue;
  Index windows;  // Layout::windows
  const void* a_at(Index element) const { return at(a, element * stored_bytes(matmul)); }
  const void* b_at(Index element) const { return at(b, element * stored_bytes(matmul)); }
  void* c_at(Index element) const { return at(c, element * bytes_of(matmul.result)); }
  // Call when these elements of c are final.
  void finish(const Block& block) const {
    if (epilogue) epilogue->run(block);
  }
};

// Rows whose results stay in L2 until the epilogue has read them.
Index rows_at_once(const Product& p, const Cut& cut, Index columns) {
  constexpr Index k_enough = 64 * 1024;  // elements
  const Index least = std::min(whole_tiles(p.kernels, 48), cut.rows);
  return p.epilogue ? std::clamp(k_enough / columns / least * least, least, cut.rows) : cut.rows;
}

// m rows of a from [row, k0] on, `depth` of each, in the layout that the kernels read.
struct Rowwise {
  const void* a;
  Index stride;
};
Rowwise rows_of_a(const Product& p, Index row, Index m, Index k0, Index depth, void* a_block) {
  const Matmul& mm = p.matmul;
  if (!converts_a(mm, p.kernels)) return {p.a_at(row * mm.a_stride + k0), mm.a_stride};
  const Index stride = depth_of(p.kernels, depth) + skew_of(p.kernels);
  copy_a(mm, p.kernels, p.a, {row, m, k0, depth}, a_block, stride, at(a_block, p.windows));
  return {a_block, stride};
}

// Computes rows [range) of c, columns of panels [begin, end) of the block at `column`. `step`: the block of k.
void multiply_rows_of(const Product& p, Range rows, const Cut& cut, Index column, Index columns, Index step,
                      const void* packed, Range panels, void* a_block) {
  const Matmul& mm = p.matmul;
  const Index k0 = block_start(p.kernels, mm.k, step, cut.k_steps);
  const Index depth = block_start(p.kernels, mm.k, step + 1, cut.k_steps) - k0;
  const Index panel_stride = depth_of(p.kernels, depth) * p.kernels.columns;
  const Range mine{column + panels.begin * p.kernels.columns,
                   column + std::min(panels.end * p.kernels.columns, columns)};
  const Index at_once = rows_at_once(p, cut, columns);
  for (Index r = rows.begin; r < rows.end; r += at_once) {
    const Index m = std::min(at_once, rows.end - r);
    const Rowwise a = rows_of_a(p, r, m, k0, depth, a_block);
    p.kernels.multiply(m, columns, depth, a.a, a.stride, packed, panel_stride, panels.begin, panels.end, k0 > 0,
                       p.c_at(r * mm.c_stride + column), mm.c_stride, mm.result);
    if (step + 1 == cut.k_steps) p.finish({{r, r + m}, mine});
  }
}

// A block of b: a step of k, and the columns from `column` on.
struct BlockOfB {
  Index step, column, columns;
};
void pack_block(const Product& p, const BlockOfB& block, Range panels, std::byte* packed, void* own) {
  const Matmul& mm = p.matmul;
  const Index steps = cut_of(mm, p.kernels).k_steps, k0 = block_start(p.kernels, mm.k, block.step, steps);
  const Index depth = block_start(p.kernels, mm.k, block.step + 1, steps) - k0;
  const Index panel_stride = depth_of(p.kernels, depth) * p.kernels.columns;
  if (!mm.b_windows) {
    const Index corner = mm.transpose_b ? block.column * mm.b_stride + k0 : k0 * mm.b_stride + block.column;
    return p.kernels.pack(p.b_at(corner), mm.b_stride, mm.transpose_b, depth, block.columns, panels.begin, panels.end,
                          panel_stride, packed);
  }
  const Index first = panels.begin * p.kernels.columns, column = block.column + first;
  const Index columns = std::min(panels.end * p.kernels.columns, block.columns) - first;
  if (columns <= 0) return;
  void* const windows = at(own, p.windows);
  if (mm.transpose_b) mm.b_windows->copy(stored_bytes(mm), p.b, column, columns, k0, depth, windows, depth);
  else mm.b_windows->copy(stored_bytes(mm), p.b, k0, depth, column, columns, windows, columns);
  p.kernels.pack(windows, mm.transpose_b ? depth : columns, mm.transpose_b, depth, columns, 0,
                 panels.end - panels.begin, panel_stride,
                 at(packed, panels.begin * panel_stride * bytes_of(p.kernels.operand)));
}

// Each worker takes separate blocks of b, for all rows of c.
void multiply_own_blocks(const Product& p, std::byte* packed, void* a_block, const Worker& worker) {
  const Matmul& mm = p.matmul;
  const Cut cut = cut_of(mm, p.kernels);
  const Index panels = panels_of(mm, p.kernels);
  const Range mine = worker.share(panels, cut.panels);
  for (Index first = mine.begin; first < mine.end; first += cut.panels) {
    const Index count = std::min(cut.panels, mine.end - first);
    const Index column = first * p.kernels.columns;
    const Index columns = std::min(count * p.kernels.columns, mm.n - column);
    for (Index step = 0; step < cut.k_steps; ++step) {
      pack_block(p, {step, column, columns}, {0, count}, packed, a_block);
      multiply_rows_of(p, {0, mm.m}, cut, column, columns, step, packed, {0, count}, a_block);
    }
  }
}

// All workers together. Two buffers alternate, so one barrier per block of b is enough. No barrier is needed if each
// worker packs and reads its share of one block. `turn` continues from one matmul to the next.
void multiply_blocks(const Product& p, std::byte* blocks, Index block_bytes, void* a_block, int& turn,
                     bool by_rows, const Worker& worker) {
  const Matmul& mm = p.matmul;
  const Index panels = panels_of(mm, p.kernels);
  const Range rows = by_rows ? worker.share(mm.m) : Range{0, mm.m};
  const Cut cut = cut_of(mm, p.kernels);
  const Index k_steps = cut.k_steps;
  const bool wait = by_rows || k_steps > 1 || panels > cut.panels;
  for (Index first = 0; first < panels; first += cut.panels) {
    const Index count = std::min(cut.panels, panels - first);
    const Index column = first * p.kernels.columns;
    const Index columns = std::min(count * p.kernels.columns, mm.n - column);
    const Range mine = worker.share(count);
    for (Index step = 0; step < k_steps; ++step) {
      std::byte* packed = blocks + (turn++ % 2) * block_bytes;
      pack_block(p, {step, column, columns}, mine, packed, a_block);
      if (wait) worker.sync();
      multiply_rows_of(p, rows, cut, column, columns, step, packed, by_rows ? Range{0, count} : mine, a_block);
    }
  }
}

void multiply_one(const Product& p, const MatmulCut& cut, const Layout& layout, void* scratch, int& turn,
                  const Worker& worker) {
  const Matmul& mm = p.matmul;
  std::byte* own =
      at(scratch, blocks_at_once(mm, p.kernels, worker.count) * layout.block + worker.index * layout.worker);
  if (cut.kernel == Kernel::dots) {
    const Range mine = worker.share(mm.n, 4);
    p.kernels.multiply_dots(mm.m, mm.k, p.a, mm.a_stride, p.b, mm.b_stride, mine.begin, mine.end, p.c, mm.c_stride);
    p.finish({{0, mm.m}, mine});
  } else if (cut.kernel == Kernel::rows) {
    const Range mine = worker.share(panels_of(mm, p.kernels));
    p.kernels.multiply_rows(mm.m, mm.n, mm.k, p.a, mm.a_stride, p.b, mm.b_stride, mine.begin, mine.end, own, p.c,
                            mm.c_stride);
    p.finish({{0, mm.m}, {mine.begin * p.kernels.columns, std::min(mine.end * p.kernels.columns, mm.n)}});
  } else if (takes_own_blocks(mm, p.kernels, worker.count)) {
    multiply_own_blocks(p, at(scratch, worker.index * layout.block), own, worker);
  } else {
    multiply_blocks(p, at(scratch, 0), layout.block, own, turn, cut.by_rows, worker);
  }
}

// Offsets of matmul `index` of the batch.
struct Offsets {
  Index a = 0, b = 0, c = 0;
};
Offsets offsets_of(const Matmul& matmul, Index index) {
  Offsets offsets;
  for (int axis = matmul.batch.rank() - 1; axis >= 0; --axis) {
    const Index position = index % matmul.batch[axis];
    index /= matmul.batch[axis];
    offsets.a += position * matmul.a_batch[axis];
    offsets.b += position * matmul.b_batch[axis];
    offsets.c += position * matmul.c_batch[axis];
  }
  return offsets;
}

Shape leading(const Shape& shape) { return Shape(shape.dims().first(shape.rank() - 2)); }

// Returns strides of dense matrices of `matrix` elements with leading dimensions `from`, read as `to`.
Strides batch_strides(const Shape& from, const Shape& to, Index matrix) {
  Strides strides = broadcast_strides(from, to);
  for (auto& stride : strides) stride *= matrix;
  return strides;
}

}  // namespace

Matmul make_matmul(const Type& a, const Type& b, bool transpose_a, bool transpose_b) {
  const int ra = a.shape.rank(), rb = b.shape.rank();
  Matmul mm;
  mm.dtype = a.dtype;
  mm.result = arithmetic_dtype(a.dtype);
  mm.transpose_a = transpose_a;
  mm.transpose_b = transpose_b;
  mm.m = a.shape[transpose_a ? ra - 1 : ra - 2];
  mm.k = a.shape[transpose_a ? ra - 2 : ra - 1];
  mm.n = b.shape[transpose_b ? rb - 2 : rb - 1];
  mm.a_stride = a.shape[ra - 1];
  mm.b_stride = b.shape[rb - 1];
  mm.c_stride = mm.n;
  const Shape a_batch = leading(a.shape), b_batch = leading(b.shape);
  if (b_batch.elements() == 1 && !transpose_a && b_batch.rank() <= a_batch.rank()) {
    mm.m *= a_batch.elements();
    return mm;
  }
  mm.batch = broadcast_shapes(a_batch, b_batch, "matmul");
  mm.a_batch = batch_strides(a_batch, mm.batch, mm.m * mm.k);
  mm.b_batch = batch_strides(b_batch, mm.batch, mm.k * mm.n);
  mm.c_batch = batch_strides(mm.batch, mm.batch, mm.m * mm.n);
  return mm;
}

Matmul first_rows(Matmul matmul, Index rows) {
  Index& stored = matmul.transpose_a ? matmul.k : matmul.m;
  stored = std::clamp<Index>(rows, 0, stored);
  return matmul;
}

MatmulCut cut_matmul(const Matmul& matmul, Index panel_columns, Index tile_rows, int parts) {
  bool swapped = false;
  MatmulCut cut{.matmul = turned(matmul, swapped), .swapped = swapped};
  const Matmul& mm = cut.matmul;
  const Index batch = mm.batch.elements();
  cut.panels = ceil_div(mm.n, panel_columns);
  cut.kernel = kernel_of(mm, tile_rows);
  cut.by_batch = batch >= parts && batch > 1;
  cut.by_rows = split_by_rows(mm.m, cut.panels, cut.by_batch ? 1 : parts);
  return cut;
}

std::size_t matmul_scratch_bytes(const Matmul& matmul, int parts) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  const MatmulCut cut = cut_matmul(matmul, kernels, parts);
  const Matmul& mm = cut.matmul;
  const Layout layout = layout_of(mm, cut.kernel, kernels);
  // A batch divided among workers needs all buffers per worker.
  const Index shared = layout.block * (mm.single() ? blocks_at_once(mm, kernels, parts) : Index{2} * parts);
  return shared + layout.worker * parts;
}

namespace {

void run_products(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker,
                  const Epilogue* epilogue) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  const MatmulCut cut = cut_matmul(matmul, kernels, worker.count);
  const Matmul& mm = cut.matmul;
  if (cut.swapped) std::swap(a, b);
  const Layout layout = layout_of(mm, cut.kernel, kernels);
  const Index size = stored_bytes(mm);
  const Index batch = mm.batch.elements();
  if (mm.m == 0 || mm.n == 0) return;
  if (mm.k == 0) a = b = c;  // empty operands may be null: they are not read
  const Range mine = cut.by_batch ? worker.share(batch) : Range{0, batch};
  const Worker pool = cut.by_batch ? Worker{} : worker;
  if (cut.by_batch) scratch = at(scratch, worker.index * (2 * layout.block + layout.worker));
  int turn = 0;
  for (Index i = mine.begin; i < mine.end; ++i) {
    const Offsets offsets = offsets_of(mm, i);
    const Product product{mm, kernels, at(a, offsets.a * size), at(b, offsets.b * size),
                          at(c, offsets.c * bytes_of(mm.result)), epilogue, layout.windows};
    multiply_one(product, cut, layout, scratch, turn, pool);
  }
}

}  // namespace

void run_matmul(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker) {
  run_products(matmul, a, b, c, scratch, worker, nullptr);
}

void run_matmul(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker,
                const Epilogue& epilogue) {
  if (!matmul.single() || matmul.n < 2)
    throw Error(ErrorKind::internal, "cpu matmul", "only a plain product with several columns has an epilogue");
  run_products(matmul, a, b, c, scratch, worker, &epilogue);
}

bool computes_whole_rows(const Matmul& matmul, int parts) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  const MatmulCut cut = cut_matmul(matmul, kernels, parts);
  if (cut.swapped || cut.kernel != Kernel::blocks) return parts == 1;
  return cut.panels <= cut_of(cut.matmul, kernels).panels && (parts == 1 || cut.by_rows);
}

}  // namespace unroll::cpu
