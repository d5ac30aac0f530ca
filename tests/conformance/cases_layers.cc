// SPDX-License-Identifier: Apache-2.0
// Softmax, layer norm, dropout, embedding; attention with every kind of mask.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

const Shape k_layer_shapes[] = {{5}, {3, 4}, {2, 3, 4}, {1, 1}, {0, 3}, {7, 33}};

struct Mask {
  const char* name;
  Shape shape;  // rank 0 and named "none": without
};
const Mask k_masks[] = {
    {"no mask", {}}, {"a full mask", {2, 3, 4}}, {"a padding mask", {2, 1, 4}}, {"a causal mask", {3, 4}}};
bool has_mask(const Mask& mask) { return mask.shape.rank() > 0; }
Value mask_input(Graph& g, const Mask& mask) {
  return has_mask(mask) ? g.input("mask", {DType::b8, mask.shape}) : Value();
}

void output_attention(Graph& g, const AttentionResult& r) {
  g.output("y", r.y);
  g.output("weights", r.weights);
}

struct Attended {
  std::int64_t B, Q, S;
};

void add_dot(Cases& cases, const std::string& name, const Attended& a, const Mask& mask, double scale) {
  cases.push_back({.name = name,
                   .build =
                       [=](Graph& g, DType d) {
                         output_attention(
                             g, dot_attention(g.input("q", {d, {a.B, a.Q, 4}}), g.input("k", {d, {a.B, a.S, 4}}),
                                              g.input("v", {d, {a.B, a.S, 5}}), mask_input(g, mask), scale));
                       },
                   .agreement = {Rule::norm, static_cast<int>(4 * a.S)},
                   .constant_output = a.S == 1 || has_mask(mask)});
}

}  // namespace

void add_layer_cases(Cases& cases) {
  using Function = Value (*)(Value);
  for (const auto& [name, f] : {std::pair<const char*, Function>{"softmax", softmax}, {"log_softmax", log_softmax}})
    for (const Shape& shape : k_layer_shapes)
      cases.push_back({.name = name + shape.text(),
                       .build =
                           [f = f, shape](Graph& g, DType d) {
                             g.output("y", f(g.input("x", {d, shape})));
                           },
                       .ranges = {{"x", between(-4, 4)}},
                       .agreement = {Rule::norm, 32}});
  cases.push_back({.name = "softmax of large numbers",
                   .build =
                       [](Graph& g, DType d) {
                         const Value x = g.input("x", {d, {4, 9}});
                         g.output("y", softmax(x));
                         g.output("log", log_softmax(x));
                       },
                   .ranges = {{"x", between(-400, 400)}},
                   .agreement = {Rule::norm, 32},
                   .differentiable = false,
                   .constant_output = true});
  for (const Shape& shape : k_layer_shapes)
    cases.push_back({.name = "layer_norm" + shape.text(), .build = [shape](Graph& g, DType d) {
                       const Shape width{shape[shape.rank() - 1]};
                       g.output("y", layer_norm(g.input("x", {d, shape}), g.input("weight", {d, width}),
                                                g.input("bias", {d, width}), 1e-3));
                     },
                     .agreement = {Rule::norm, 64}});
  for (const bool with_step : {false, true})
    cases.push_back(
        {.name = with_step ? "dropout with a step" : "dropout",
         .build =
             [with_step](Graph& g, DType d) {
               const Value x = g.input("x", {d, {5, 6}}), key = g.input("key", {DType::i32, {3}});
               g.output("y", dropout(x, key, 0.4, 11, with_step ? g.input("step", {DType::i32, {}}) : Value()));
             },
         .ranges = {{"key", between(0, 99999)}, {"step", between(1, 5)}},
         .agreement = {Rule::pointwise, 2}});
  cases.push_back({.name = "embedding", .build = [](Graph& g, DType d) {
                     g.output("y", embedding(g.input("table", {d, {6, 3}}), g.input("ids", {DType::i32, {2, 5}})));
                   },
                   .ranges = {{"ids", between(0, 5)}}, .agreement = k_exact});
}

void add_attention_cases(Cases& cases) {
  for (const Mask& mask : k_masks) {
    const std::string with = std::string(" with ") + mask.name;
    add_dot(cases, "dot_attention" + with, {2, 3, 4}, mask, 0);
    cases.push_back({.name = "additive_attention" + with,
                     .build =
                         [mask](Graph& g, DType d) {
                           const Value q = g.input("q", {d, {2, 3, 3}}), k = g.input("k", {d, {2, 4, 2}}),
                                       v = g.input("v", {d, {2, 4, 3}});
                           output_attention(
                               g, additive_attention(q, k, v, g.input("w_q", {d, {5, 3}}), g.input("w_k", {d, {5, 2}}),
                                                     g.input("v_a", {d, {5}}), mask_input(g, mask)));
                         },
                     .agreement = {Rule::norm, 64},
                     .constant_output = has_mask(mask)});
    cases.push_back({.name = "multi_head_attention" + with,
                     .build =
                         [mask](Graph& g, DType d) {
                           const Value q = g.input("q", {d, {2, 3, 4}}), k = g.input("k", {d, {2, 4, 4}}),
                                       v = g.input("v", {d, {2, 4, 4}});
                           output_attention(g, multi_head_attention(
                                                   q, k, v, g.input("in_weight", {d, {12, 4}}),
                                                   g.input("in_bias", {d, {12}}), g.input("out_weight", {d, {4, 4}}),
                                                   g.input("out_bias", {d, {4}}), 2, mask_input(g, mask)));
                         },
                     .ranges = {{"in_weight", between(-0.7, 0.7)}},
                     .agreement = {Rule::norm, 64},
                     .constant_output = has_mask(mask)});
  }
  add_dot(cases, "dot_attention over one position", {2, 3, 1}, k_masks[0], 0.5);
  add_dot(cases, "dot_attention of one query", {1, 1, 6}, k_masks[0], 1);
  add_dot(cases, "dot_attention of no query", {2, 0, 4}, k_masks[0], 0);
  cases.push_back({.name = "dot_attention with nothing to attend", .build = [](Graph& g, DType d) {
                     const Value mask = filled(g, {DType::b8, {1, 1, 4}}, 0);
                     output_attention(g, dot_attention(g.input("q", {d, {2, 3, 4}}), g.input("k", {d, {2, 4, 4}}),
                                                       g.input("v", {d, {2, 4, 5}}), mask));
                   },
                   .agreement = k_exact, .constant_output = true});
}

}  // namespace unroll::testing
