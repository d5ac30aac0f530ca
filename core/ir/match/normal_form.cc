// SPDX-License-Identifier: Apache-2.0
// tanh(x) = 2 s(2x) - 1, 1 / (1 + e^x) = s(-x), s(-x) = 1 - s(x): all three are written in s of an argument whose sign
// does not depend on the order of its terms. A product with a matrix is cut where its operands or its readers are.
#include "core/ir/match/normal_form.h"

#include <algorithm>
#include <array>
#include <variant>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using namespace polynomials;

constexpr std::size_t k_most_atoms = 4096;
using Grid = std::vector<std::vector<MatrixPart>>;  // rows of blocks, each row of blocks of one height
using Known = std::variant<std::monostate, Row, Grid>;

class Forms {
 public:
  explicit Forms(Atoms& atoms) : atoms_(atoms) {}

  std::vector<Known> outputs(const Graph& graph, const std::vector<Known>& inputs) {
    std::vector<std::vector<Known>> known(graph.nodes().size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      known[graph.inputs()[i].value.node] = {inputs[i]};
    const auto at = [&](const ValueId& id) {
      return known[id.node][id.output];
    };
    for (std::size_t n = 0; n < known.size(); ++n) {
      const Node& node = graph.nodes()[n];
      if (node.op == Op::input) continue;
      std::vector<Known> operands;
      for (const ValueId& id : node.inputs) operands.push_back(at(id));
      known[n] = node.op == Op::scan ? one_step(node, operands) : std::vector{evaluate(graph, node, operands)};
      known[n].resize(node.outputs.size());
    }
    std::vector<Known> result;
    for (const NamedValue& output : graph.outputs()) result.push_back(at(output.value));
    return result;
  }

 private:
  std::vector<Known> one_step(const Node& node, const std::vector<Known>& operands) {
    const ScanLayout l = scan_layout(node);
    if (l.steps != 1 || l.has_lengths || l.has_reset || l.packed) return {};
    return outputs(*node.body, operands);
  }

  Known evaluate(const Graph& graph, const Node& node, const std::vector<Known>& operands) {
    const Type& type = node.outputs[0];
    if (!is_float(type.dtype)) return {};
    if (node.op == Op::constant) return splat(*node.attributes.get<std::shared_ptr<const Tensor>>("value"));
    if (operands.empty()) return {};
    const Shape from = graph.type(node.inputs[0]).shape;
    if (node.op == Op::matmul) return matrix_product(node, operands);
    if (op_info(node.op).kind == OpKind::move)
      return std::holds_alternative<Grid>(operands[0]) ? moved_matrix(node, operands) : moved_row(node, from, operands);
    std::vector<Row> rows;
    for (const Known& operand : operands) {
      if (!std::holds_alternative<Row>(operand)) return {};
      rows.push_back(std::get<Row>(operand));
    }
    return is_elementwise(node.op) && node.attributes.all().empty() ? elementwise(node.op, std::move(rows)) : Known{};
  }

  static Known splat(const Tensor& tensor) {
    for (std::int64_t i = 1; i < tensor.elements(); ++i)
      if (tensor.at(i) != tensor.at(0)) return {};
    return tensor.elements() == 0 ? Known{} : Row{{1, number(tensor.at(0))}};
  }

  // Rows
  static std::int64_t width(const Row& row) {
    std::int64_t total = 0;
    for (const Segment& s : row) total += s.width;
    return total;
  }
  Polynomial slice(const Polynomial& p, std::int64_t start, std::int64_t size) {
    Polynomial result;
    for (const auto& [monomial, coefficient] : p) {
      Monomial m;
      for (const int a : monomial) m.push_back(slice(a, start, size));
      std::sort(m.begin(), m.end());
      result = sum(result, {{std::move(m), coefficient}}, 1);
    }
    return result;
  }
  int slice(int id, std::int64_t start, std::int64_t size) {
    Atom atom = atoms_[id];  // a copy: interning moves the table
    if (atom.kind == Atom::Kind::part && atom.size != 1) {
      atom.start += start;
      atom.size = size;
    } else if (atom.kind == Atom::Kind::product && atom.matrix.rows != 1) {
      atom.matrix.row += start;
      atom.matrix.rows = size;
    } else if (atom.kind == Atom::Kind::function) {
      for (Polynomial& p : atom.arguments) p = slice(p, start, size);
    }
    return intern(std::move(atom));
  }
  Row slice(const Row& row, std::int64_t start, std::int64_t size) {
    Row result;
    for (const Segment& s : row) {
      const std::int64_t from = std::max<std::int64_t>(start, 0), to = std::min(start + size, s.width);
      const bool all = from == 0 && to == s.width;
      if (from < to) result.push_back({to - from, all ? s.value : slice(s.value, from, to - from)});
      start -= s.width;
    }
    return result;
  }
  // Neighboring parts of one input, and products of one row with neighboring rows of one matrix, are one segment.
  void append(Row& row, const Segment& s) {
    const auto single = [](const Polynomial& p) { return p.size() == 1 && p.begin()->first.size() == 1; };
    if (!row.empty() && single(row.back().value) && single(s.value) &&
        row.back().value.begin()->second == s.value.begin()->second) {
      Atom a = atoms_[row.back().value.begin()->first[0]];
      const Atom &b = atoms_[s.value.begin()->first[0]], before = a;
      const bool same_kind = a.kind == b.kind && a.kind != Atom::Kind::function;
      if (a.start + a.size == b.start) a.size += b.size;
      if (a.matrix.row + a.matrix.rows == b.matrix.row) a.matrix.rows += b.matrix.rows;
      Atom rest = a;  // what b would be if it were the end of a
      rest.start = b.start, rest.size = b.size, rest.matrix.row = b.matrix.row, rest.matrix.rows = b.matrix.rows;
      if (same_kind && a != before && rest == b) {
        row.back() = {row.back().width + s.width, {{{intern(std::move(a))}, s.value.begin()->second}}};
        return;
      }
    }
    row.push_back(s);
  }
  int intern(Atom atom) {
    if (atoms_.size() > k_most_atoms) throw TooLarge{};
    return atoms_.intern(std::move(atom));
  }
  Polynomial function(Op op, std::vector<Polynomial> arguments) {
    Atom atom{.kind = Atom::Kind::function, .op = op, .arguments = std::move(arguments)};
    return {{{intern(std::move(atom))}, 1.0}};
  }

  // True if x rather than -x stands for both. Products with matrices decide, then products, then the rest.
  bool is_positive(const Polynomial& x) const {
    double with_matrix = 0, of_several = 0, of_one = 0;
    for (const auto& [monomial, coefficient] : x) {
      const bool has = std::any_of(monomial.begin(), monomial.end(),
          [&](int a) { return atoms_[a].kind == Atom::Kind::product; });
      (has ? with_matrix : monomial.size() > 1 ? of_several : of_one) += coefficient;
    }
    for (const double total : {with_matrix, of_several, of_one})
      if (total != 0) return total > 0;
    return x.begin()->second > 0;
  }
  Polynomial sigmoid_of(const Polynomial& x) {
    if (x.empty()) return number(0.5);
    if (is_positive(x)) return function(Op::sigmoid, {x});
    return sum(number(1), function(Op::sigmoid, {scaled(x, -1)}), -1);
  }
  Polynomial reciprocal(const Polynomial& x) {
    if (is_number(x) && !x.empty()) return number(1 / number_of(x));
    const auto one = x.find({});
    if (x.size() == 2 && one != x.end()) {  // k (1 + e^y)
      const auto& [monomial, coefficient] = *std::next(x.begin());
      if (monomial.size() == 1 && coefficient == one->second && atoms_[monomial[0]].op == Op::exp)
        return scaled(sigmoid_of(scaled(Polynomial(atoms_[monomial[0]].arguments[0]), -1)), 1 / coefficient);
    }
    return function(Op::div, {x});
  }
  Polynomial apply(Op op, const std::vector<Polynomial>& x) {
    switch (op) {
      case Op::add: return sum(x[0], x[1], 1);
      case Op::sub: return sum(x[0], x[1], -1);
      case Op::neg: return scaled(x[0], -1);
      case Op::mul: return product(x[0], x[1]);
      case Op::div: return product(x[0], reciprocal(x[1]));
      case Op::sigmoid: return sigmoid_of(x[0]);
      case Op::tanh: return sum(scaled(sigmoid_of(scaled(x[0], 2)), 2), number(1), -1);
      case Op::maximum:
      case Op::minimum: return function(op, x[1] < x[0] ? std::vector{x[1], x[0]} : x);
      default: return function(op, x);
    }
  }
  // Segments are cut until all operands have the same.
  Row elementwise(Op op, std::vector<Row> rows) {
    std::int64_t widest = 0;
    for (const Row& row : rows) widest = std::max(widest, width(row));
    for (Row& row : rows)
      if (width(row) == 1 && widest > 1) row[0].width = widest;  // the same for every element
    Row result;
    for (std::int64_t start = 0; start < widest;) {
      std::int64_t size = widest - start;
      for (const Row& row : rows) size = std::min(size, slice(row, start, widest - start)[0].width);
      std::vector<Polynomial> x;
      for (const Row& row : rows) x.push_back(slice(row, start, size)[0].value);
      result.push_back({size, apply(op, x)});
      start += size;
    }
    return result;
  }

  Known moved_row(const Node& node, const Shape& from, const std::vector<Known>& operands) {
    const Shape& to = node.outputs[0].shape;
    if (!std::holds_alternative<Row>(operands[0])) return {};
    const Row& x = std::get<Row>(operands[0]);
    const auto last = [](const Shape& s) { return s.rank() == 0 ? 1 : s[s.rank() - 1]; };
    const auto axis = [&] { return static_cast<int>(node.attributes.get<std::int64_t>("axis")); };
    switch (node.op) {
      case Op::reshape: return last(from) == last(to) ? operands[0] : Known{};
      case Op::broadcast: {
        Row wide = x;
        if (width(x) == 1 && last(to) > 1) wide[0].width = last(to);
        return wide;
      }
      case Op::slice:
        if (from == to) return operands[0];
        if (axis() != from.rank() - 1) return {};
        return width(x) == last(from) ? Known(slice(x, node.attributes.get<std::int64_t>("start"), last(to))) : Known{};
      case Op::pad: {
        if (axis() != from.rank() - 1 || width(x) != last(from)) return {};
        Row padded;
        const auto low = node.attributes.get<std::int64_t>("low"), high = node.attributes.get<std::int64_t>("high");
        if (low > 0) padded.push_back({low, {}});
        padded.insert(padded.end(), x.begin(), x.end());
        if (high > 0) padded.push_back({high, {}});
        return padded;
      }
      case Op::concat: {
        if (axis() != from.rank() - 1) return {};
        Row joined;
        for (const Known& operand : operands) {
          if (!std::holds_alternative<Row>(operand)) return {};
          for (const Segment& s : std::get<Row>(operand)) append(joined, s);
        }
        return width(joined) == last(to) ? Known(joined) : Known{};
      }
      default: return {};
    }
  }

  // Matrices
  static std::int64_t columns(const std::vector<MatrixPart>& blocks) {
    std::int64_t total = 0;
    for (const MatrixPart& block : blocks) total += block.columns;
    return total;
  }
  static std::optional<Grid> transposed(const Grid& grid) {
    for (const auto& blocks : grid) {
      if (blocks.size() != grid[0].size()) return std::nullopt;
      for (std::size_t c = 0; c < blocks.size(); ++c)
        if (blocks[c].columns != grid[0][c].columns) return std::nullopt;
    }
    Grid result(grid[0].size());
    for (const auto& blocks : grid)
      for (std::size_t c = 0; c < blocks.size(); ++c) {
        const MatrixPart& m = blocks[c];
        result[c].push_back({m.input, !m.transposed, m.column, m.columns, m.row, m.rows});
      }
    return result;
  }
  static std::vector<MatrixPart> slice_columns(const std::vector<MatrixPart>& blocks, std::int64_t start,
      std::int64_t size) {
    std::vector<MatrixPart> result;
    for (MatrixPart m : blocks) {
      const std::int64_t whole = m.columns, from = std::max<std::int64_t>(start, 0), to = std::min(start + size, whole);
      start -= whole;
      if (from >= to) continue;
      m.column += from;
      m.columns = to - from;
      result.push_back(m);
    }
    return result;
  }
  static Grid slice_rows(const Grid& grid, std::int64_t start, std::int64_t size) {
    Grid result;
    for (std::vector<MatrixPart> blocks : grid) {
      const std::int64_t whole = blocks[0].rows;
      const std::int64_t from = std::max<std::int64_t>(start, 0), to = std::min(start + size, whole);
      start -= whole;
      if (from >= to) continue;
      for (MatrixPart& m : blocks) {
        m.row += from;
        m.rows = to - from;
      }
      result.push_back(std::move(blocks));
    }
    return result;
  }
  // Neighboring parts of one matrix are one part.
  static void append_columns(std::vector<MatrixPart>& blocks, const MatrixPart& m) {
    if (!blocks.empty()) {
      MatrixPart next = blocks.back();
      next.column += next.columns;
      next.columns = m.columns;
      if (next == m) {
        blocks.back().columns += m.columns;
        return;
      }
    }
    blocks.push_back(m);
  }
  static void append_rows(Grid& grid, const std::vector<MatrixPart>& blocks) {
    bool follows = !grid.empty() && grid.back().size() == blocks.size();
    for (std::size_t c = 0; follows && c < blocks.size(); ++c) {
      MatrixPart next = grid.back()[c];
      next.row += next.rows;
      next.rows = blocks[c].rows;
      follows = next == blocks[c];
    }
    if (!follows) return grid.push_back(blocks);
    for (std::size_t c = 0; c < blocks.size(); ++c) grid.back()[c].rows += blocks[c].rows;
  }
  static Known moved_matrix(const Node& node, const std::vector<Known>& operands) {
    const Grid& m = std::get<Grid>(operands[0]);
    const auto axis = [&] { return node.attributes.get<std::int64_t>("axis"); };
    if (node.op == Op::transpose) {
      if (node.attributes.get<Ints>("permutation") != Ints{1, 0}) return {};
      const auto turned = transposed(m);
      return turned ? Known(*turned) : Known{};
    }
    if (node.op == Op::slice) {
      const auto start = node.attributes.get<std::int64_t>("start"), size = node.attributes.get<std::int64_t>("size");
      if (size == 0) return {};
      if (axis() == 0) return slice_rows(m, start, size);
      Grid result;
      for (const auto& blocks : m) result.push_back(slice_columns(blocks, start, size));
      return result;
    }
    if (node.op != Op::concat) return {};
    Grid joined;
    for (const Known& operand : operands) {
      if (!std::holds_alternative<Grid>(operand)) return {};
      const Grid& part = std::get<Grid>(operand);
      if (axis() == 0 || joined.empty()) {
        for (const auto& blocks : part) append_rows(joined, blocks);
        continue;
      }
      if (part.size() != joined.size()) return {};
      for (std::size_t r = 0; r < part.size(); ++r) {
        if (part[r][0].rows != joined[r][0].rows) return {};
        for (const MatrixPart& block : part[r]) append_columns(joined[r], block);
      }
    }
    return joined;
  }
  Known matrix_product(const Node& node, const std::vector<Known>& operands) {
    if (operands.size() != 2 || node.attributes.get<bool>("transpose_a")) return {};
    if (!std::holds_alternative<Row>(operands[0]) || !std::holds_alternative<Grid>(operands[1])) return {};
    const Row& x = std::get<Row>(operands[0]);
    const Grid& given = std::get<Grid>(operands[1]);
    const auto grid = node.attributes.get<bool>("transpose_b") ? std::optional(given) : transposed(given);
    if (!grid || width(x) != columns((*grid)[0])) return {};
    Row result;
    for (const auto& blocks : *grid) {
      Polynomial total;
      std::int64_t start = 0;
      for (const Segment& s : x) {
        std::int64_t inside = 0;  // of the segment
        for (const MatrixPart& m : slice_columns(blocks, start, s.width)) {
          Atom atom{.kind = Atom::Kind::product, .matrix = m};
          atom.arguments = {m.columns == s.width ? s.value : slice(s.value, inside, m.columns)};
          inside += m.columns;
          total = sum(total, {{{intern(std::move(atom))}, 1.0}}, 1);
        }
        start += s.width;
      }
      result.push_back({blocks[0].rows, std::move(total)});
    }
    return result;
  }

  Atoms& atoms_;
};

}  // namespace

std::vector<std::optional<Row>> normal_forms(Atoms& atoms, const Graph& graph, std::size_t n_rows) {
  std::vector<std::optional<Row>> result(graph.outputs().size());
  std::vector<Known> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Type& type = graph.type(graph.inputs()[i].value);
    const int rank = type.shape.rank();
    const std::int64_t last = rank == 0 ? 1 : type.shape[rank - 1];
    const auto index = static_cast<std::int32_t>(i);
    const bool row = i < n_rows ? rank >= 2 : rank < 2;
    if (!is_float(type.dtype) || type.shape.elements() == 0) inputs.emplace_back();
    else if (row) inputs.emplace_back(Row{{last, {{{atoms.intern({.input = index, .size = last})}, 1.0}}}});
    else if (rank == 2 && i >= n_rows) inputs.emplace_back(Grid{{{index, false, 0, type.shape[0], 0, last}}});
    else inputs.emplace_back();
  }
  try {
    const auto known = Forms(atoms).outputs(graph, inputs);
    for (std::size_t k = 0; k < known.size(); ++k)
      if (std::holds_alternative<Row>(known[k])) result[k] = std::get<Row>(known[k]);
  } catch (const TooLarge&) {
  }
  return result;
}

}  // namespace unroll
