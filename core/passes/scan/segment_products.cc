// SPDX-License-Identifier: Apache-2.0
// Products that were computed for all steps at once move into the steps of a loop, and so into its segments.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/group/groups.h"
#include "core/passes/scan/segments.h"
#include "unroll/ir/ops.h"

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
    ScanBuilder loop({{"steps", layout_.steps}, {"reverse", layout_.reverse}});
    std::vector<Value> in, sums;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) in.push_back(add(loop, i, values.at(node.inputs[i])));
    Graph& target = values.at(node.inputs[0]).graph();
    for (const Gradient& g : gradients_) sums.push_back(loop.state(filled(target, graph_.type({g.product, 0}), 0)));
    std::vector<Value> others, weights;
    for (const Gradient& g : gradients_) others.push_back(loop.shared_sequence(values.at(g.other)));
    for (const Rows& r : rows_) weights.push_back(loop.shared_constant(values.at(r.weight)));
    const auto out = inline_graph(loop.step(), *node.body, in);
    std::vector<Value> results(out.begin(), out.begin() + layout_.n_states);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const Gradient& g = gradients_[i];
      const Value mine = out[g.output];
      results.push_back(sums[i] + (g.first ? matmul(mine, others[i], g.t) : matmul(others[i], mine, g.t)));
    }
    for (std::size_t k = results.size() - gradients_.size(); k < out.size(); ++k)
      if (!moved_outputs_.contains(static_cast<std::int32_t>(k))) results.push_back(out[k]);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      results.push_back(matmul(out[rows_[i].output], weights[i], rows_[i].t));
    take(loop.emit(results), std::ssize(out), values);
  }

 private:
  Value add(ScanBuilder& loop, std::size_t operand, Value outer) const {
    switch (scan_role(layout_, operand)) {
      case ScanRole::state: return loop.state(outer);
      case ScanRole::sequence: return loop.shared_sequence(outer);
      default: return loop.shared_constant(outer);
    }
  }
  // The results of the new loop stand for those of the old one, and for the products.
  void take(const std::vector<Value>& results, std::int64_t n_outputs, ValueMap& values) const {
    auto next = results.begin();
    for (std::int32_t k = 0; k < layout_.n_states; ++k) values[{loop_, k}] = *next++;
    for (const Gradient& g : gradients_) values[{g.product, 0}] = *next++;
    for (std::int32_t k = layout_.n_states; k < n_outputs; ++k)
      if (!moved_outputs_.contains(k)) values[{loop_, k}] = *next++;
    for (const Rows& r : rows_) values[{r.product, 0}] = reshape(*next++, graph_.type({r.product, 0}).shape);
  }

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
    PerNode<bool> depends(graph_);
    depends[loop_] = true;
    for (std::int32_t n = loop_ + 1; n <= id.node; ++n)
      for (const ValueId& input : graph_.node(n).inputs) depends[n] = depends[n] || depends[input.node];
    return depends[id.node];
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
  const ScanParts parts(at.node, at.operands);
  std::vector<std::optional<RowProduct>> products;
  std::ranges::transform(parts.sequences, std::back_inserter(products), as_row_product);
  if (std::ranges::none_of(products, [](const auto& product) { return product.has_value(); })) return {};
  ScanBuilder loop({{"steps", l.steps}, {"reverse", l.reverse}});
  std::vector<Value> in;
  for (const Value& state : parts.states) in.push_back(loop.state(state));
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (const auto& p = products[i]) in.push_back(matmul(loop.shared_sequence(p->x), loop.shared_constant(p->w), p->t));
    else in.push_back(loop.shared_sequence(parts.sequences[i]));
  }
  for (const Value& constant : parts.constants) in.push_back(loop.shared_constant(constant));
  return loop.emit(inline_graph(loop.step(), *at.node.body, in));
}

std::shared_ptr<const Graph> products_behind_into_steps(const Graph& graph, std::int32_t loop) {
  const ProductsBehind products(graph, loop);
  if (products.empty()) return nullptr;
  Units units{{products.members()}, PerNode<int>(graph, -1)};
  for (const int m : units.members[0]) units.of[m] = 0;
  return with_units(graph, units, [&](const std::vector<int>&, const Boundary&, Graph&, ValueMap& values) {
    products.emit(values);
  });
}

}  // namespace unroll
