// SPDX-License-Identifier: Apache-2.0
// What gradient checkpointing builds loops over segments from (checkpoint.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

inline std::size_t size_of(int n) { return static_cast<std::size_t>(n); }

// Operands and body of a loop while they grow. The body of the result has states, sequences, constants as its inputs.
class SegmentLoop {
 public:
  // An input of the body that stands for `outer`, the same one for the same value.
  Value input(Value outer, bool per_step) {
    auto& known = per_step ? sequences_ : constants_;
    for (const auto& [value, inner] : known)
      if (value == outer) return inner;
    known.emplace_back(outer, add(outer, per_step));
    return known.back().second;
  }
  Value state(Value start) {
    states_.emplace_back(start, add(start, false));
    return states_.back().second;
  }
  void next_state(Value next) { next_.push_back(next); }
  void output(Value value) { outputs_.push_back(value); }
  Graph& graph() { return *drawn_; }

  // The loop's results: final states, then stacks.
  std::vector<Value> finish(std::int64_t steps, bool reverse, bool segments) const {
    auto body = std::make_shared<Graph>();
    std::vector<Value> operands, inputs(drawn_->inputs().size());
    for (const auto* list : {&states_, &sequences_, &constants_})
      for (const auto& [outer, inner] : *list) {
        operands.push_back(outer);
        inputs[static_cast<std::size_t>(inner.id().node)] =
            body->input("in" + std::to_string(body->inputs().size()), inner.type());
      }
    Graph& whole = *drawn_;
    int n = 0;
    for (const auto* list : {&next_, &outputs_})
      for (const Value& value : *list) whole.output("out" + std::to_string(n++), value);
    const auto results = inline_graph(*body, whole, inputs);
    for (std::size_t k = 0; k < results.size(); ++k) body->output("out" + std::to_string(k), results[k]);
    Attributes attributes{{"steps", steps},
                          {"states", static_cast<std::int64_t>(states_.size())},
                          {"sequences", static_cast<std::int64_t>(sequences_.size())},
                          {"reverse", reverse},
                          {"lengths", false},
                          {"reset", false}};
    if (segments) attributes.set("segments", true);
    return scan_body(operands, std::move(attributes), std::move(body));
  }

 private:
  // Inputs are the first nodes of the graph, whatever their kind.
  Value add(Value outer, bool per_step) {
    Type type = outer.type();
    if (per_step) type.shape = type.shape.removed(0);
    return drawn_->input("in" + std::to_string(drawn_->inputs().size()), type);
  }

  std::shared_ptr<Graph> drawn_ = std::make_shared<Graph>();
  std::vector<std::pair<Value, Value>> states_, sequences_, constants_;  // outer, inner
  std::vector<Value> next_, outputs_;
};

// The same loop with products of all steps among its sequences made in its steps; empty where there are none.
std::vector<Value> products_into_steps(const RewriteNode& at);
// The graph with the products behind the backward loop `loop` made in its steps; null where there are none.
std::shared_ptr<const Graph> products_behind_into_steps(const Graph& graph, std::int32_t loop);

}  // namespace unroll
