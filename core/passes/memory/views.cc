// SPDX-License-Identifier: Apache-2.0
#include "core/passes/memory/views.h"

#include <algorithm>

#include "unroll/ir/row_sums.h"
#include "unroll/ir/strided_read.h"

namespace unroll {

namespace {

// Strides say the same as dense ones (dimensions of size 1 may have any stride).
bool is_dense(const Shape& shape, const Ints& strides) {
  if (strides.empty()) return true;
  const Ints dense = row_major_strides(shape);
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  return true;
}

// True if the first axes of x, and the others, are the two axes of y.
bool has_rows(const Shape& x, const Shape& y) {
  std::int64_t rows = 1;
  int axis = 0;
  while (axis < x.rank() - 1 && rows < y[0]) rows *= x[axis++];
  return y.rank() == 2 && y.elements() > 0 && rows == y[0];
}

bool rows_are_dense(const Shape& shape, const Ints& strides) {
  return shape.rank() == 2 && strides[0] >= shape[1] && (shape[1] == 1 || strides[1] == 1);
}

bool takes_strides(const Node& reader, const Shape& shape, const Ints& strides) {
  if (is_dense(shape, strides)) return true;
  switch (op_info(reader.op).kind) {
    case OpKind::unary:
    case OpKind::binary:
    case OpKind::compare:
    case OpKind::logical:
    case OpKind::select:
    case OpKind::cast:
    case OpKind::move: return true;
    case OpKind::matmul: return rows_are_dense(shape, strides);
    case OpKind::body: return reader.op == Op::fused || reader.op == Op::fused_reduction;
    default: return false;
  }
}

// Per-value tables are [node][output].
template <class Table>
auto& at(Table& table, const ValueId& id) {
  return table[id.node][id.output];
}

class ViewFinder {
 public:
  ViewFinder(const Graph& graph, const ViewKinds& kinds) : graph_(graph), kinds_(kinds) {
    const auto nodes = graph.nodes();
    readers_.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      readers_[i].resize(nodes[i].outputs.size());
      views_.emplace_back();
      for (std::size_t k = 0; k < nodes[i].outputs.size(); ++k)
        views_[i].push_back({{static_cast<std::int32_t>(i), static_cast<std::int32_t>(k)}, 0, {}});
      for (const ValueId& id : nodes[i].inputs) at(readers_, id).push_back(static_cast<std::int32_t>(i));
    }
    named_.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) named_[i].resize(nodes[i].outputs.size());
    for (const NamedValue& output : graph.outputs()) at(named_, output.value) = true;
  }

  std::vector<std::vector<View>> run() {
    const auto n = static_cast<std::int32_t>(graph_.nodes().size());
    for (std::int32_t i = 0; i < n; ++i) read_view(i);
    if (kinds_.strided)
      for (std::int32_t i = n; i-- > 0;)
        if (graph_.node(i).op == Op::concat) write_views(i);
    return std::move(views_);
  }

 private:
  bool all_take(const ValueId& id, const Shape& shape, const Ints& strides) const {
    if (at(named_, id)) return false;
    return std::all_of(at(readers_, id).begin(), at(readers_, id).end(),
                       [&](std::int32_t reader) { return takes_strides(graph_.node(reader), shape, strides); });
  }

  // A reshape or strided read that only reads its operand in another way.
  void read_view(std::int32_t i) {
    const Node& node = graph_.node(i);
    if (node.inputs.empty()) return;
    const View& from = at(views_, node.inputs[0]);
    const Shape &x = graph_.type(node.inputs[0]).shape, &y = node.outputs[0].shape;
    if (node.op == Op::reshape && is_dense(x, from.strides)) {
      views_[i][0] = {from.root, from.start, {}};
      return;
    }
    if (!kinds_.strided) return;
    const auto read = strided_read(node, x, from.strides.empty() ? row_major_strides(x) : from.strides);
    if (!read) return read_as_rows(i);
    View view{from.root, from.start + read->start, read->strides};
    if (!all_take({i, 0}, y, view.strides)) return read_as_rows(i);
    views_[i][0] = std::move(view);
  }

  // A reshape of strided windows to a matrix [M,K] that only products read.
  void read_as_rows(std::int32_t i) {
    const Node& node = graph_.node(i);
    const View& from = at(views_, node.inputs[0]);
    const Shape &x = graph_.type(node.inputs[0]).shape, &y = node.outputs[0].shape;
    const bool is_strided = !from.strides.empty() && from.strides.back() == 1 && from.viewed.rank() == 0;
    if (!kinds_.windows_as_rows || node.op != Op::reshape || !is_strided || !has_rows(x, y)) return;
    if (at(named_, {i, 0})) return;
    for (const std::int32_t reader : at(readers_, {i, 0}))
      if (graph_.node(reader).op != Op::matmul || graph_.node(reader).inputs.size() != 2) return;
    views_[i][0] = {from.root, from.start, from.strides, x};
  }

  // Parts of a concat that their producer can write where the concat wants them.
  void write_views(std::int32_t i) {
    const Node& node = graph_.node(i);
    const View whole = views_[i][0];
    const Ints strides = whole.strides.empty() ? row_major_strides(node.outputs[0].shape) : whole.strides;
    const auto axis = node.attributes.get<std::int64_t>("axis");
    std::int64_t start = 0;
    for (const ValueId& part : node.inputs) {
      const Node& producer = graph_.node(part.node);
      const Shape& shape = graph_.type(part).shape;
      const bool owns = at(views_, part).root == part && !is_viewed(part);
      const bool writes =
          is_elementwise(producer.op) || producer.op == Op::fused ||
          (producer.op == Op::fused_reduction && rows_per_sum(producer, part.output) == 0);
      const bool row_dense = shape.rank() == 0 || strides.back() == 1 || shape[shape.rank() - 1] == 1;
      const bool once = std::count(node.inputs.begin(), node.inputs.end(), part) == 1;
      if (owns && writes && row_dense && once && all_take(part, shape, strides))
        at(views_, part) = {whole.root, whole.start + start * strides[axis], strides};
      start += shape[static_cast<int>(axis)];
    }
  }

  bool is_viewed(const ValueId& id) const {
    for (const auto& node : views_)
      for (const View& view : node)
        if (view.root == id && &view != &at(views_, id)) return true;
    return false;
  }

  const Graph& graph_;
  const ViewKinds kinds_;
  std::vector<std::vector<View>> views_;
  std::vector<std::vector<std::vector<std::int32_t>>> readers_;
  std::vector<std::vector<char>> named_;
};

}  // namespace

std::vector<std::vector<View>> find_views(const Graph& graph, const ViewKinds& kinds) {
  return ViewFinder(graph, kinds).run();
}

}  // namespace unroll
