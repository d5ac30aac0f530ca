// SPDX-License-Identifier: Apache-2.0
// Cuts loops over T steps into loops over at most `steps` of them, one after the other. The loop of a layer then waits
// for the first steps of the layer below only, and stacked layers run side by side (branches.h): a wavefront, as in
// Appleyard et al. 2016, arXiv 1604.01946, section 3.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Index = std::int64_t;

bool can_cut(const Node& node, Index steps) {
  if (node.op != Op::scan || node.attributes.get_or<bool>("segments", false)) return false;
  const ScanLayout l = scan_layout(node);
  return l.n_states > 0 && l.steps > steps && !l.has_reset && !l.packed;
}

struct Steps {
  Index begin, size;
};

// reshape(matmul(reshape(x [T,B,K]), ...)) [T,B,N]: the product of all steps, and the nodes that it is made of.
struct ProductOfSteps {
  std::int32_t product, rows;
  ValueId x;
};

// A longer chain of nodes that are computed step by step is computed whole beyond this many.
constexpr int k_deepest = 64;

class Chunks {
 public:
  Chunks(const Graph& source, Index steps)
      : source_(source), steps_(steps), uses_(count_uses(source)), from_parts_(source) {}

  std::vector<Value> operator()(const RewriteNode& at) {
    operands_[at.id].assign(at.operands.begin(), at.operands.end());
    from_parts_[at.id] = is_from_parts(at.node);
    if (!can_cut(at.node, steps_)) return {};
    return cut(at);
  }

 private:
  std::vector<Value> cut(const RewriteNode& at) {
    const ScanLayout l = scan_layout(at.node);
    ScanParts parts(at.node, at.operands);
    const Value lengths = parts.lengths;
    std::vector<Steps> order;
    for (Index t = 0; t < l.steps; t += steps_) order.push_back({t, std::min(steps_, l.steps - t)});
    if (l.reverse) std::reverse(order.begin(), order.end());
    std::vector<std::vector<Value>> stacks(at.node.outputs.size());  // [output][chunk], in the order of time
    for (const Steps& chunk : order) {
      for (std::size_t i = 0; i < parts.sequences.size(); ++i) {
        const std::size_t operand = parts.states.size() + i;
        parts.sequences[i] = part(at.node.inputs[operand], at.operands[operand], chunk, 0);
      }
      if (lengths) parts.lengths = lengths - static_cast<double>(chunk.begin);
      parts.attributes.set("steps", chunk.size);
      const std::vector<Value> results = parts.emit(at.node.body);
      std::copy_n(results.begin(), parts.states.size(), parts.states.begin());
      for (std::size_t k = parts.states.size(); k < results.size(); ++k) {
        stacks[k].insert(l.reverse ? stacks[k].begin() : stacks[k].end(), results[k]);
        parts_[{at.id, static_cast<std::int32_t>(k)}].emplace(chunk.begin, results[k]);
      }
    }
    std::vector<Value> results = parts.states;
    for (std::size_t k = results.size(); k < stacks.size(); ++k) results.push_back(concat(stacks[k], 0));
    return results;
  }

  // These steps of a value [T,...]: computed from the same steps of loops that are cut, where it comes from them.
  // `depth` nodes computed in parts read it.
  Value part(const ValueId& id, Value whole, const Steps& steps, int depth) {
    auto& known = parts_[id];
    if (const auto at = known.find(steps.begin); at != known.end() && at->second.shape()[0] == steps.size)
      return at->second;
    const Op op = source_.node(id.node).op;
    Value made;
    if (depth == k_deepest) made = slice(whole, 0, steps.begin, steps.size);
    else if (op == Op::reshape && comes_from_parts(id)) made = part_of_product(id.node, steps, depth);
    else if (is_elementwise(op) && (depth > 0 || comes_from_parts(id))) made = part_of_pointwise(id.node, steps, depth);
    else made = slice(whole, 0, steps.begin, steps.size);
    known.insert_or_assign(steps.begin, made);
    return made;
  }

  // Operands of all steps have the rank of the result; others are the same in each. Elementwise operands (a dropout
  // mask) are computed in parts, too, or fusion would join them with work that waits for all steps.
  Value part_of_pointwise(std::int32_t id, const Steps& steps, int depth) {
    const Node& node = source_.node(id);
    std::vector<Value> operands = operands_.at(id);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].rank() == node.outputs[0].shape.rank() && operands[i].shape()[0] > 1)
        operands[i] = part(node.inputs[i], operands[i], steps, depth + 1);
    const Value result = operands[0].graph().append_one(node.op, operands, node.attributes);
    return broadcast(result, node.outputs[0].shape.with(0, steps.size));
  }

  Value part_of_product(std::int32_t id, const Steps& steps, int depth) {
    const ProductOfSteps p = *product_of_steps(source_.node(id));
    const Value from = part(p.x, operands_.at(p.rows)[0], steps, depth + 1);
    std::vector<Value> operands = operands_.at(p.product);
    const Shape& shape = source_.node(id).outputs[0].shape;
    operands[0] = reshape(from, {steps.size * shape[1], from.shape()[2]});
    const Node& node = source_.node(p.product);
    const Value result = operands[0].graph().append_one(node.op, operands, node.attributes);
    return reshape(result, shape.with(0, steps.size));
  }

  // True if the steps of a value are computed from the same steps of loops that are cut. Final states are not.
  bool comes_from_parts(const ValueId& id) const {
    const Node& node = source_.node(id.node);
    return from_parts_[id.node] && (node.op != Op::scan || id.output >= scan_layout(node).n_states);
  }
  bool is_from_parts(const Node& node) const {
    if (is_elementwise(node.op))
      return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& input) {
        const Shape& shape = source_.type(input).shape;
        return shape.rank() == node.outputs[0].shape.rank() && shape[0] > 1 && comes_from_parts(input);
      });
    const auto product = product_of_steps(node);
    return product ? comes_from_parts(product->x) : can_cut(node, steps_);
  }

  // The product [T*B,N], if nothing else reads it and each of its rows is made from a row of x [T,B,K].
  std::optional<ProductOfSteps> product_of_steps(const Node& reshaped) const {
    if (reshaped.op != Op::reshape) return {};
    const std::int32_t id = reshaped.inputs[0].node;
    const Node& product = source_.node(id);
    const Shape& shape = reshaped.outputs[0].shape;
    if (product.op != Op::matmul || shape.rank() != 3 || product.attributes.get<bool>("transpose_a")) return {};
    if (uses_[{id, 0}] != 1) return {};
    const Node& rows = source_.node(product.inputs[0].node);
    if (rows.op != Op::reshape) return {};
    const Shape &x = source_.type(rows.inputs[0]).shape, &y = product.outputs[0].shape;
    const bool by_rows = x.rank() == 3 && x[0] == shape[0] && x[1] == shape[1] && y.rank() == 2 && y[1] == shape[2];
    if (!by_rows) return {};
    return ProductOfSteps{id, product.inputs[0].node, rows.inputs[0]};
  }

  const Graph& source_;
  Index steps_;
  PerValue<int> uses_;
  std::map<std::int32_t, std::vector<Value>> operands_;  // of nodes of the source, in the target
  std::map<ValueId, std::map<Index, Value>> parts_;      // by their first step
  PerNode<bool> from_parts_;                         // [node], known for the nodes before this one
};

}  // namespace

std::shared_ptr<const Graph> chunk_scans(const Graph& graph, std::int64_t steps) {
  Chunks chunks(graph, steps);
  return rewrite(graph, [&](const RewriteNode& at) { return chunks(at); });
}

}  // namespace unroll
