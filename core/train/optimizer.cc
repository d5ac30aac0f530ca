// SPDX-License-Identifier: Apache-2.0
#include "core/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/support/nearest_name.h"
#include "unroll/error.h"

namespace unroll {

namespace {

// Inputs of each composite after parameter and gradient, in its order. "momentum" is there only when it is not 0.
struct Row {
  std::string_view name;
  Op op;
  std::vector<std::string> inputs;
};
const std::vector<Row>& rows() {
  static const std::vector<Row> table{
      {"sgd", Op::sgd, {"lr", "momentum"}},
      {"adam", Op::adam, {"mean", "square", "lr", "update"}},
      {"adamw", Op::adam, {"mean", "square", "lr", "update"}},
      {"rmsprop", Op::rmsprop, {"square", "lr", "momentum"}},
      {"adagrad", Op::adagrad, {"square", "lr"}},
  };
  return table;
}

const Row& find_row(const std::string& name) {
  std::vector<std::string_view> known;
  std::string list;
  for (const Row& row : rows()) {
    if (row.name == name) return row;
    known.push_back(row.name);
    list.append(list.empty() ? "" : ", ").append(row.name);
  }
  const std::string_view near = nearest_name(name, known);
  throw Error(ErrorKind::usage, "optimizer", "there is no optimizer '" + name + "'",
              near.empty() ? "Known: " + list : "Did you mean '" + std::string(near) + "'? Known: " + list);
}

void check(const OptimizerOptions& o) {
  const auto require = [](bool ok, const char* rule, double value) {
    if (!ok) throw Error(ErrorKind::usage, "optimizer", std::string(rule) + "; got " + std::to_string(value));
  };
  require(o.lr > 0 && std::isfinite(o.lr), "lr must be positive", o.lr);
  require(o.momentum >= 0 && o.momentum < 1, "momentum must be in [0,1)", o.momentum);
  require(o.beta1 >= 0 && o.beta1 < 1, "beta1 must be in [0,1)", o.beta1);
  require(o.beta2 >= 0 && o.beta2 < 1, "beta2 must be in [0,1)", o.beta2);
  require(o.alpha >= 0 && o.alpha < 1, "alpha must be in [0,1)", o.alpha);
  require(o.epsilon > 0 && std::isfinite(o.epsilon), "epsilon must be positive", o.epsilon);
  require(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "weight_decay must not be negative", o.weight_decay);
}

}  // namespace

OptimizerRecipe::OptimizerRecipe(const OptimizerOptions& o) {
  const Row& row = find_row(o.name);
  check(o);
  op_ = row.op;
  for (const std::string& input : row.inputs) {
    if (input == "momentum" && o.momentum == 0) continue;
    inputs_.push_back(input);
    if (input != "lr" && input != "update") slots_.push_back(input);
  }
  attributes_.set("weight_decay", o.weight_decay);
  if (op_ == Op::sgd || op_ == Op::rmsprop) attributes_.set("momentum", o.momentum);
  if (op_ == Op::sgd) attributes_.set("nesterov", o.nesterov);
  if (op_ != Op::sgd) attributes_.set("epsilon", o.epsilon);
  if (op_ == Op::rmsprop) attributes_.set("alpha", o.alpha);
  if (op_ == Op::adam) {
    attributes_.set("beta1", o.beta1);
    attributes_.set("beta2", o.beta2);
    attributes_.set("decoupled", o.name == "adamw");
  }
}

std::vector<Value> OptimizerRecipe::update(Value parameter, Value gradient, std::span<const Value> slots, Value lr,
                                           Value update) const {
  std::vector<Value> inputs{parameter, gradient};
  std::size_t slot = 0;
  for (const std::string& name : inputs_)
    inputs.push_back(name == "lr" ? lr : name == "update" ? update : slots[slot++]);
  return parameter.graph().append(op_, inputs, attributes_);
}

void check_schedule(const ScheduleOptions& s) {
  if (s.name != "constant" && s.name != "cosine")
    throw Error(ErrorKind::usage, "schedule", "the name must be constant or cosine; got '" + s.name + "'");
  if (s.warmup < 0)
    throw Error(ErrorKind::usage, "schedule", "warmup must not be negative; got " + std::to_string(s.warmup));
  if (!(s.final_fraction >= 0 && s.final_fraction <= 1))
    throw Error(ErrorKind::usage, "schedule",
                "final_fraction must be in [0,1]; got " + std::to_string(s.final_fraction));
}

double scheduled_lr(const ScheduleOptions& s, double lr, std::int64_t update, std::int64_t max_updates) {
  if (update <= s.warmup) return lr * static_cast<double>(update) / static_cast<double>(s.warmup);
  if (s.name == "constant") return lr;
  const double span = static_cast<double>(std::max<std::int64_t>(max_updates - s.warmup, 1));
  const double done = std::min(static_cast<double>(update - 1 - s.warmup) / span, 1.0);
  return lr * (s.final_fraction + (1 - s.final_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace unroll
