// SPDX-License-Identifier: Apache-2.0
// Elementwise values that only a loop reads, slice by slice, are computed in its steps: the gradient of a loss with
// respect to y, which the backward loop reads. They then take no memory, and a step has no further call where it
// computes elementwise anyway. For backends whose loops are kernels or recorded steps (Tuning::operands_in_steps).
#include "core/ir/ops/scan_parts.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

class StepOperands {
 public:
  explicit StepOperands(const RewriteNode& at, const PerValue<int>& uses)
      : at_(at), uses_(uses), layout_(scan_layout(at.node)) {}

  // The loop that computes what enters it; empty when nothing does.
  std::vector<Value> run(PassLog* log) {
    if (layout_.has_lengths || layout_.has_reset || layout_.packed || layout_.steps == 0) return {};
    if (at_.node.attributes.get_or<bool>("segments", false)) return {};
    bool any = false;
    const InLoop in_loop(log, at_.source, at_.node);
    entering_.assign(at_.operands.size(), false);
    for (std::size_t i = 0; i < entering_.size(); ++i) {
      if (scan_role(layout_, i) != ScanRole::sequence || !enters(i)) continue;
      any = entering_[i] = true;
      if (log) log->add("computed " + node_text(at_.operands[i].node()) + " in every step", "only this loop reads it");
    }
    return any ? rebuild() : std::vector<Value>{};
  }

 private:
  // An elementwise node of one value [T, ...] and of numbers, which reads no more than the loop would.
  bool enters(std::size_t i) const {
    const ValueId id = at_.node.inputs[i];
    const Value value = at_.operands[i];
    const Node& node = value.node();
    if (!is_elementwise(node.op) || uses_[id] != 1) return false;
    int varying = 0;
    for (const ValueId& in : node.inputs) {
      const Value operand = at_.target.value(in);
      double element = 0;
      if (is_splat(operand, element) || operand.rank() == 0) continue;
      if (operand.shape() != value.shape() || dtype_bytes(operand.dtype()) > dtype_bytes(value.dtype())) return false;
      ++varying;
    }
    return varying == 1;
  }

  std::vector<Value> rebuild() const {
    ScanBuilder loop(ScanParts(at_.node, at_.operands));
    const Graph& body = *at_.node.body;
    std::vector<Value> inputs(body.inputs().size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (entering_[i]) continue;
      const Value operand = at_.operands[i];
      switch (scan_role(layout_, i)) {
        case ScanRole::state: inputs[i] = loop.state(operand); break;
        case ScanRole::sequence: inputs[i] = loop.shared_sequence(operand); break;
        default: inputs[i] = loop.shared_constant(operand);
      }
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (entering_[i]) inputs[i] = in_step(loop, at_.operands[i]);
    return loop.emit(inline_graph(loop.step(), body, inputs));
  }

  // The value of one step, computed from operands of the same step.
  Value in_step(ScanBuilder& loop, const Value& value) const {
    const Node& node = value.node();
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs) {
      const Value operand = at_.target.value(id);
      double element = 0;
      operands.push_back(is_splat(operand, element) ? scalar(loop.step(), operand.dtype(), element)
                         : operand.rank() == 0      ? loop.shared_constant(operand)
                                                    : loop.shared_sequence(operand));
    }
    return loop.step().append_copy(at_.target, node, operands)[value.id().output];
  }

  const RewriteNode& at_;
  const PerValue<int>& uses_;
  const ScanLayout layout_;
  std::vector<bool> entering_;  // [operand]
};

}  // namespace

std::shared_ptr<const Graph> operands_in_steps(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) {
    std::shared_ptr<const Graph> result = copy_graph(g);
    for (bool changes = true; changes;) {  // one op of a chain after the other
      changes = false;
      const auto uses = count_uses(*result);
      const auto next = rewrite(*result, [&](const RewriteNode& at) -> std::vector<Value> {
        if (at.node.op != Op::scan) return {};
        auto values = StepOperands(at, uses).run(log);
        changes = changes || !values.empty();
        return values;
      });
      result = drop_dead(*next);
    }
    return result;
  }, log);
}

}  // namespace unroll
