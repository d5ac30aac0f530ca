// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/kernels/products.h"

namespace unroll::vulkan {

namespace {

constexpr int k_matmul_params = 10;
constexpr std::uint32_t k_quad = 4;

// Writes the shader of a product. Quads are four neighbors: rows of a, or columns of b, at one k.
class MatmulWriter {
 public:
  MatmulWriter(const Product& product, const Setting& setting)
      : p_(product), t_(product.tile), c_(options(product, setting)) {
    c_.allow_contraction();
  }
  Words write();

 private:
  static ModuleOptions options(const Product& p, const Setting& setting) {
    const int own = 1 + p.members + p.has_rows + (p.stores ? p.members : 0) + p.sums;
    ModuleOptions o = module_options(setting, own + (p.epilogue ? p.epilogue->buffers.count : 0));
    o.local_size = p.tile.invocations();
    return o;
  }
  Term param(int index) { return parameter(c_, index); }
  int gate_param(int gate) const { return k_matmul_params + gate; }
  int batch_param(int list, int axis) const { return k_matmul_params + p_.gates + list * p_.batch_rank + axis; }
  int member_param(int member, int index) const {
    return k_matmul_params + p_.gates + 4 * p_.batch_rank + 4 * (member - 1) + index;
  }
  int c_operand(int member = 0) const { return 1 + p_.members + p_.has_rows + member; }
  std::uint32_t gate_columns() const { return t_.columns / static_cast<std::uint32_t>(p_.gates); }
  bool limits_rows() { return (p_.has_rows && !p_.rows_limit_k) || c_.has_live_rows(); }

  // One quad that an invocation loads in each iteration.
  struct Load {
    Term line[k_quad], there[k_quad];  // offset of each neighbor, and whether it exists
    Term k, place;                     // its k within the iteration, and its place in shared memory
    Term used;                         // of the invocation
    bool is_used_by_all;
  };
  std::vector<Load> loads(std::uint32_t lines, bool by_k, const std::function<void(Term quad, Load&)>& locate);
  void load(int operand, const SharedQuads& to, const std::vector<Load>& list, Term begin, Term end, Term stride);
  void choose_member(Term tile);
  void each_member(const std::function<void(int member)>& code);
  void multiply();
  void add_term(const std::vector<Local>& sums, const SharedQuads& a, const SharedQuads& b, Term at);
  void locate_a(Term quad, Load& load);
  void locate_b(Term quad, Load& load);
  Term own_row(std::uint32_t i) const;     // within the tile
  Term own_column(std::uint32_t j) const;  // within the tile
  Term column_in_c(std::uint32_t j);       // of c; units() says whether it is one
  Term unit(std::uint32_t j);
  void store_sums();
  void store_row_sums(const std::vector<Load>& list);
  void epilogue();

