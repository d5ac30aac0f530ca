// SPDX-License-Identifier: Apache-2.0
// The shader of a whole loop: products. And what an invocation has to do in a step.
#include <algorithm>
#include <bit>

#include "backends/vulkan/scan/loop_writer.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using Index = std::int64_t;


}  // namespace

// Calls `add` for each term, in order.
void LoopWriter::terms(Term first, Index count, const std::function<void(Term k)>& add) {
  const Index whole = count / t_.unrolled * t_.unrolled;
  if (whole > 0)
    c_.loop(c_.u(0), u(whole), c_.u(t_.unrolled), [&](Term k) {
      for (std::uint32_t i = 0; i < t_.unrolled; ++i) add(first + k + c_.u(i));
    });
  for (Index k = whole; k < count; ++k) add(first + u(k));
}

// Sums of parts; `add` adds a term to `sums`.
std::vector<Local> LoopWriter::parts(const LoopProduct& p, const std::vector<Local>& sums,
                                     const std::function<void(Term k)>& add) {
  std::vector<Local> totals;
  for (std::size_t i = 0; i < sums.size(); ++i) totals.push_back(c_.local(c_.f(0)));
  const auto add_part = [&](Term begin, Index count) {
    for (const Local& sum : sums) sum.set(c_.f(0));
    terms(begin, count, add);
    for (std::size_t i = 0; i < sums.size(); ++i) totals[i].set(totals[i].get() + sums[i].get());
  };
  const Index before = (p.k - 1) / p.part * p.part;
  c_.loop(c_.u(0), u(before), u(p.part), [&](Term begin) { add_part(begin, p.part); });
  add_part(u(before), p.k - before);
  return totals;
}

// An invocation has some rows and columns; terms are added in order, as in the product of a step.
void LoopWriter::product(const LoopItem& item) {
  const LoopProduct& p = item.product;
  const auto m = static_cast<std::uint32_t>(shares_rows() ? t_.rows : p.m);
  const LoopTile tile = loop_tile(m, p.n, t_.local_size);
  const Index across = tile.across(p.n);
  const Term valid = shares_rows() ? valid_rows_ : u(p.m), last_row = valid - c_.u(1);
  c_.loop(lane_, u(tile.tasks(m, p.n)), c_.u(t_.local_size), [&](Term task) {
    const Term first = times(task / u(across), tile.rows);
    std::vector<Term> row, line, column, b_at;  // beyond the matrices the last row and column are read
    std::vector<Local> sums;
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      row.push_back(first + c_.u(i));
      line.push_back(times(c_.select(row[i] < last_row, row[i], last_row), p.a_row));
    }
    for (std::uint32_t j = 0; j < tile.columns; ++j) {
      column.push_back(task % u(across) + u(j * across));
      b_at.push_back(times(c_.select(column[j] < u(p.n - 1), column[j], u(p.n - 1)), p.b_column));
    }
    for (std::uint32_t i = 0; i < tile.rows * tile.columns; ++i) sums.push_back(c_.local(c_.f(0)));
    const auto add = [&](Term k) {
      std::vector<Term> b;
      for (const Term& at : b_at)
        b.push_back(widened(p.operands, load(item.inputs[1], at + times(k, p.b_row), p.operands)));
      for (std::uint32_t i = 0; i < tile.rows; ++i) {
        const Term x = widened(p.operands, load(item.inputs[0], line[i] + times(k, p.a_column), p.operands));
        c_.contract([&] {
          for (std::uint32_t j = 0; j < tile.columns; ++j) {
            const Local& sum = sums[i * tile.columns + j];
            sum.set(sum.get() + x * b[j]);
          }
        });
      }
    };
    if (p.part >= p.k) terms(c_.u(0), p.k, add);
    else sums = parts(p, sums, add);
    for (std::uint32_t i = 0; i < tile.rows; ++i)
      for (std::uint32_t j = 0; j < tile.columns; ++j)
        c_.when((row[i] < valid) & (column[j] < u(p.n)), [&] {
          const Term sum = narrowed(p.result, sums[i * tile.columns + j].get());
          for (std::size_t k = 0; k < item.targets.size(); ++k) {
            const LoopProduct::Target& to = p.targets[k];
            store(item.targets[k], times(row[i], to.row) + times(column[j], to.column), sum, p.result);
          }
        });
  });
}

LoopTile loop_tile(std::uint32_t rows, std::int64_t columns, std::uint32_t local_size) {
  LoopTile tile{std::min(8u, std::bit_ceil(rows)), 4};
  while (tile.columns > 1 && (tile.tasks(rows, columns) < local_size || tile.columns > columns)) tile.columns /= 2;
  while (tile.rows > 1 && tile.tasks(rows, columns) < local_size) tile.rows /= 2;
  return tile;
}

std::uint64_t loop_items_iterations(const LoopStep& step, const LoopTiling& tiling, const Limits& limits) {
  const auto rounds = [&](std::uint64_t n) { return (n + tiling.local_size - 1) / tiling.local_size; };
  std::uint64_t all = 1;
  for (const LoopItem& item : step.items) {
    const Expression& e = item.expression;
    const bool shares = step.rows > 0;
    if (item.kind == LoopItem::Kind::product) {
      const LoopProduct& p = item.product;
      const auto m = static_cast<std::uint32_t>(shares ? tiling.rows : p.m);
      all += rounds(static_cast<std::uint64_t>(loop_tile(m, p.n, tiling.local_size).tasks(m, p.n))) *
             (1 + static_cast<std::uint64_t>(p.k / tiling.unrolled + (p.k - 1) / p.part));
      continue;
    }
    const Index elements = shares ? e.shape.elements() / step.rows * tiling.rows : e.shape.elements();
    if (item.kind == LoopItem::Kind::pointwise) {
      all += rounds(static_cast<std::uint64_t>(elements));
      continue;
    }
    const RowLayout layout = loop_row_layout(e, tiling.local_size, limits);
    const Index rows = elements / e.shape[e.shape.rank() - 1], sum = std::max<Index>(e.sum_rows, 1);
    all += (static_cast<std::uint64_t>(rows / sum) + layout.teams - 1) / layout.teams *
           (1 + RowSchedule(e).iterations(layout.lanes) + static_cast<std::uint64_t>(sum));
  }
  return all;
}

}  // namespace unroll::vulkan
