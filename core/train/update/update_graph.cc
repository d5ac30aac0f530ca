// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/update_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/support/sum_tree.h"
#include "core/support/tensor_role.h"
#include "core/train/update/activation_counts.h"
#include "core/train/update/clip.h"
#include "core/train/update/control.h"
#include "core/train/update/exchange_buckets.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Adds persistent tensors to a graph: an input that is zero at first, and the output that replaces it, which is left
// out where nothing may change.
class PersistentInputs {
 public:
  PersistentInputs(Graph& graph, std::vector<NamedType>& list, bool change = true)
      : graph_(graph), list_(list), change_(change) {}
  Value input(const std::string& name, const Type& type, double initial = 0) {
    list_.push_back({name, type, initial});
    return graph_.input(name, type);
  }
  void state(const CarriedState& s, Value next) {
    list_.push_back({state_name(s.name), s.type});
    replace(state_name(s.name), next);
  }
  void replace(const std::string& name, Value next) {
    if (change_) graph_.output(name, next);
  }

 private:
  Graph& graph_;
  std::vector<NamedType>& list_;
  bool change_;
};

// The graph of one update while it grows.
class UpdateBuilder {
 public:
  UpdateBuilder(const Task& task, const Batch& like, const UpdateConfig& recipe, Phase phase, const UpdateShare& share,
                bool change)
      : recipe_(recipe), phase_(phase), share_(share), control_(*t_.graph),
        built_(build_task(task, *t_.graph, like, true, control_.key, /*in_parts=*/phase != Phase::whole)),
        loops_(change ? std::vector<LoopActivations>() : count_activations(*t_.graph)),
        persistent_(*t_.graph, t_.persistent, change), sums_(sums_of(built_)) {
    t_.parameters = built_.parameters;
    t_.metrics = built_.metrics;
    rules_ = parameter_rules(recipe.optimizer_options, recipe.groups, t_.parameters);
    for (std::size_t i = 0; i < rules_.size(); ++i)
      if (rules_[i].lr_scale > 0) trained_.push_back(i);
    for (const std::size_t i : trained_) parameters_.push_back(graph().find_input(name(i)));
    if (recipe.scales) scale_ = persistent_.input(k_loss_scale, {DType::f32, {}}, recipe.loss_scale.initial);
    find_parts();
    if (phase == Phase::step) read_sums();
    else if (phase != Phase::exchange) find_gradients();
  }

  TrainingGraph build() {
    const bool steps = phase_ == Phase::whole || phase_ == Phase::step;
    const OriginScope of_phase(graph(), {"", steps ? Origin::Phase::update : Origin::Phase::backward});
    if (phase_ == Phase::exchange) {
      for (const NamedType& part : t_.parts)
        exchange(part, persistent_.input(accumulated_name(0, part.name), part.type));
      return std::move(t_);
    }
    if (phase_ == Phase::gather || phase_ == Phase::last) {
      give_leaf();
      Value loss = built_.task.loss;
      for (const LossTerm& term : built_.terms) loss = loss + cast(term.value, loss.dtype());
      carry(is_finite(loss));
      return std::move(t_);
    }
    const ScaledNorm norm = global_norm(gradients_);
    const std::vector<Value> limited = clipped(gradients_, parameters_, norm, recipe_.clip);
    Value ok = logical_and(is_finite(norm.scaled), is_finite(sum(slice(sums_, 0, 0, 2))));
    if (!bounds_elements(recipe_.clip))
      ok = logical_and(ok, equal(global_norm(limited).scale, scalar_like(norm.scale, 1)));
    step(limited, ok);
    if (phase_ == Phase::whole) carry(ok);
    count(norm.value(), ok);
    if (scale_) rescale(ok);
    return std::move(t_);
  }

  std::vector<int> buckets() const { return exchange_buckets(of_terms_[0]); }

