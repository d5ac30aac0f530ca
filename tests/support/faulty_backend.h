// SPDX-License-Identifier: Apache-2.0
// Another backend with one broken kernel: a node of its plans gives one wrong element, in every step where it is in a
// loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/passes/forwarding_backend.h"

namespace unroll::testing {

// The graph with the numbers that nodes keep however often it is planned: inputs first, nothing that is not needed.
std::shared_ptr<const Graph> numbered(const Graph& lowered);

struct KernelFault {
  std::vector<std::int32_t> path;  // number of the node in a numbered graph, before it those of the loops around it
  std::int32_t output = 0;
  std::int64_t element = 0;
  std::function<bool(const Graph&)> where = {};  // in which plans; empty: in all that have such a node
};

// Every result of a node that a fault can be put into: the float values of nodes that compute, also inside of loops.
std::vector<KernelFault> possible_faults(const Graph& numbered);

// The graph with the fault put in; nodes up to the faulty one keep their numbers. Null when the graph has no such
// value.
std::shared_ptr<const Graph> with_fault(const Graph& graph, const KernelFault& fault);

class FaultyBackend final : public ForwardingBackend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, KernelFault fault)
      : ForwardingBackend(std::move(inner)), fault_(std::move(fault)) {}
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;

  int n_faulty() const { return n_faulty_; }  // plans that had the node

 private:
  KernelFault fault_;
  int n_faulty_ = 0;
};

}  // namespace unroll::testing
