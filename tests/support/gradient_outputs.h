// SPDX-License-Identifier: Apache-2.0
// The graph of a trained model: gradients as outputs.
#pragma once

#include <string>
#include <vector>

#include "unroll/autodiff/autodiff.h"
#include "unroll/model/model.h"

namespace unroll::testing {

// The gradient of `loss` by parameter i of the scope becomes output "d<i>".
inline void output_gradients(const Scope& scope, const Value& loss) {
  Graph& graph = loss.graph();
  std::vector<Value> parameters;
  for (const ParameterSpec& p : scope.parameters()) parameters.push_back(graph.find_input(p.name));
  std::size_t i = 0;
  for (const Value& d : differentiate(loss, parameters)) graph.output("d" + std::to_string(i++), d);
}

}  // namespace unroll::testing
