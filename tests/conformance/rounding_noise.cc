// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/rounding_noise.h"

#include <random>

#include "tests/support/backends.h"
#include "unroll/ops.h"

namespace unroll::testing {

namespace {

bool sums(Op op) { return op == Op::matmul || op == Op::reduce_sum || op == Op::scatter_add; }

bool rounds(Op op) {
  switch (op) {
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::log1p:
    case Op::sqrt:
    case Op::tanh:
    case Op::sigmoid:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div: return true;
    default: return sums(op);
  }
}

Value noisy(Value x, std::mt19937_64& random) {
  if (!is_float(x.dtype())) return x;
  // Of different sizes, because equal ones cancel: (1 + e)(1 - e) would hide what a mean of equal values is sensitive to.
  std::uniform_real_distribution<double> size(0x1p-25, 0x1.8p-24);
  Tensor factors(x.type());
  for (std::int64_t i = 0; i < factors.elements(); ++i)
    factors.set(i, 1 + (random() % 2 == 0 ? size(random) : -size(random)));
  return x * constant(x.graph(), std::move(factors));
}

std::shared_ptr<const Graph> rebuilt(const Graph& graph, std::mt19937_64& random) {
  auto target = std::make_shared<Graph>();
  std::vector<std::vector<Value>> values;
  const auto at = [&](const ValueId& v) {
    return values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  };
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::input) {
      values.push_back({target->input(node.attributes.get<std::string>("name"), node.outputs[0])});
      continue;
    }
    std::vector<Value> operands;
    for (const ValueId& v : node.inputs) operands.push_back(sums(node.op) ? noisy(at(v), random) : at(v));
    values.push_back(
        target->append(node.op, operands, node.attributes, node.body ? rebuilt(*node.body, random) : nullptr));
    if (rounds(node.op)) values.back()[0] = noisy(values.back()[0], random);
  }
  for (const NamedValue& output : graph.outputs()) target->output(output.name, at(output.value));
  return target;
}

}  // namespace

std::shared_ptr<const Graph> with_rounding_noise(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return rebuilt(*expanded(graph), random);
}

}  // namespace unroll::testing
