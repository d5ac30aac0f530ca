// SPDX-License-Identifier: Apache-2.0
// Losses and optimizer updates, and the list of all families.
#include <algorithm>
#include <set>

#include "tests/conformance/families.h"
#include "tests/support/setting.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::testing {

namespace {

using Loss = std::function<Value(Value, Value)>;

struct LossRow {
  const char* name;
  Loss f;
  Range target;
};
// Predictions on even eighths, targets off them: |prediction - target| keeps away from 0 and from delta.
const Range k_predictions{.low = -3, .high = 3, .grid = 0.25};
const Range k_targets{.low = -3, .high = 3, .grid = 0.25, .phase = 0.0625};
const LossRow k_losses[] = {
    {"mse", [](Value p, Value t) { return mse(p, t); }, k_targets},
    {"mae", [](Value p, Value t) { return mae(p, t); }, k_targets},
    {"huber", [](Value p, Value t) { return huber(p, t, 1); }, k_targets},
    {"pinball", [](Value p, Value t) { return pinball(p, t, 0.9); }, k_targets},
    {"huber with delta 2.5", [](Value p, Value t) { return huber(p, t, 2.5); }, k_targets},
    // at logits off 0: the smooth function is written with abs
    {"bce", [](Value p, Value t) { return bce(p + 0.0625, t); }, between(0, 1)},
};

void add_losses(Cases& cases) {
  for (const LossRow& row : k_losses)
    for (const Shape& shape : {Shape{7}, Shape{3, 4}, Shape{0}, Shape{}})
      cases.push_back({.name = row.name + shape.text(),
                       .build =
                           [f = row.f, shape](Graph& g, DType d) {
                             g.output("y", f(g.input("p", {d, shape}), g.input("t", {d, shape})));
                           },
                       .ranges = {{"p", k_predictions}, {"t", row.target}},
                       .agreement = {Rule::norm, 8}});
  struct Logits {
    Shape shape;
    double low, high;
  };
  for (const Logits& l :
       {Logits{{6, 5}, 0, 4}, {{2, 3, 4}, 0, 3}, {{5}, 0, 4}, {{3, 1}, 0, 0}, {{0, 4}, 0, 3}, {{9, 3}, -1, 3}})
    cases.push_back({.name = "softmax_cross_entropy" + l.shape.text() + (l.low < 0 ? " with labels outside" : ""),
                     .build =
                         [l](Graph& g, DType d) {
                           const Value logits = g.input("logits", {d, l.shape});
                           g.output("y",
                                    softmax_cross_entropy(
                                        logits, g.input("labels", {DType::i32, l.shape.removed(l.shape.rank() - 1)})));
                         },
                     .ranges = {{"labels", between(l.low, l.high)}, {"logits", between(-4, 4)}},
                     .agreement = {Rule::norm, 32}});
  cases.push_back({.name = "mean loss of a small model",
                   .build =
                       [](Graph& g, DType d) {
                         const Value h = tanh(
                             linear(g.input("x", {d, {4, 3}}), g.input("w1", {d, {5, 3}}), g.input("b1", {d, {5}})));
                         const Value logits = linear(h, g.input("w2", {d, {3, 5}}));
                         g.output("loss", mean(softmax_cross_entropy(logits, g.input("labels", {DType::i32, {4}}))));
                       },
                   .ranges = {{"labels", between(0, 2)}},
                   .agreement = {Rule::norm, 64}});
}

struct Update {
  std::string name;
  Op op;
  int slots;
  Attributes attributes;
};
Attributes sgd_with(double momentum, bool nesterov, double weight_decay) {
  return {{"momentum", momentum}, {"nesterov", nesterov}, {"weight_decay", weight_decay}};
}
Attributes adam_with(double weight_decay, bool decoupled) {
  return {
      {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", weight_decay}, {"decoupled", decoupled}};
}
Attributes rmsprop_with(double momentum) {
  return {{"alpha", 0.99}, {"epsilon", 1e-8}, {"momentum", momentum}, {"weight_decay", 0.01}};
}
const Update k_updates[] = {
    {"sgd", Op::sgd, 0, sgd_with(0, false, 0)},
    {"sgd with weight decay", Op::sgd, 0, sgd_with(0, false, 0.1)},
    {"sgd with momentum", Op::sgd, 1, sgd_with(0.9, false, 0)},
    {"sgd with nesterov", Op::sgd, 1, sgd_with(0.9, true, 0.1)},
    {"adam", Op::adam, 2, adam_with(0, false)},
    {"adam with weight decay", Op::adam, 2, adam_with(0.1, false)},
    {"adamw", Op::adam, 2, adam_with(0.1, true)},
    {"rmsprop", Op::rmsprop, 1, rmsprop_with(0)},
    {"rmsprop with momentum", Op::rmsprop, 2, rmsprop_with(0.9)},
    {"adagrad", Op::adagrad, 1, {{"epsilon", 1e-10}, {"weight_decay", 0.01}}},
    {"lion", Op::lion, 1, {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.01}}},
};

// Inputs in the order of core/ir/composites/updates.cc.
void build_update(Graph& g, DType d, const Update& u, const Shape& shape) {
  const auto slot = [&](const char* name) { return g.input(name, {d, shape}); };
  std::vector<Value> in{slot("p"), slot("g")};
  if (u.op != Op::sgd) in.push_back(slot("v"));
  if (u.op == Op::adam) in.push_back(slot("w"));
  in.push_back(g.input("lr", {d, {}}));
  if (u.op == Op::adam) in.push_back(g.input("update", {DType::i32, {}}));
  if ((u.op == Op::sgd && u.slots == 1) || (u.op == Op::rmsprop && u.slots == 2)) in.push_back(slot("m"));
  const auto outputs = g.append(u.op, in, u.attributes);
  for (std::size_t i = 0; i < outputs.size(); ++i) g.output("new" + std::to_string(i), outputs[i]);
}

}  // namespace

void add_loss_cases(Cases& cases) { add_losses(cases); }

// The sum of the leaves of an update, whose numbers ask for one block, and for two and three.
static void add_sums_of_leaves(Cases& cases) {
  for (const auto& [leaves, n_blocks] : {std::pair{1, 1}, {5, 2}, {4, 3}, {7, 3}})
    cases.push_back({.name = "all_reduce of " + std::to_string(leaves) + " leaves",
                     .build =
                         [leaves = leaves, n_blocks = n_blocks](Graph& g, DType d) {
                           std::vector<Value> blocks;
                           for (int i = 0; i < n_blocks; ++i)
                             blocks.push_back(g.input("block" + std::to_string(i), {d, {37}}));
                           g.output("sum", all_reduce(blocks, leaves, 0, 1));
                         },
                     .agreement = {Rule::norm, 4},
                     .differentiable = false});
}

void add_optimizer_cases(Cases& cases) {
  add_sums_of_leaves(cases);
  for (const Update& u : k_updates)
    for (const Shape& shape : {Shape{6}, Shape{0}, Shape{37, 29}})
      cases.push_back({.name = u.name + shape.text(),
                       .build = [&u, shape](Graph& g, DType d) { build_update(g, d, u, shape); },
                       .ranges = {{"v", between(0.1, 2)},
                                  {"w", between(0.1, 2)},
                                  {"lr", between(0.001, 0.1)},
                                  {"update", between(1, 9)}},
                       .agreement = {Rule::norm, 16},
                       .differentiable = false});
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> list;
    for (const auto add :
         {add_elementwise_cases, add_move_cases, add_linear_cases, add_reduce_cases, add_index_cases, add_scan_cases,
          add_recurrent_cases, add_convolution_cases, add_layer_cases, add_attention_cases, add_loss_cases,
          add_optimizer_cases, add_half_cases})
      add(list);
    std::set<std::string> names;
    for (const Case& c : list)
      if (!names.insert(c.name).second)
        throw Error(ErrorKind::internal, "all_cases", "two cases are called '" + c.name + "'");
    return list;
  }();
  return cases;
}

const std::vector<Case>& chosen_cases() {
  static const std::vector<Case> cases = [] {
    const std::size_t step = std::max<std::uint64_t>(setting("UNROLL_CASES", 1), 1);
    std::vector<Case> list;
    std::set<Op> seen;
    for (std::size_t k = 0; k < all_cases().size(); ++k) {
      const Case& c = all_cases()[k];
      bool is_first = false;
      for (const Op op : ops_of(*build_case(c, DType::f32))) is_first |= seen.insert(op).second;
      if (is_first || k % step == 0) list.push_back(c);
    }
    return list;
  }();
  return cases;
}

}  // namespace unroll::testing
