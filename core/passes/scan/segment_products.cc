// SPDX-License-Identifier: Apache-2.0
// Products that were computed for all steps at once move into the steps of a loop, and so into its segments.
#include <algorithm>
#include <optional>
#include <set>

#include "core/passes/group/groups.h"
#include "core/passes/scan/segments.h"

namespace unroll {

namespace {

// x [T,B,I] and W when `value` [T,B,N] is x W for all steps at once.
struct RowProduct {
  Value x, w;
  Transposed t;
};
std::optional<RowProduct> as_row_product(Value value) {
  const auto operand = [](Value v, std::size_t i) { return v.graph().value(v.node().inputs[i]); };
  if (value.rank() != 3 || value.node().op != Op::reshape) return std::nullopt;
  const Value product = operand(value, 0);
  if (product.node().op != Op::matmul || product.node().inputs.size() != 2 || product.rank() != 2) return std::nullopt;
  const Transposed t{product.node().attributes.get<bool>("transpose_a"),
      product.node().attributes.get<bool>("transpose_b")};
  const Value rows = operand(product, 0), w = operand(product, 1);
  if (t.a || rows.node().op != Op::reshape) return std::nullopt;
  const Value x = operand(rows, 0);
  const bool of_steps = x.rank() == 3 && x.shape()[0] == value.shape()[0] && x.shape()[1] == value.shape()[1] &&
                        rows.shape() == Shape{x.shape()[0] * x.shape()[1], x.shape()[2]} &&
                            product.shape()[1] == value.shape()[2];
  return of_steps ? std::optional(RowProduct{x, w, t}) : std::nullopt;
}

// Products that read a stack [T,B,N] of a backward loop as rows: with weights, or with the rows of another stack.
class ProductsBehind {
 public:
  ProductsBehind(const Graph& graph, std::int32_t loop) : graph_(graph), loop_(loop),
      layout_(scan_layout(graph.node(loop))) {
    const auto n = static_cast<std::int32_t>(graph.nodes().size());
    for (std::int32_t k = layout_.n_states; k < static_cast<std::int32_t>(graph.node(loop).outputs.size()); ++k)
      if (all_readers_move({loop, k}, n)) moved_outputs_.insert(k);
  }
  bool empty() const { return gradients_.empty() && rows_.empty(); }
  std::vector<int> members() const {
    std::vector<int> all{loop_};
    all.insert(all.end(), members_.begin(), members_.end());
    std::sort(all.begin(), all.end());
    return all;
  }

  void emit(ValueMap& values) const {
    const Node& node = graph_.node(loop_);
    const auto n_states = size_of(layout_.n_states), n_rows = n_states + size_of(layout_.n_sequences);
    SegmentLoop loop;
    std::vector<Value> in, sums;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value outer = values.at(node.inputs[i]);
      in.push_back(i < n_states ? loop.state(outer) : loop.input(outer, i < n_rows));
    }
    Graph& target = values.at(node.inputs[0]).graph();
    for (const Gradient& g : gradients_) sums.push_back(loop.state(filled(target, graph_.type({g.product, 0}), 0)));
    std::vector<Value> others, weights;
    for (const Gradient& g : gradients_) others.push_back(loop.input(values.at(g.other), true));
    for (const Rows& r : rows_) weights.push_back(loop.input(values.at(r.weight), false));
    const auto out = inline_graph(loop.graph(), *node.body, in);
    for (std::size_t k = 0; k < n_states; ++k) loop.next_state(out[k]);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const Gradient& g = gradients_[i];
      const Value mine = out[size_of(g.output)];
      loop.next_state(sums[i] + (g.first ? matmul(mine, others[i], g.t) : matmul(others[i], mine, g.t)));
    }
    for (std::size_t k = n_states; k < out.size(); ++k)
      if (!moved_outputs_.contains(static_cast<std::int32_t>(k))) loop.output(out[k]);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      loop.output(matmul(out[size_of(rows_[i].output)], weights[i], rows_[i].t));
    const auto results = loop.finish(layout_.steps, layout_.reverse, false);
    std::size_t at = 0;
    for (std::int32_t k = 0; k < layout_.n_states; ++k) values[{loop_, k}] = results[at++];
    for (const Gradient& g : gradients_) values[{g.product, 0}] = results[at++];
    for (std::int32_t k = layout_.n_states; k < static_cast<std::int32_t>(out.size()); ++k)
      if (!moved_outputs_.contains(k)) values[{loop_, k}] = results[at++];
    for (const Rows& r : rows_) {
      const Value stack = results[at++];
      values[{r.product, 0}] = reshape(stack, graph_.type({r.product, 0}).shape);
    }
  }

 private:
  struct Gradient {  // d^T x or x^T d over all steps
    std::int32_t product, output;
    ValueId other;  // [T,B,K]
    bool first;     // the loop's stack is the first factor
    Transposed t;
  };
  struct Rows {  // d W
    std::int32_t product, output;
    ValueId weight;
    Transposed t;
  };