  WatchGraph watch() {
    std::vector<Value> values;
    WatchGraph w;
    const std::vector<Value> gradients = clipped(gradients_, parameters_, global_norm(gradients_), recipe_.clip);
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      const Value old = parameters_[k], moved = stepped(k, gradients[k]).next[0] - old;
      values.push_back(norm_of(gradients_[k]));
      values.push_back(norm_of(moved) / maximum(norm_of(old), scalar_like(old, k_smallest_norm)));
      w.parameters.push_back(name(trained_[k]));
    }
    for (const LoopActivations& loop : loops_) {
      values.push_back(loop.saturated);
      values.push_back(loop.dead);
      w.loops.push_back(loop.loop);
    }
    graph().output(k_watched, row_of(values));
    w.training = std::move(t_);
    return w;
  }

 private:
  // A parameter that is zero still has a ratio.
  static constexpr double k_smallest_norm = 1e-12;
  static Value norm_of(Value x) { return global_norm(std::span(&x, 1)).value(); }

  Graph& graph() { return *t_.graph; }
  const std::string& name(std::size_t parameter) const { return t_.parameters[parameter].name; }

  void find_gradients() {
    of_terms_.push_back(gradients_of(built_.task.loss));
    for (const LossTerm& term : built_.terms) of_terms_.push_back(gradients_of(term.value));
    gradients_ = of_terms_[0];
  }
  std::vector<Value> gradients_of(Value loss) {
    if (scale_) loss = loss * cast(scale_, loss.dtype());
    std::vector<Value> gradients = differentiate(loss, parameters_);
    if (scale_)
      for (Value& g : gradients) g = g / cast(scale_, g.dtype());
    return gradients;
  }

  // Of trained parameters, whose gradients lie in it in this order. Term 0 is the loss.
  struct Part {
    std::size_t term = 0;
    bool has_sums = false;
    std::vector<std::size_t> parameters = {};
  };
  void find_parts() {
    std::map<std::tuple<std::size_t, int, DType>, Part> parts;
    parts[{0, 0, DType::f32}].has_sums = true;
    for (std::size_t term = 0; term <= built_.terms.size(); ++term)
      for (std::size_t k = 0; k < parameters_.size(); ++k) {
        const int bucket = term > 0 || recipe_.buckets.empty() ? 0 : recipe_.buckets[k];
        Part& part = parts[{term, bucket, parameters_[k].dtype()}];
        part.term = term;
        part.parameters.push_back(k);
      }
    for (const auto& [key, part] : parts) {
      std::int64_t n = part.has_sums ? sums_.shape()[0] + 1 : 0;
      for (const std::size_t k : part.parameters) n += parameters_[k].shape().elements();
      const auto& [term, bucket, dtype] = key;
      const std::string of = term > 0 ? "penalty." + std::to_string(term) : "gradient." + std::to_string(bucket);
      t_.parts.push_back({of + "." + std::string(dtype_name(dtype)), {dtype, {n}}});
      parts_.push_back(part);
    }
  }

  // The leaf of this batch. Of the last one of a rank, the sums of all ranks, too.
  void give_leaf() {
    graph().output(accumulated_name(0, k_sums_part), sums_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::vector<Value> values;
      if (parts_[i].has_sums) values = {sums_, reshape(control_.asked, {1})};
      const std::size_t term = parts_[i].term;
      const Value weight = term > 0 ? built_.terms[term - 1].weight : built_.task.weight;
      for (const std::size_t k : parts_[i].parameters) {
        const Value& g = of_terms_[term][k];
        values.push_back(reshape(g * cast(weight, g.dtype()), {g.shape().elements()}));
      }
      const Value leaf = concat(values, 0);
      graph().output(accumulated_name(0, t_.parts[i].name), leaf);
      if (phase_ == Phase::last) exchange(t_.parts[i], leaf);
    }
  }

  std::size_t n_blocks() const {
    return blocks_before_last_sum(leaves_of(share_.leaves, share_.rank, share_.ranks)).size();
  }
  Value sum_of(std::span<const Value> blocks) {
    const OriginScope of_ranks(graph(), {"", Origin::Phase::communication});
    return all_reduce(blocks, share_.leaves, share_.rank, share_.ranks);
  }
  void exchange(const NamedType& part, Value leaf) {
    std::vector<Value> blocks;
    for (std::size_t i = 1; i < n_blocks(); ++i)
      blocks.push_back(persistent_.input(accumulated_name(i, part.name), part.type));
    blocks.push_back(leaf);
    graph().output(total_name(part.name), sum_of(blocks));
  }

  Value total_of(const NamedType& part) {
    if (share_.ranks > 1) return persistent_.input(total_name(part.name), part.type);
    std::vector<Value> blocks;
    for (std::size_t i = 0; i < n_blocks(); ++i)
      blocks.push_back(persistent_.input(accumulated_name(i, part.name), part.type));
    return sum_of(blocks);
  }
  // The sums and gradients of all leaves.
  void read_sums() {
    std::vector<Value> totals;
    for (const NamedType& part : t_.parts) totals.push_back(total_of(part));
    const std::int64_t n_sums = sums_.shape()[0];
    Value asked;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].has_sums) continue;
      sums_ = slice(totals[i], 0, 0, n_sums);
      asked = slice(totals[i], 0, n_sums, 1);
    }
    if (share_.ranks > 1) persistent_.replace(k_asked, asked);
    const std::vector<Value> weights = weights_of_terms();
    gradients_.resize(parameters_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::int64_t at = parts_[i].has_sums ? n_sums + 1 : 0;
      for (const std::size_t k : parts_[i].parameters) {
        const Value& p = parameters_[k];
        const std::int64_t n = p.shape().elements(), start = std::exchange(at, at + n);
        const Value g = reshape(slice(totals[i], 0, start, n), p.shape()) / cast(weights[parts_[i].term], p.dtype());
        gradients_[k] = parts_[i].term > 0 ? gradients_[k] + g : g;
      }
    }
    add_terms_to_loss(weights);
  }

  Value sum_at(std::int64_t i) { return reshape(slice(sums_, 0, i, 1), {}); }
  std::int64_t sum_of_term(std::size_t term) {
    return sums_.shape()[0] - 2 * static_cast<std::int64_t>(built_.terms.size() + 1 - term);
  }
  // A term without a step in any batch has the gradient 0 and the weight 0.
  std::vector<Value> weights_of_terms() {
    std::vector<Value> weights;
    for (std::size_t term = 0; term <= built_.terms.size(); ++term) {
      const Value weight = sum_at(term == 0 ? 1 : sum_of_term(term) + 1), zero = scalar_like(weight, 0);
      weights.push_back(select(equal(weight, zero), scalar_like(weight, 1), weight));
    }
    return weights;
  }
  void add_terms_to_loss(std::span<const Value> weights) {
    if (built_.terms.empty()) return;
    Value loss = sum_at(0);
    for (std::size_t term = 1; term <= built_.terms.size(); ++term)
      loss = loss + sum_at(sum_of_term(term)) / weights[term] * weights[0];
    const std::int64_t n_plain = sum_of_term(1);
    sums_ = concat(std::vector{reshape(loss, {1}), slice(sums_, 0, 1, n_plain - 1)}, 0);
  }

  // What a step makes of a parameter and its slots.
  struct Stepped {
    std::vector<std::string> names;
    std::vector<Value> old, next;
  };
  Stepped stepped(std::size_t k, Value gradient) {
    const std::string& parameter = name(trained_[k]);
    Stepped s{{parameter}, {parameters_[k]}, {}};
    for (const std::string& slot : recipe_.optimizer.slots()) {
      s.names.push_back(slot_name(slot, parameter));
      s.old.push_back(persistent_.input(s.names.back(), parameters_[k].type()));
    }
    const ParameterRule& rule = rules_[trained_[k]];
    const Value lr = rule.lr_scale == 1 ? control_.lr : control_.lr * rule.lr_scale;
    s.next = recipe_.optimizer.update(parameters_[k], gradient, std::span(s.old).subspan(1), lr, control_.update,
                                      rule.weight_decay);
    return s;
  }

  void step(const std::vector<Value>& gradients, Value ok) {
    const Value rate = control_.average_rate;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      const OriginScope of_layer(graph(), {parameters_[k].node().origin.layer, Origin::Phase::update});
      Stepped s = stepped(k, gradients[k]);
      if (recipe_.averages) {
        s.names.push_back(average_name(name(trained_[k])));
        s.old.push_back(persistent_.input(s.names.back(), parameters_[k].type()));
        s.next.push_back(s.old.back() * (1 - rate) + s.next[0] * rate);
      }
      for (std::size_t n = 0; n < s.next.size(); ++n) persistent_.replace(s.names[n], select(ok, s.next[n], s.old[n]));
    }
  }

  void carry(Value ok) {
    for (const CarriedState& s : built_.task.states) persistent_.state(s, select(ok, s.out, s.in));
  }

  void count(Value norm, Value ok) {
    const Value one = scalar(graph(), DType::f32, 1), zero = scalar(graph(), DType::f32, 0);
    const std::int64_t n_metrics = sums_.shape()[0] - 2;
    const Value now = concat(
        std::vector{slice(sums_, 0, 0, 2), row_of({norm, one}), slice(sums_, 0, 2, n_metrics)}, 0);
    const Value totals = persistent_.input(k_totals, now.type());
    persistent_.replace(k_totals, totals + select(ok, now, zero));

    // While the scale can still fall, an overflow is not bad.
    const Value good = scale_ ? logical_or(ok, less(one * recipe_.loss_scale.lowest, scale_)) : ok;
    const Value bad = persistent_.input(k_bad, {DType::f32, {4}});
    const Value skipped = slice(bad, 0, 0, 1) + select(good, zero, one);
    const Value run = select(good, zero, slice(bad, 0, 1, 1) + one);
    const Value last = select(good, slice(bad, 0, 3, 1), cast(control_.update, DType::f32));
    persistent_.replace(k_bad, concat(std::vector{skipped, run, maximum(slice(bad, 0, 2, 1), run), last}, 0));
  }

  void rescale(Value ok) {
    constexpr double highest = 16777216;
    const Value zero = scalar_like(scale_, 0), age = persistent_.input(k_scale_age, {DType::f32, {}}) + 1;
    const Value grows = less_equal(scalar_like(scale_, static_cast<double>(recipe_.loss_scale.growth_every)), age);
    const Value up = select(grows, minimum(scale_ * 2, scalar_like(scale_, highest)), scale_);
    const Value down = maximum(scale_ * 0.5, scalar_like(scale_, recipe_.loss_scale.lowest));
    persistent_.replace(k_loss_scale, select(ok, up, down));
    persistent_.replace(k_scale_age, select(ok, select(grows, zero, age), zero));
  }

  TrainingGraph t_;
  const UpdateConfig& recipe_;
  Phase phase_;
  UpdateShare share_;
  Control control_;
  Built built_;
  std::vector<LoopActivations> loops_;  // when watching
  PersistentInputs persistent_;
  Value sums_;                        // f32 [2 + 2 M], and two of each term until read_sums()
  Value scale_;                       // of the loss; null without
  std::vector<ParameterRule> rules_;  // of each parameter
  std::vector<std::size_t> trained_;  // parameters that are not frozen
  std::vector<Value> parameters_, gradients_;  // of those
  std::vector<std::vector<Value>> of_terms_;   // gradients of the loss and of each further term, of this batch
  std::vector<Part> parts_;                    // as in t_.parts
};

}  // namespace

