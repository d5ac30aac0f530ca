// SPDX-License-Identifier: Apache-2.0
// Takes scan nodes apart and makes new ones. The order of operands, body inputs and results is written here alone;
// unroll/ir/scan.h documents it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/ir/scan.h"

namespace unroll {

enum class ScanRole : std::uint8_t { state, sequence, constant, lengths, reset, batch_sizes };
// The role of an operand by its position. Inputs of the body have the first three roles.
ScanRole scan_role(const ScanLayout& layout, std::size_t operand);
// True for the result or body output that is the next value of a state; the others are stacked over time.
inline bool is_state(const ScanLayout& layout, std::size_t output) { return std::cmp_less(output, layout.n_states); }

struct ScanParts {
  std::vector<Value> states, sequences, constants;
  Value lengths, reset, batch_sizes;  // empty if the scan has none
  Attributes attributes;              // emit() sets those that follow from the operands

  ScanParts() = default;
  // `operands` stand for the inputs of the node.
  ScanParts(const Node& scan, std::span<const Value> operands);

  std::vector<Value> operands() const;
  // Appends the scan with this body; returns its results.
  std::vector<Value> emit(std::shared_ptr<const Graph> body) const;
};

// A scan in the making. Operands come in any order; emit() sorts them by role.
class ScanBuilder {
 public:
  explicit ScanBuilder(Attributes attributes) { parts_.attributes = std::move(attributes); }
  // With the attributes, lengths, reset and batch sizes of this scan, and none of its other operands yet.
  explicit ScanBuilder(const ScanParts& like);

  // Each adds an operand and returns the input of the body for it.
  Value state(Value start) { return add(ScanRole::state, start, start.type()); }
  Value sequence(Value x) { return add(ScanRole::sequence, x, {x.dtype(), x.shape().removed(0)}); }
  Value constant(Value x) { return add(ScanRole::constant, x, x.type()); }
  Value add(ScanRole role, Value operand, Type type);
  // The same input for the same sequence or constant.
  Value shared_sequence(Value x);
  Value shared_constant(Value x);
  // Adds all states, sequences and constants of `parts`, with the types of the inputs of `body` and in their order.
  std::vector<Value> add_all(const ScanParts& parts, const Graph& body);

  Graph& step() { return *step_; }
  // Appends the scan. `results` are values of step(): the next states, then the outputs.
  std::vector<Value> emit(std::span<const Value> results);

 private:
  struct Operand {
    ScanRole role;
    Value outer, inner;
  };
  Value known(ScanRole role, Value outer) const;

  ScanParts parts_;
  std::vector<Operand> operands_;  // in the order of the inputs of step_
  std::shared_ptr<Graph> step_ = std::make_shared<Graph>();
};

}  // namespace unroll
