// SPDX-License-Identifier: Apache-2.0
// One statement or loop for each node of a plan.
#include <algorithm>

#include "backends/common/print_expression.h"
#include "backends/common/print_parts.h"
#include "backends/cxx/parts.h"
#include "unroll/ir/strided_read.h"
#include "unroll/support/error.h"

namespace unroll::cxx {

namespace {

using common::Dialect;
using common::Expression;
using common::Strides;

std::string number(Index i) { return std::to_string(i); }
Index axis_of(const Node& node) { return node.attributes.get<Index>("axis"); }

struct At {
  Source& source;
  const Node& node;
  std::int32_t id;

  const Type& type(std::size_t input) const { return source.graph.type(node.inputs[input]); }
  const Shape& shape() const { return node.outputs[0].shape; }
  Place from(std::size_t input) const { return source.place_of(node.inputs[input]); }
  Place to(std::size_t output = 0) const {
    const Type& t = node.outputs[output];
    const Place place = source.make(t.dtype, t.shape.elements());
    source.place({id, static_cast<std::int32_t>(output)}, place);
    return place;
  }
};

// to[strides] = from[other strides], over a shape.
void copy(const At& at, const Shape& shape, const Place& from, const Strides& read, Index first, const Place& to,
          const Strides& written, Index skip) {
  at.source.loops(shape, [&](const std::vector<std::string>& names) {
    at.source.line("  " + to.at(index_text(names, written, skip)) + " = " + from.at(index_text(names, read, first)) +
                   ";");
  });
}

void pointwise(const At& at) {
  const Expression e = at.node.op == Op::fused ? common::expression_of_body(*at.node.body)
                                               : common::expression_of_node(at.source.graph, at.node);
  std::vector<Place> from, to;
  for (std::size_t i = 0; i < at.node.inputs.size(); ++i) from.push_back(at.from(i));
  for (std::size_t k = 0; k < at.node.outputs.size(); ++k) to.push_back(at.to(k));
  at.source.loops(e.shape, [&](const std::vector<std::string>& names) {
    const auto load = [&](std::size_t i) {
      const std::string index = from[i].index(index_text(names, e.inputs[i].strides));
      return common::load_of(e.inputs[i].dtype, from[i].array, index);
    };
    const auto store = [&](std::size_t k, const std::string& variable) {
      const std::string index = to[k].index(index_text(names, e.results[k].strides));
      return common::store_of(to[k].dtype, to[k].array, index, variable);
    };
    at.source.body += common::print_statements(e, Dialect::cpp, {load, store}, "      ");
  });
}

void same_elements(const At& at) { at.source.place({at.id, 0}, at.from(0)); }

void print_strided(const At& at) {
  const auto read = strided_read(at.node, at.type(0).shape, common::dense_strides(at.type(0).shape));
  Strides strides{};
  std::ranges::copy(read->strides, strides.begin());
  copy(at, at.shape(), at.from(0), strides, read->start, at.to(), common::dense_strides(at.shape()), 0);
}
void fill(const At& at, const Place& to, const std::string& value) {
  at.source.line("for (int e = 0; e < " + number(at.shape().elements()) + "; ++e) " + to.at("e") + " = " + value + ";");
}
void print_pad(const At& at) {
  const Strides whole = common::dense_strides(at.shape());
  const Place to = at.to();
  fill(at, to, "0");
  copy(at, at.type(0).shape, at.from(0), common::dense_strides(at.type(0).shape), 0, to, whole,
       at.node.attributes.get<Index>("low") * whole[axis_of(at.node)]);
}
void print_concat(const At& at) {
  const Strides whole = common::dense_strides(at.shape());
  const Place to = at.to();
  Index first = 0;
  for (std::size_t i = 0; i < at.node.inputs.size(); ++i) {
    const Shape& part = at.type(i).shape;
    copy(at, part, at.from(i), common::dense_strides(part), 0, to, whole, first * whole[axis_of(at.node)]);
    first += part[static_cast<int>(axis_of(at.node))];
  }
}

// The strides of the result over the shape of the operand: 0 along the axes that are reduced.
Strides reduced_strides(const Shape& from, const Ints& axes) {
  Strides strides{};
  Index stride = 1;
  for (int axis = from.rank() - 1; axis >= 0; --axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    strides[axis] = stride;
    stride *= from[axis];
  }
  return strides;
}
void print_reduction(const At& at) {
  const Shape& from = at.type(0).shape;
  const Strides read = common::dense_strides(from);
  const Strides written = reduced_strides(from, at.node.attributes.get<Ints>("axes"));
  const bool sums = at.node.op == Op::reduce_sum;
  const Place x = at.from(0), y = at.to();
  const std::string lowest = y.dtype == DType::i32 ? "-2147483647 - 1" : "-std::numeric_limits<float>::infinity()";
  fill(at, y, sums ? "0" : lowest);
  at.source.loops(from, [&](const std::vector<std::string>& names) {
    const std::string to = y.at(index_text(names, written)), v = x.at(index_text(names, read));
    if (sums) at.source.line("  " + to + " += " + v + ";");
    else at.source.line("  if (" + v + " > " + to + " || " + v + " != " + v + ") " + to + " = " + v + ";");
  });
}
void print_argmax(const At& at) {
  const Shape& from = at.type(0).shape;
  const int axis = static_cast<int>(axis_of(at.node));
  const Strides read = common::dense_strides(from), written = reduced_strides(from, {axis});
  const Place x = at.from(0), y = at.to();
  fill(at, y, "0");
  at.source.loops(from, [&](const std::vector<std::string>& names) {
    const std::string to = y.at(index_text(names, written)), d = names[axis];
    std::vector<std::string> best = names;
    best[axis] = to;
    const std::string v = x.at(index_text(names, read)), most = x.at(index_text(best, read));
    at.source.line("  if (" + v + " > " + most + " || (" + v + " != " + v + " && " + most + " == " + most + ")) " + to +
                   " = " + d + ";");
  });
}

void print_iota(const At& at) {
  const Place to = at.to();
  const std::size_t axis = axis_of(at.node);
  at.source.loops(at.shape(), [&](const std::vector<std::string>& names) {
    at.source.line("  " + to.at(index_text(names, common::dense_strides(at.shape()))) + " = " + names[axis] + ";");
  });
}
// An index out of range reads zeros.
void print_gather(const At& at) {
  const Index rows = at.type(0).shape[0], n = at.type(1).shape.elements();
  const Index width = n == 0 ? 0 : at.shape().elements() / n;
  const Place table = at.from(0), ids = at.from(1), to = at.to();
  at.source.line("for (int i = 0; i < " + number(n) + "; ++i) {");
  at.source.line("  const int row = " + ids.at("i") + ";");
  at.source.line("  const bool known = row >= 0 && row < " + number(rows) + ";");
  at.source.line("  for (int e = 0; e < " + number(width) + "; ++e) " + to.at("i * " + number(width) + " + e") +
                 " = known ? " + table.at("row * " + number(width) + " + e") + " : 0;");
  at.source.line("}");
}

struct Row {
  Op op;
  void (*print)(const At& at);
};
constexpr Row k_rows[] = {
    {Op::fused, pointwise},          {Op::reshape, same_elements},   {Op::stop_gradient, same_elements},
    {Op::slice, print_strided},      {Op::transpose, print_strided}, {Op::broadcast, print_strided},
    {Op::windows, print_strided},
    {Op::pad, print_pad},            {Op::concat, print_concat},     {Op::reduce_sum, print_reduction},
    {Op::reduce_max, print_reduction}, {Op::argmax, print_argmax},   {Op::iota, print_iota},
    {Op::gather, print_gather},
};

}  // namespace

void print_node(Source& source, std::int32_t id) {
  const Node& node = source.graph.node(id);
  if (node.op == Op::input || node.op == Op::constant) return;
  if (node.op == Op::matmul) return print_product(source, id);
  const At at{source, node, id};
  for (const Row& row : k_rows)
    if (row.op == node.op) return row.print(at);
  if (is_elementwise(node.op)) return pointwise(at);
  throw Error(ErrorKind::unsupported, "cxx_source", std::string(op_info(node.op).name) + " has no C++ form",
              "Steps with random numbers, loops or sequences of lengths cannot be printed");
}

}  // namespace unroll::cxx