  const Product& p_;
  const Tile t_;
  Code c_;
  Term local_, across_, down_, tile_row_, tile_unit_, m_, units_, m_end_, k_begin_, k_end_, a_at_, b_at_, c_at_;
  Term tile_across_, member_, b_row_, b_column_, c_row_;
  std::vector<Local> sums_;  // [own_rows][own_columns]
  std::vector<Local> row_sums_;  // [load of a][k_quad]: of the elements that this invocation loads
};

std::vector<MatmulWriter::Load> MatmulWriter::loads(std::uint32_t lines, bool by_k,
                                        const std::function<void(Term, Load&)>& locate) {
  const std::uint32_t quads = lines / k_quad, all = quads * t_.depth, size = t_.invocations();
  std::vector<Load> list;
  for (std::uint32_t first = 0; first < all; first += size) {
    const Term index = first == 0 ? local_ : local_ + c_.u(first);
    Load load;
    const Term quad = by_k ? index / c_.u(t_.depth) : index % c_.u(quads);
    load.k = by_k ? index % c_.u(t_.depth) : index / c_.u(quads);
    load.place = load.k * c_.u(quads + 1) + quad;  // the padding keeps the invocations off one bank
    load.is_used_by_all = first + size <= all;
    load.used = index < c_.u(all);
    locate(quad, load);
    list.push_back(load);
  }
  return list;
}

// Outside of the matrix the nearest element is read, and zero is kept.
void MatmulWriter::locate_a(Term quad, Load& load) {
  for (std::uint32_t i = 0; i < k_quad; ++i) {
    const Term row = tile_row_ + quad * c_.u(k_quad) + c_.u(i), last = m_ - c_.u(1);
    load.there[i] = row < m_end_;
    load.line[i] = a_at_ + c_.select(row < last, row, last) * param(4);
  }
}
void MatmulWriter::locate_b(Term quad, Load& load) {
  const Term column = quad * c_.u(k_quad), width = c_.u(gate_columns());
  Term within = column, first = param(gate_param(0));
  if (p_.gates > 1) {
    const Term gate = column / width;
    within = column % width;
    for (int g = 1; g < p_.gates; ++g)
      first = c_.select(gate == c_.u(static_cast<std::uint32_t>(g)), param(gate_param(g)), first);
  }
  for (std::uint32_t i = 0; i < k_quad; ++i) {
    const Term unit = tile_unit_ + within + c_.u(i), last = units_ - c_.u(1);
    load.there[i] = unit < units_;
    load.line[i] = b_at_ + (first + c_.select(unit < last, unit, last)) * b_column_;
  }
}

void MatmulWriter::load(int operand, const SharedQuads& to, const std::vector<Load>& list, Term begin, Term end,
                  Term stride) {
  for (std::size_t n = 0; n < list.size(); ++n) {
    const Load& load = list[n];
    const auto move = [&] {
      const Term k = begin + load.k, last = end - c_.u(1), step = c_.select(k < last, k, last) * stride;
      std::array<Term, 4> values;
      for (std::uint32_t i = 0; i < k_quad; ++i) {
        const Term x = widened(p_.operands, load_element(c_, operand, load.line[i] + step, p_.operands));
        values[i] = c_.select(load.there[i] & (k < end), x, c_.f(0));
        if (operand > 0 || !p_.sums) continue;
        const Local& sum = row_sums_[n * k_quad + i];
        sum.set(sum.get() + values[i]);
      }
      to.set(load.place, values);
    };
    if (load.is_used_by_all) move();
    else c_.when(load.used, move);
  }
}

Term MatmulWriter::own_row(std::uint32_t i) const {
  Code& c = *down_.code;
  const std::uint32_t apart = t_.rows / t_.own_rows * k_quad;
  return down_ * c.u(k_quad) + c.u(i / k_quad * apart + i % k_quad);
}
Term MatmulWriter::own_column(std::uint32_t j) const {
  Code& c = *across_.code;
  const std::uint32_t apart = t_.columns / t_.own_columns * k_quad;
  return across_ * c.u(k_quad) + c.u(j / k_quad * apart + j % k_quad);
}

void MatmulWriter::multiply() {
  const std::uint32_t a_quads = t_.rows / k_quad, b_quads = t_.columns / k_quad;
  const SharedQuads a = c_.shared_quads((a_quads + 1) * t_.depth), b = c_.shared_quads((b_quads + 1) * t_.depth);
  const auto a_loads = loads(t_.rows, p_.a_by_k, [&](Term quad, Load& load) { locate_a(quad, load); });
  const auto b_loads = loads(t_.columns, p_.b_by_k, [&](Term quad, Load& load) { locate_b(quad, load); });
  const Term a_step = param(5), depth = c_.u(t_.depth);
  for (std::size_t i = 0; p_.sums && i < a_loads.size() * k_quad; ++i) row_sums_.push_back(c_.local(c_.f(0)));
  const auto add_terms = [&](Term begin, Term end, const std::vector<Local>& sums) {
    c_.loop(begin, end, depth, [&](Term k) {
      load(0, a, a_loads, k, end, a_step);
      each_member([&](int member) { load(1 + member, b, b_loads, k, end, b_row_); });
      c_.barrier();
      c_.loop(c_.u(0), depth, c_.u(t_.unrolled), [&](Term from) {
        for (std::uint32_t i = 0; i < t_.unrolled; ++i) add_term(sums, a, b, from + c_.u(i));
      });
      c_.barrier();
    });
  };
  if (t_.in_blocks) {
    std::vector<Local> block;
    for (std::size_t i = 0; i < sums_.size(); ++i) block.push_back(c_.local(c_.f(0)));
    c_.loop(k_begin_, k_end_, c_.u(k_block_terms), [&](Term begin) {
      for (const Local& sum : block) sum.set(c_.f(0));
      const Term end = begin + c_.u(k_block_terms);
      add_terms(begin, c_.select(end < k_end_, end, k_end_), block);
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].set(sums_[i].get() + block[i].get());
    });
  } else {
    add_terms(k_begin_, k_end_, sums_);
  }
  if (p_.sums) store_row_sums(a_loads);
}

// The term at place `at` of the shared parts of a and b, for all elements of this invocation.
void MatmulWriter::add_term(const std::vector<Local>& sums, const SharedQuads& a, const SharedQuads& b, Term at) {
  const Term a_row = at * c_.u(t_.rows / k_quad + 1), b_row = at * c_.u(t_.columns / k_quad + 1);
  std::vector<Quad> x, y;
  for (std::uint32_t q = 0; q < t_.own_rows / k_quad; ++q)
    x.push_back(a.get(a_row + down_ + c_.u(q * (t_.rows / t_.own_rows))));
  for (std::uint32_t q = 0; q < t_.own_columns / k_quad; ++q)
    y.push_back(b.get(b_row + across_ + c_.u(q * (t_.columns / t_.own_columns))));
  std::vector<Term> columns;
  for (std::uint32_t j = 0; j < t_.own_columns; ++j)
    columns.push_back(y[j / k_quad].at(static_cast<int>(j % k_quad)));
  for (std::uint32_t r = 0; r < t_.own_rows; ++r) {
    const Term row = x[r / k_quad].at(static_cast<int>(r % k_quad));
    for (std::uint32_t j = 0; j < t_.own_columns; ++j) {
      const Local& sum = sums[r * t_.own_columns + j];
      sum.set(sum.get() + row * columns[j]);
    }
  }
}

// The elements of a row that lie `depth` apart were added up by one invocation. Its sums follow in that order.
void MatmulWriter::store_row_sums(const std::vector<Load>& list) {
  const Shared parts = c_.shared(Kind::f32, t_.rows * t_.depth);
  const Term depth = c_.u(t_.depth), quads = c_.u(t_.rows / k_quad + 1);
  for (std::size_t n = 0; n < list.size(); ++n) {
    const auto keep = [&] {
      const Term line = (list[n].place - list[n].k * quads) * c_.u(k_quad);
      for (std::uint32_t i = 0; i < k_quad; ++i)
        parts.set((line + c_.u(i)) * depth + list[n].k, row_sums_[n * k_quad + i].get());
    };
    if (list[n].is_used_by_all) keep();
    else c_.when(list[n].used, keep);
  }
  c_.barrier();
  c_.loop(local_, c_.u(t_.rows), c_.u(t_.invocations()), [&](Term line) {
    const Term row = tile_row_ + line;
    c_.when((tile_across_ == c_.u(0)) & (row < m_), [&] {
      Term sum = parts.get(line * depth);
      for (std::uint32_t i = 1; i < t_.depth; ++i) sum = sum + parts.get(line * depth + c_.u(i));
      store_element(c_, c_operand(p_.members), row, sum, DType::f32);
    });
  });
}

Term MatmulWriter::unit(std::uint32_t j) {
  const Term column = own_column(j);
  return tile_unit_ + (p_.gates > 1 ? column % c_.u(gate_columns()) : column);
}
Term MatmulWriter::column_in_c(std::uint32_t j) {
  if (p_.gates == 1) return unit(j) + param(gate_param(0));
  const Term gate = own_column(j) / c_.u(gate_columns());
  Term first = param(gate_param(0));
  for (int g = 1; g < p_.gates; ++g)
    first = c_.select(gate == c_.u(static_cast<std::uint32_t>(g)), param(gate_param(g)), first);
  return first + unit(j);
}

void MatmulWriter::store_sums() {
  for (std::uint32_t j = 0; j < t_.own_columns; ++j) {
    const Term at = c_at_ + column_in_c(j), is_column = unit(j) < units_;
    for (std::uint32_t r = 0; r < t_.own_rows; ++r) {
      const Term row = tile_row_ + own_row(r);
      c_.when(is_column & (row < m_end_), [&] {
        const Term sum = narrowed(p_.result, sums_[r * t_.own_columns + j].get());
        each_member([&](int member) { store_element(c_, c_operand(member), at + row * c_row_, sum, p_.result); });
      });
    }
  }
}

// The sums of the tile go through shared memory, so that neighboring invocations compute neighboring units.
void MatmulWriter::epilogue() {
  const Epilogue& e = *p_.epilogue;
  const Shared sums = c_.shared(Kind::f32, t_.rows * t_.columns);
  for (std::uint32_t r = 0; r < t_.own_rows; ++r)
    for (std::uint32_t j = 0; j < t_.own_columns; ++j)
      sums.set(own_row(r) * c_.u(t_.columns) + own_column(j), sums_[r * t_.own_columns + j].get());
  c_.barrier();
  const Term width = c_.u(gate_columns());
  c_.loop(local_, c_.u(t_.rows * gate_columns()), c_.u(t_.invocations()), [&](Term element) {
    const Term within_row = element / width, within = element % width;
    const Term row = tile_row_ + within_row, unit = tile_unit_ + within;
    c_.when((row < m_end_) & (unit < units_), [&] {
      std::vector<Term> given(e.gates.size());
      for (std::size_t i = 0; i < given.size(); ++i)
        if (e.gates[i] == Epilogue::k_ran_before) given[i] = row < c_.rows_before();
        else if (e.gates[i] >= 0)
          given[i] = narrowed(p_.result,
                              sums.get(within_row * c_.u(t_.columns) +
                                       c_.u(static_cast<std::uint32_t>(e.gates[i]) * gate_columns()) + within));
      const ExpressionPlace place{c_operand() + p_.stores, batch_param(4, 0), &e.buffers};
      write_expression(c_, e.expression, place, row * units_ + unit, given);
    });
  });
}

// Tiles of the first member's columns come first, then those of the second.
void MatmulWriter::choose_member(Term tile) {
  tile_across_ = tile;
  member_ = c_.u(0);
  const Term width = c_.u(gate_columns());
  Term begin = c_.u(0);
  for (int member = 0; member < p_.members; ++member) {
    const Term units = member == 0 ? param(1) : param(member_param(member, 0));
    if (member == 0) units_ = units, b_row_ = param(6), b_column_ = param(7), c_row_ = param(8), tile_unit_ = tile;
    else {
      const Term is_it = tile >= begin;
      const auto take = [&](Term& value, Term own) { value = c_.select(is_it, own, value); };
      take(member_, c_.u(static_cast<std::uint32_t>(member)));
      take(units_, units);
      take(b_row_, param(member_param(member, 1)));
      take(b_column_, param(member_param(member, 2)));
      take(c_row_, param(member_param(member, 3)));
      take(tile_unit_, tile - begin);
    }
    begin = begin + (units + width - c_.u(1)) / width;
  }
  tile_unit_ = tile_unit_ * width;
}
void MatmulWriter::each_member(const std::function<void(int member)>& code) {
  for (int member = 0; member < p_.members; ++member) {
    if (p_.members == 1) code(0);
    else c_.when(member_ == c_.u(static_cast<std::uint32_t>(member)), [&] { code(member); });
  }
}

Words MatmulWriter::write() {
  m_ = param(0);
  local_ = c_.local_index();
  const Term size_down = c_.u(t_.rows), size_across = c_.u(gate_columns());
  Term tiles_across = (param(1) + c_.u(gate_columns() - 1)) / size_across;
  for (int member = 1; member < p_.members; ++member)
    tiles_across = tiles_across + (param(member_param(member, 0)) + c_.u(gate_columns() - 1)) / size_across;
  const Term tiles_down = (m_ + c_.u(t_.rows - 1)) / size_down;
  const Term group = c_.group_index();
  choose_member(group % tiles_across);
  Term rest = group / tiles_across;
  tile_row_ = rest % tiles_down * size_down;
  rest = rest / tiles_down;
  a_at_ = b_at_ = c_at_ = c_.u(0);
  for (int axis = p_.batch_rank - 1; axis >= 0; --axis) {
    const Term size = param(batch_param(0, axis)), coordinate = rest % size;
    rest = rest / size;
    a_at_ = a_at_ + coordinate * param(batch_param(1, axis));
    b_at_ = b_at_ + coordinate * param(batch_param(2, axis));
    c_at_ = c_at_ + coordinate * param(batch_param(3, axis));
  }
  // The rest of the group's number is its part.
  const Term k = param(2), length = param(3), parts = (k + length - c_.u(1)) / length;
  k_begin_ = rest * length;
  k_end_ = c_.select(k_begin_ + length < k, k_begin_ + length, k);
  c_at_ = c_at_ + rest * param(9);
  m_end_ = m_;
  if (p_.has_rows) {
    const Term rows = c_.as(Kind::i32, load_element(c_, 2, c_.u(0), DType::i32));
    const Term counted = c_.as(Kind::u32, c_.select(rows < c_.i(0), c_.i(0), rows));
    Term& limit = p_.rows_limit_k ? k_end_ : m_end_;
    limit = c_.select(counted < limit, counted, limit);
  }
  if (c_.has_live_rows()) m_end_ = c_.select(c_.live_rows() < m_end_, c_.live_rows(), m_end_);
  // A tile without rows adds up nothing.
  if (limits_rows()) k_end_ = c_.select(tile_row_ < m_end_, k_end_, k_begin_);
  down_ = local_ / c_.u(t_.columns / t_.own_columns);
  across_ = local_ % c_.u(t_.columns / t_.own_columns);
  c_.when((rest < parts) | (rest == c_.u(0)), [&] {
    for (std::uint32_t i = 0; i < t_.own_rows * t_.own_columns; ++i) sums_.push_back(c_.local(c_.f(0)));
    multiply();
    if (p_.stores) store_sums();
    if (p_.epilogue) epilogue();
  });
  return c_.finish();
}

}  // namespace

