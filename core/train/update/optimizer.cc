// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/support/tensor_role.h"
#include "core/support/text/exact_text.h"
#include "core/support/text/nearest_name.h"
#include "core/train/update/clip.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Inputs of each composite after parameter and gradient, in its order. "momentum" is there only when it is not 0.
struct OptimizerRow {
  std::string_view name;
  Op op;
  std::vector<std::string> inputs;
};
const std::vector<OptimizerRow>& optimizer_rows() {
  static const std::vector<OptimizerRow> table{
      {"sgd", Op::sgd, {"lr", "momentum"}},
      {"adam", Op::adam, {"mean", "square", "lr", "update"}},
      {"adamw", Op::adam, {"mean", "square", "lr", "update"}},
      {"rmsprop", Op::rmsprop, {"square", "lr", "momentum"}},
      {"adagrad", Op::adagrad, {"square", "lr"}},
      {"lion", Op::lion, {"mean", "lr"}},
  };
  return table;
}

const OptimizerRow& find_optimizer(const std::string& name) {
  std::vector<std::string_view> known;
  for (const OptimizerRow& row : optimizer_rows()) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  throw Error(ErrorKind::usage, "optimizer", "unknown optimizer '" + name + "'", known_names(name, known));
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& o) : options_(o) {
  check_options(o, "optimizer");
  const OptimizerRow& row = find_optimizer(o.name);
  op_ = row.op;
  for (const std::string& input : row.inputs) {
    if (input == "momentum" && o.momentum == 0) continue;
    inputs_.push_back(input);
    if (input != "lr" && input != "update") slots_.push_back(input);
  }
  if (op_ == Op::sgd || op_ == Op::rmsprop) attributes_.set("momentum", o.momentum);
  if (op_ == Op::sgd) attributes_.set("nesterov", o.nesterov);
  if (op_ != Op::sgd && op_ != Op::lion) attributes_.set("epsilon", o.epsilon);
  if (op_ == Op::rmsprop) attributes_.set("alpha", o.alpha);
  if (op_ == Op::adam || op_ == Op::lion) {
    attributes_.set("beta1", o.beta1);
    attributes_.set("beta2", o.beta2);
  }
  if (op_ == Op::adam) attributes_.set("decoupled", o.name == "adamw");
}

std::vector<Value> Optimizer::update(Value parameter, Value gradient, std::span<const Value> slots, Value lr,
                                     Value update, double weight_decay) const {
  if (slots.size() != slots_.size())
    throw Error(ErrorKind::usage, "Optimizer",
                options_.name + " needs " + std::to_string(slots_.size()) + " slots; got " +
                    std::to_string(slots.size()));
  std::vector<Value> inputs{parameter, gradient};
  std::size_t slot = 0;
  for (const std::string& name : inputs_)
    inputs.push_back(name == "lr" ? lr : name == "update" ? update : slots[slot++]);
  Attributes attributes = attributes_;
  attributes.set("weight_decay", weight_decay);
  return parameter.graph().append(op_, inputs, attributes);
}

namespace {

// True if `pattern`, in which * stands for any characters, matches all of `name`.
bool matches(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= name.size(); ++from)
    if (matches(rest, name.substr(from))) return true;
  return false;
}

void check_group(const ParameterGroup& group, std::span<const ParameterSpec> parameters) {
  const std::string where = "group '" + group.match + "'";
  if (!(group.lr_scale >= 0 && std::isfinite(group.lr_scale)))
    throw Error(ErrorKind::usage, where, "lr_scale must not be negative; got " + exact_text(group.lr_scale));
  if (group.weight_decay && !(*group.weight_decay >= 0 && std::isfinite(*group.weight_decay)))
    throw Error(ErrorKind::usage, where,
                "weight_decay must not be negative; got " + exact_text(*group.weight_decay));
  if (std::count(group.match.begin(), group.match.end(), '*') > 4)
    throw Error(ErrorKind::usage, where, "a pattern may have four * at most");
  std::string names;
  for (const ParameterSpec& p : parameters) {
    if (matches(group.match, p.name)) return;
    if (names.size() < 400) names.append(names.empty() ? "" : ", ").append(p.name);
  }
  throw Error(ErrorKind::usage, where, "matches no parameter", "The parameters are " + names);
}

}  // namespace

std::vector<ParameterRule> parameter_rules(const OptimizerOptions& optimizer, std::span<const ParameterGroup> groups,
                                           std::span<const ParameterSpec> parameters) {
  for (const ParameterGroup& group : groups) check_group(group, parameters);
  std::vector<ParameterRule> rules;
  for (const ParameterSpec& p : parameters) {
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& g) { return matches(g.match, p.name); });
    const bool decays = optimizer.decay_vectors || p.type.shape.rank() >= 2;
    ParameterRule rule{1, decays ? optimizer.weight_decay : 0};
    if (group != groups.end()) rule = {group->lr_scale, group->weight_decay.value_or(rule.weight_decay)};
    rules.push_back(rule);
  }
  const bool any = std::any_of(rules.begin(), rules.end(), [](const ParameterRule& r) { return r.lr_scale > 0; });
  if (!any)
    throw Error(ErrorKind::usage, "trainer", "the model has no parameter to train, or groups freeze all of them");
  return rules;
}

TrainingStep append_training_step(Scope scope, Value loss, const OptimizerOptions& options, const ClipOptions& clip) {
  const Optimizer optimizer(options);
  check_options(clip, "trainer");
  const std::vector<ParameterSpec> specs = scope.parameters();
  const std::vector<ParameterRule> rules = parameter_rules(options, {}, specs);
  Graph& graph = scope.graph();
  std::vector<Value> parameters;
  for (const ParameterSpec& p : specs) parameters.push_back(graph.find_input(p.name));
  std::vector<Value> gradients = differentiate(loss, parameters);
  const ScaledNorm norm = global_norm(gradients);
  gradients = clipped(std::move(gradients), parameters, norm, clip);
  const Value lr = graph.input("lr", {DType::f32, {}}), update = graph.input("update", {DType::i32, {}});
  TrainingStep step;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::vector<std::string> names{specs[i].name};
    std::vector<Value> slots;
    for (const std::string& slot : optimizer.slots()) {
      names.push_back(slot_name(slot, specs[i].name));
      slots.push_back(graph.input(names.back(), specs[i].type));
      step.initial_slots.emplace(names.back(), Tensor(specs[i].type));
    }
    const std::vector<Value> next =
        optimizer.update(parameters[i], gradients[i], slots, lr, update, rules[i].weight_decay);
    for (std::size_t k = 0; k < next.size(); ++k) graph.output(names[k], next[k]);
    step.parameters.push_back(specs[i].name);
    step.slots.insert(step.slots.end(), names.begin() + 1, names.end());
  }
  return step;
}

}  // namespace unroll