TrainingGraph build_update(const Task& task, const Batch& like, const UpdateConfig& recipe, Phase phase,
                           const UpdateShare& share) {
  return UpdateBuilder(task, like, recipe, phase, share, /*change=*/true).build();
}

WatchGraph build_watch(const Task& task, const Batch& like, const UpdateConfig& recipe, Phase phase,
                       const UpdateShare& share) {
  return UpdateBuilder(task, like, recipe, phase, share, /*change=*/false).watch();
}

std::vector<int> gradient_buckets(const Task& task, const Batch& like, const UpdateConfig& recipe) {
  return UpdateBuilder(task, like, recipe, Phase::gather, {}, /*change=*/true).buckets();
}

EvaluationGraph build_evaluation(const Task& task, const Batch& like, bool counts) {
  EvaluationGraph e;
  const Built built = build_task(task, *e.graph, like, false);
  e.parameters = built.parameters;
  e.metrics = built.metrics;
  e.graph->output(k_report, sums_of(built));
  if (counts)
    for (const auto& [name, value] : built.task.counts) e.graph->output(k_count_prefix + name, value);
  PersistentInputs persistent(*e.graph, e.persistent);
  for (const CarriedState& s : built.task.states) persistent.state(s, s.out);
  return e;
}

EvaluationGraph build_prediction(const Task& task, const Batch& like) {
  EvaluationGraph e;
  Scope scope(*e.graph, /*training=*/false);
  const TaskGraph built = task.build(scope, like);
  require_sources(*e.graph, built, like, scope);
  if (built.outputs.empty())
    throw Error(ErrorKind::usage, "Task::build", "returns no outputs to predict", "Name them in TaskGraph::outputs");
  e.parameters = scope.parameters();
  for (const auto& [name, value] : built.outputs) e.graph->output(k_output_prefix + name, value);
  PersistentInputs persistent(*e.graph, e.persistent);
  for (const CarriedState& s : built.states) persistent.state(s, s.out);
  return e;
}

}  // namespace unroll
