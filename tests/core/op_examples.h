// SPDX-License-Identifier: Apache-2.0
// For every op: operands it takes, and operands it must refuse. Shape rules, verifier, text form and bodies are all
// tested over this one list.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

struct OpExample {
  Op op;
  std::string what;  // why it is right, or what is wrong with it
  std::vector<Type> inputs;
  Attributes attributes;
  std::shared_ptr<const Graph> body;
};

std::vector<OpExample> right_examples();
std::vector<OpExample> wrong_examples();

// A graph with inputs x0, x1, ... of the example's types, its node, and outputs y0, y1, ...
std::shared_ptr<Graph> example_graph(const OpExample& example);

}  // namespace unroll