std::uint32_t ProductSizes::matrices() const {
  std::uint32_t n = 1;
  for (const std::uint32_t size : sizes) n *= size;
  return n;
}

std::string product_key(const Product& p) {
  std::string key = "m" + std::to_string(p.batch_rank) + (p.has_rows ? (p.rows_limit_k ? "k" : "m") : "") +
                    (p.a_by_k ? "a" : "") + (p.b_by_k ? "b" : "") + (p.stores ? "c" : "") + (p.sums ? "s" : "") +
                    std::to_string(p.members);
  const Tile& t = p.tile;
  for (const std::uint32_t n : {t.rows, t.columns, t.own_rows, t.own_columns, t.depth, t.unrolled,
                                std::uint32_t{t.in_blocks}, static_cast<std::uint32_t>(p.gates),
                                static_cast<std::uint32_t>(p.operands),
                                static_cast<std::uint32_t>(p.result)})
    key += "," + std::to_string(n);
  if (!p.epilogue) return key;
  for (const int gate : p.epilogue->gates)
    key += gate == Epilogue::k_ran_before ? "<." : gate < 0 ? "." : std::to_string(gate) + ".";
  return key + expression_key(p.epilogue->expression, p.epilogue->buffers);
}

Params product_params(const Product& product, const ProductSizes& s) {
  Params p{s.m, s.units, s.k, s.part, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row, s.c_part};
  for (const auto* list : {&s.first, &s.sizes, &s.a, &s.b, &s.c}) p.insert(p.end(), list->begin(), list->end());
  for (const ProductSizes::Member& each : s.others)
    p.insert(p.end(), {each.units, each.b_row, each.b_column, each.c_row});
  if (product.epilogue) {
    const Params more = expression_params(product.epilogue->expression, product.epilogue->buffers);
    p.insert(p.end(), more.begin(), more.end());
  }
  return p;
}

std::uint64_t product_groups(const Product& p, const ProductSizes& s) {
  const std::uint32_t width = p.tile.columns / static_cast<std::uint32_t>(p.gates);
  std::uint64_t across = (s.units + width - 1) / width;
  for (const ProductSizes::Member& each : s.others) across += (each.units + width - 1) / width;
  return std::uint64_t{(s.m + p.tile.rows - 1) / p.tile.rows} * across * s.matrices() * s.parts();
}

Words product_shader(const Product& product, const Setting& setting) { return MatmulWriter(product, setting).write(); }

}  // namespace unroll::vulkan
