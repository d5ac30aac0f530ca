// SPDX-License-Identifier: Apache-2.0
// The gradient of a composite is one node, so that a backend can claim the pair (forward, gradient). The gradient of
// that node is the gradient of its body, expanded.
#include <memory>

#include "core/autodiff/gradient_body.h"
#include "core/autodiff/rules.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;

// The results with a cotangent, the operands that want one, and operands followed by those cotangents.
struct Request {
  Ints d_outputs, d_inputs;
  Values inputs;
};
Request request_of(const Backward& b) {
  Request r{{}, {}, b.in};
  for (std::size_t k = 0; k < b.d_out.size(); ++k) {
    if (!b.d_out[k]) continue;
    r.d_outputs.push_back(static_cast<std::int64_t>(k));
    r.inputs.push_back(b.d_out[k]);
  }
  for (std::size_t i = 0; i < b.in.size(); ++i)
    if (b.wanted[i]) r.d_inputs.push_back(static_cast<std::int64_t>(i));
  return r;
}
Values spread(const Backward& b, const Request& r, const Values& gradients) {
  Values d_in(b.in.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) d_in[r.d_inputs[i]] = gradients[i];
  return d_in;
}

Values composite_rule(const Backward& b) {
  const Request r = request_of(b);
  Attributes attributes = b.node.attributes;
  attributes.set("of", std::string(op_info(b.node.op).name));
  attributes.set("n_inputs", static_cast<std::int64_t>(b.in.size()));
  attributes.set("d_outputs", r.d_outputs);
  attributes.set("d_inputs", r.d_inputs);
  return spread(b, r, b.graph.append(Op::gradient, r.inputs, std::move(attributes)));
}

// In a graph of its own: operands of the node may depend on each other here, and must not inside it.
Values gradient_rule(const Backward& b) {
  const Request r = request_of(b);
  const auto body = gradient_graph(*gradient_body(b.graph, b.node), r.d_outputs, r.d_inputs);
  return spread(b, r, inline_graph(b.graph, *body, r.inputs));
}

constexpr RuleRow k_composite_rows[] = {{Op::gradient, gradient_rule}};

}  // namespace

std::span<const RuleRow> gradient_rules() { return k_composite_rows; }

Rule composite_gradient() { return composite_rule; }

}  // namespace unroll
