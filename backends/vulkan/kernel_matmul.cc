// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/kernels.h"

namespace unroll::vulkan {

namespace {

constexpr std::uint32_t k_tile = 16, k_small_tile = 8;
constexpr int k_fixed_params = 10;

}  // namespace

std::uint32_t product_tile(const Setting& setting) {
  return setting.local_size >= k_tile * k_tile ? k_tile : k_small_tile;
}
std::uint32_t product_invocations(const Setting& setting) { return product_tile(setting) * product_tile(setting); }

Params product_params(const ProductSizes& s) {
  Params p{s.m, s.n, s.k_begin, s.k_end, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row, s.accumulates};
  for (const auto* list : {&s.sizes, &s.a, &s.b, &s.c}) p.insert(p.end(), list->begin(), list->end());
  return p;
}

Words product_shader(const Product& product, const Setting& setting) {
  const std::uint32_t tile = product_tile(setting);
  ModuleOptions options = module_options(setting, product.has_rows ? 4 : 3);
  options.local_size = tile * tile;
  Code c(options);
  c.allow_contraction();
  const Term m = parameter(c, 0), n = parameter(c, 1), k_begin = parameter(c, 2);
  const Term width = c.u(tile), tiles_n = (n + c.u(tile - 1)) / width, tiles_m = (m + c.u(tile - 1)) / width;
  const Term group = c.group_index(), local = c.local_index();
  const Term x = local % width, y = local / width;
  const Term tile_n = group % tiles_n, tile_m = (group / tiles_n) % tiles_m;
  Term matrix = group / tiles_n / tiles_m, total = tiles_n * tiles_m;
  Term a_at = c.u(0), b_at = c.u(0), c_at = c.u(0);
  const int rank = product.batch_rank;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const Term size = parameter(c, k_fixed_params + axis), coordinate = axis > 0 ? matrix % size : matrix;
    if (axis > 0) matrix = matrix / size;
    total = total * size;
    a_at = a_at + coordinate * parameter(c, k_fixed_params + rank + axis);
    b_at = b_at + coordinate * parameter(c, k_fixed_params + 2 * rank + axis);
    c_at = c_at + coordinate * parameter(c, k_fixed_params + 3 * rank + axis);
  }
  Term k_end = parameter(c, 3), m_end = m;
  if (product.has_rows) {
    const Term rows = c.as(Kind::i32, load_element(c, 3, c.u(0), DType::i32));
    const Term counted = c.as(Kind::u32, c.select(rows < c.i(0), c.i(0), rows));
    if (product.rows_limit_k) k_end = c.select(counted < k_end, counted, k_end);
    else m_end = c.select(counted < m, counted, m);
  }
  // Padding each row keeps the invocations of a column off one bank.
  const Shared a_tile = c.shared(Kind::f32, tile * (tile + 1)), b_tile = c.shared(Kind::f32, tile * (tile + 1));
  const Term pitch = c.u(tile + 1);
  const Term row = tile_m * width + y, column = tile_n * width + x;
  c.when(group < total, [&] {
    const Local sum = c.local(c.f(0));
    const Term a_row = parameter(c, 4), a_column = parameter(c, 5), b_row = parameter(c, 6), b_column = parameter(c, 7);
    c.loop(k_begin, k_end, width, [&](Term k) {
      const Local a = c.local(c.f(0)), b = c.local(c.f(0));
      c.when((row < m_end) & (k + x < k_end), [&] {
        a.set(load_element(c, 0, a_at + row * a_row + (k + x) * a_column, DType::f32));
      });
      c.when((column < n) & (k + y < k_end), [&] {
        b.set(load_element(c, 1, b_at + (k + y) * b_row + column * b_column, DType::f32));
      });
      a_tile.set(y * pitch + x, a.get());
      b_tile.set(y * pitch + x, b.get());
      c.barrier();
      Term part = sum.get();
      for (std::uint32_t i = 0; i < tile; ++i)
        part = part + a_tile.get(y * pitch + c.u(i)) * b_tile.get(c.u(i) * pitch + x);
      sum.set(part);
      c.barrier();
    });
    c.when((row < m) & (column < n), [&] {
      const Term at = c_at + row * parameter(c, 8) + column;
      c.when(parameter(c, 9) != c.u(0), [&] { sum.set(load_element(c, 2, at, DType::f32) + sum.get()); });
      store_element(c, 2, at, sum.get());
    });
  });
  return c.finish();
}

}  // namespace unroll::vulkan