  // The stack whose rows `id` is.
  std::optional<ValueId> stack_of(const ValueId& id) const {
    const Node& node = graph_.node(id.node);
    if (node.op != Op::reshape) return std::nullopt;
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = node.outputs[0].shape;
    const bool rows = from.rank() == 3 && from[0] == layout_.steps && to == Shape{from[0] * from[1], from[2]};
    return rows ? std::optional(node.inputs[0]) : std::nullopt;
  }
  bool depends_on_loop(const ValueId& id) const {
    std::vector<bool> depends(graph_.nodes().size(), false);
    depends[size_of(loop_)] = true;
    for (std::size_t n = size_of(loop_) + 1; n <= size_of(id.node); ++n)
      for (const ValueId& input : graph_.nodes()[n].inputs) depends[n] = depends[n] || depends[size_of(input.node)];
    return depends[size_of(id.node)];
  }
  bool all_readers_move(const ValueId& stack, std::int32_t n) {
    if (graph_.type(stack).shape.rank() != 3) return false;
    std::vector<std::int32_t> members;
    std::vector<Gradient> gradients;
    std::vector<Rows> rows;
    for (const NamedValue& output : graph_.outputs())
      if (output.value == stack) return false;
    for (std::int32_t r = 0; r < n; ++r) {
      const Node& reader = graph_.node(r);
      if (std::find(reader.inputs.begin(), reader.inputs.end(), stack) == reader.inputs.end()) continue;
      if (!stack_of({r, 0})) return false;
      members.push_back(r);
      for (const NamedValue& output : graph_.outputs())
        if (output.value.node == r) return false;
      for (std::int32_t p = 0; p < n; ++p) {
        const Node& product = graph_.node(p);
        const auto place = std::find(product.inputs.begin(), product.inputs.end(), ValueId{r, 0});
        if (place == product.inputs.end()) continue;
        if (product.op != Op::matmul || product.inputs.size() != 2 || product.inputs[0] == product.inputs[1])
          return false;
        const Transposed t{product.attributes.get<bool>("transpose_a"), product.attributes.get<bool>("transpose_b")};
        const bool first = place == product.inputs.begin();
        const ValueId other = product.inputs[first ? 1 : 0];
        if (depends_on_loop(other)) return false;
        if (t.a && !t.b) {
          const auto stacked = stack_of(other);
          if (!stacked) return false;
          gradients.push_back({p, stack.output, *stacked, first, t});
        } else if (first && !t.a) {
          rows.push_back({p, stack.output, other, t});
        } else {
          return false;
        }
        members.push_back(p);
      }
    }
    if (gradients.empty() && rows.empty()) return false;
    members_.insert(members_.end(), members.begin(), members.end());
    gradients_.insert(gradients_.end(), gradients.begin(), gradients.end());
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    return true;
  }

  const Graph& graph_;
  std::int32_t loop_;
  ScanLayout layout_;
  std::set<std::int32_t> moved_outputs_;
  std::vector<std::int32_t> members_;
  std::vector<Gradient> gradients_;
  std::vector<Rows> rows_;
};

}  // namespace

std::vector<Value> products_into_steps(const RewriteNode& at) {
  const ScanLayout l = scan_layout(at.node);
  const auto n_states = size_of(l.n_states), n_rows = n_states + size_of(l.n_sequences);
  std::vector<std::optional<RowProduct>> products(at.operands.size());
  bool any = false;
  for (std::size_t i = n_states; i < n_rows; ++i) {
    products[i] = as_row_product(at.operands[i]);
    any = any || products[i];
  }
  if (!any) return {};
  SegmentLoop loop;
  std::vector<Value> in(at.operands.size());
  for (std::size_t i = 0; i < n_states; ++i) in[i] = loop.state(at.operands[i]);
  std::vector<std::pair<Value, Value>> factors(at.operands.size());  // inputs come before all else
  for (std::size_t i = n_states; i < in.size(); ++i) {
    if (products[i]) factors[i] = {loop.input(products[i]->x, true), loop.input(products[i]->w, false)};
    else in[i] = loop.input(at.operands[i], i < n_rows);
  }
  for (std::size_t i = n_states; i < n_rows; ++i)
    if (products[i]) in[i] = matmul(factors[i].first, factors[i].second, products[i]->t);
  const auto out = inline_graph(loop.graph(), *at.node.body, in);
  for (std::size_t k = 0; k < out.size(); ++k) k < n_states ? loop.next_state(out[k]) : loop.output(out[k]);
  return loop.finish(l.steps, l.reverse, false);
}

std::shared_ptr<const Graph> products_behind_into_steps(const Graph& graph, std::int32_t loop) {
  const ProductsBehind products(graph, loop);
  if (products.empty()) return nullptr;
  Units units{{products.members()}, std::vector<int>(graph.nodes().size(), -1)};
  for (const int m : units.members[0]) units.of[size_of(m)] = 0;
  return with_units(graph, units, [&](const std::vector<int>&, const Boundary&, Graph&, ValueMap& values) {
    products.emit(values);
  });
}

}  // namespace unroll
