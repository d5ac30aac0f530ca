// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/update_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/support/sum_tree.h"
#include "core/train/update/activation_counts.h"
#include "core/train/update/clip.h"
#include "core/train/update/control.h"
#include "core/train/update/exchange_buckets.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// The task's graph for training, with its trained parameters: the beginning of every graph of an update.
struct TrainedTask {
  TrainedTask(const Task& task, const Batch& like, const UpdateConfig& update_config, Phase phase, bool change)
      : config(update_config), control(*training.graph),
        built(build_task(task, *training.graph, like, true, control.key, /*in_parts=*/phase != Phase::whole)),
        loops(change ? std::vector<LoopActivations>() : count_activations(*training.graph)),
        buffers(*training.graph, training.buffers, change), sums(sums_of(built)) {
    training.parameters = built.parameters;
    training.metrics = built.metrics;
    const std::vector<ParameterRule> all = parameter_rules(config.optimizer_options, config.groups, built.parameters);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].lr_scale <= 0) continue;  // frozen
      rules.push_back(all[i]);
      names.push_back(built.parameters[i].name);
    }
    for (const std::string& name : names) parameters.push_back(graph().find_input(name));
    if (config.scales) loss_scale = buffers.read(k_loss_scale, {DType::f32, {}}, config.loss_scale.initial);
  }
  Graph& graph() { return *training.graph; }
  void carry_states(Value ok) {
    for (const CarriedState& s : built.task.states) buffers.carry(s, select(ok, s.out, s.in));
  }

  TrainingGraph training;
  const UpdateConfig& config;
  Control control;
  Built built;
  std::vector<LoopActivations> loops;  // of statistics alone
  GraphBuffers buffers;
  Value sums;        // of this batch: f32 [2 + 2 M], and two of each further term
  Value loss_scale;  // null without
  std::vector<ParameterRule> rules;  // [trained parameter], like the next two
  std::vector<std::string> names;
  std::vector<Value> parameters;
};

// The gradient of the loss by each trained parameter. Loss scaling is undone.
std::vector<Value> gradients_of(TrainedTask& t, Value loss) {
  if (t.loss_scale) loss = loss * cast(t.loss_scale, loss.dtype());
  std::vector<Value> gradients = differentiate(loss, t.parameters);
  if (t.loss_scale)
    for (Value& g : gradients) g = g / cast(t.loss_scale, g.dtype());
  return gradients;
}

// The same of the loss, which is term 0, and of each further term.
std::vector<std::vector<Value>> gradients_by_term(TrainedTask& t) {
  std::vector<std::vector<Value>> all{gradients_of(t, t.built.task.loss)};
  for (const LossTerm& term : t.built.terms) all.push_back(gradients_of(t, term.value));
  return all;
}

// One vector of the sums over micro-batches: the gradients of some parameters, one behind the other.
struct SumPart {
  NamedType vector = {};
  std::size_t term = 0;
  bool has_sums = false;  // TrainedTask::sums, and whether the rank was asked to stop, come before the gradients
  std::vector<std::size_t> parameters = {};
};
std::vector<SumPart> sum_parts(const TrainedTask& t) {
  std::map<std::tuple<std::size_t, int, DType>, SumPart> parts;
  parts[{0, 0, DType::f32}].has_sums = true;
  for (std::size_t term = 0; term <= t.built.terms.size(); ++term)
    for (std::size_t k = 0; k < t.parameters.size(); ++k) {
      const int bucket = term > 0 || t.config.buckets.empty() ? 0 : t.config.buckets[k];
      SumPart& part = parts[{term, bucket, t.parameters[k].dtype()}];
      part.term = term;
      part.parameters.push_back(k);
    }
  std::vector<SumPart> list;
  for (auto& [key, part] : parts) {
    std::int64_t n = part.has_sums ? t.sums.shape()[0] + 1 : 0;
    for (const std::size_t k : part.parameters) n += t.parameters[k].shape().elements();
    const auto& [term, bucket, dtype] = key;
    const std::string of = term > 0 ? "penalty." + std::to_string(term) : "gradient." + std::to_string(bucket);
    part.vector = {of + "." + std::string(dtype_name(dtype)), {dtype, {n}}};
    list.push_back(std::move(part));
  }
  return list;
}

// The graphs that sum gradients over the micro-batches of an update.
class Accumulation {
 public:
  Accumulation(TrainedTask& t, const UpdateShare& share)
      : t_(t), share_(share), parts_(sum_parts(t)),
        n_blocks_(partial_sums_before_last(micro_batches_of(share.micro_batches, share.rank, share.ranks)).size()) {
    for (const SumPart& part : parts_) t.training.parts.push_back(part.vector);
  }
  const std::vector<SumPart>& parts() const { return parts_; }

  // Writes the sums and gradients of this micro-batch. The last one of a rank is exchanged at once.
  void write(const std::vector<std::vector<Value>>& gradients, bool is_last) {
    t_.graph().output(accumulated_name(0, k_sums_part), t_.sums);
    for (const SumPart& part : parts_) {
      const Value own = vector_of(part, gradients[part.term]);
      t_.graph().output(accumulated_name(0, part.vector.name), own);
      if (is_last) exchange(part, own);
    }
  }

  // The same of a rank without micro-batches.
  void exchange_nothing() {
    for (const SumPart& part : parts_) exchange(part, read(part, 0));
  }

  // The sum over all micro-batches of all ranks.
  Value total(const SumPart& part) {
    if (share_.ranks > 1) return t_.buffers.read(total_name(part.vector.name), part.vector.type);
    std::vector<Value> blocks;
    for (std::size_t i = 0; i < n_blocks_; ++i) blocks.push_back(read(part, i));
    return sum_of(blocks);
  }

 private:
  Value vector_of(const SumPart& part, const std::vector<Value>& gradients) {
    std::vector<Value> values;
    if (part.has_sums) values = {t_.sums, reshape(t_.control.asked, {1})};
    const Built& built = t_.built;
    const Value weight = part.term > 0 ? built.terms[part.term - 1].weight : built.task.weight;
    for (const std::size_t k : part.parameters) {
      const Value& g = gradients[k];
      values.push_back(reshape(g * cast(weight, g.dtype()), {g.shape().elements()}));
    }
    return concat(values, 0);
  }
  Value read(const SumPart& part, std::size_t i) {
    return t_.buffers.read(accumulated_name(i, part.vector.name), part.vector.type);
  }
  Value sum_of(std::span<const Value> blocks) {
    const OriginScope of_ranks(t_.graph(), {"", Origin::Phase::communication});
    return all_reduce(blocks, share_.micro_batches, share_.rank, share_.ranks);
  }
  void exchange(const SumPart& part, Value last) {
    std::vector<Value> blocks;
    for (std::size_t i = 1; i < n_blocks_; ++i) blocks.push_back(read(part, i));
    blocks.push_back(last);
    t_.graph().output(total_name(part.vector.name), sum_of(blocks));
  }

  TrainedTask& t_;
  UpdateShare share_;
  std::vector<SumPart> parts_;
  std::size_t n_blocks_;  // partial sums that this rank holds
};

// The gradient of an update and the sums of its batches, f32 [2 + 2 M].
struct UpdateGradient {
  std::vector<Value> gradients;
  Value sums;
};

// An element of the totals' sums. The sums of term i begin at sum_of_term(i).
Value number_at(Value sums, std::int64_t i) { return reshape(slice(sums, 0, i, 1), {}); }
std::int64_t sum_of_term(const TrainedTask& t, std::size_t term) {
  return t.sums.shape()[0] - 2 * static_cast<std::int64_t>(t.built.terms.size() + 1 - term);
}
// A term without a step in any batch has the gradient 0 and the weight 0.
std::vector<Value> weights_of_terms(const TrainedTask& t, Value sums) {
  std::vector<Value> weights;
  for (std::size_t term = 0; term <= t.built.terms.size(); ++term) {
    const Value weight = number_at(sums, term == 0 ? 1 : sum_of_term(t, term) + 1), zero = scalar_like(weight, 0);
    weights.push_back(select(equal(weight, zero), scalar_like(weight, 1), weight));
  }
  return weights;
}
// The sums without those of the further terms, which become part of the loss.
Value with_terms_in_loss(const TrainedTask& t, Value sums, std::span<const Value> weights) {
  if (t.built.terms.empty()) return sums;
  Value loss = number_at(sums, 0);
  for (std::size_t term = 1; term <= t.built.terms.size(); ++term)
    loss = loss + number_at(sums, sum_of_term(t, term)) / weights[term] * weights[0];
  return concat(std::vector{reshape(loss, {1}), slice(sums, 0, 1, sum_of_term(t, 1) - 1)}, 0);
}

// Takes the totals over all micro-batches apart.
UpdateGradient total_gradient(TrainedTask& t, const UpdateShare& share) {
  Accumulation accumulation(t, share);
  std::vector<Value> totals;
  for (const SumPart& part : accumulation.parts()) totals.push_back(accumulation.total(part));
  const std::int64_t n_sums = t.sums.shape()[0];
  const auto has_sums = std::ranges::find_if(accumulation.parts(), &SumPart::has_sums);
  const Value first = totals[has_sums - accumulation.parts().begin()];
  const Value sums = slice(first, 0, 0, n_sums), asked = slice(first, 0, n_sums, 1);
  if (share.ranks > 1) t.buffers.write(k_asked, asked);
  const std::vector<Value> weights = weights_of_terms(t, sums);
  std::vector<Value> gradients(t.parameters.size());
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const SumPart& part = accumulation.parts()[i];
    std::int64_t at = part.has_sums ? n_sums + 1 : 0;
    for (const std::size_t k : part.parameters) {
      const Value& p = t.parameters[k];
      const std::int64_t n = p.shape().elements(), start = std::exchange(at, at + n);
      const Value g = reshape(slice(totals[i], 0, start, n), p.shape()) / cast(weights[part.term], p.dtype());
      gradients[k] = part.term > 0 ? gradients[k] + g : g;
    }
  }
  return {std::move(gradients), with_terms_in_loss(t, sums, weights)};
}

UpdateGradient gradient_of(TrainedTask& t, Phase phase, const UpdateShare& share) {
  if (phase == Phase::step) return total_gradient(t, share);
  return {gradients_by_term(t)[0], t.sums};
}

// A parameter and its slots before and after the optimizer's step.
struct OptimizerStep {
  std::vector<std::string> names;
  std::vector<Value> old, next;
};
OptimizerStep optimizer_step(TrainedTask& t, std::size_t k, Value gradient) {
  OptimizerStep s{{t.names[k]}, {t.parameters[k]}, {}};
  for (const std::string& slot : t.config.optimizer.slots()) {
    s.names.push_back(slot_name(slot, t.names[k]));
    s.old.push_back(t.buffers.read(s.names.back(), t.parameters[k].type()));
  }
  const ParameterRule& rule = t.rules[k];
  const Value lr = rule.lr_scale == 1 ? t.control.lr : t.control.lr * rule.lr_scale;
  s.next = t.config.optimizer.update(t.parameters[k], gradient, std::span(s.old).subspan(1), lr, t.control.update,
                                     rule.weight_decay);
  return s;
}

// Applies a gradient: clip, optimizer, averages, counters and the loss scale.
class UpdateStep {
 public:
  UpdateStep(TrainedTask& t, UpdateGradient gradient)
      : t_(t), sums_(gradient.sums), norm_(global_norm(gradient.gradients)),
        limited_(clipped(gradient.gradients, t.parameters, norm_, t.config.clip)),
        ok_(logical_and(is_finite(norm_.scaled), is_finite(sum(slice(sums_, 0, 0, 2))))) {
    if (!bounds_elements(t.config.clip))
      ok_ = logical_and(ok_, equal(norm_of_limited().scale, scalar_like(norm_.scale, 1)));
  }

  void build(bool carries_states) {
    move_parameters();
    if (carries_states) t_.carry_states(ok_);
    count();
    if (t_.loss_scale) rescale();
  }

 private:
  ScaledNorm norm_of_limited() const { return t_.config.clip.adaptive > 0 ? global_norm(limited_) : norm_; }

  void move_parameters() {
    const Value rate = t_.control.average_rate;
    for (std::size_t k = 0; k < limited_.size(); ++k) {
      const OriginScope of_layer(t_.graph(), {t_.parameters[k].node().origin.layer, Origin::Phase::update});
      OptimizerStep s = optimizer_step(t_, k, limited_[k]);
      if (t_.config.averages) {
        s.names.push_back(average_name(t_.names[k]));
        s.old.push_back(t_.buffers.read(s.names.back(), t_.parameters[k].type()));
        s.next.push_back(s.old.back() * (1 - rate) + s.next[0] * rate);
      }
      for (std::size_t n = 0; n < s.next.size(); ++n) t_.buffers.write(s.names[n], select(ok_, s.next[n], s.old[n]));
    }
  }

  void count() {
    const Value norm = norm_.value();
    const Value one = scalar(t_.graph(), DType::f32, 1), zero = scalar(t_.graph(), DType::f32, 0);
    const std::int64_t n_metrics = sums_.shape()[0] - 2;
    const Value now = concat(
        std::vector{slice(sums_, 0, 0, 2), row_of({norm, one}), slice(sums_, 0, 2, n_metrics)}, 0);
    const Value totals = t_.buffers.read(k_totals, now.type());
    t_.buffers.write(k_totals, totals + select(ok_, now, zero));

    // While the scale can still fall, an overflow is not bad.
    const Value good = t_.loss_scale ? logical_or(ok_, less(one * t_.config.loss_scale.lowest, t_.loss_scale)) : ok_;
    const Value bad = t_.buffers.read(k_bad, {DType::f32, {4}});
    const Value skipped = slice(bad, 0, 0, 1) + select(good, zero, one);
    const Value run = select(good, zero, slice(bad, 0, 1, 1) + one);
    const Value last = select(good, slice(bad, 0, 3, 1), cast(t_.control.update, DType::f32));
    t_.buffers.write(k_bad, concat(std::vector{skipped, run, maximum(slice(bad, 0, 2, 1), run), last}, 0));
  }

  void rescale() {
    constexpr double highest = 16777216;
    const LossScaleOptions& options = t_.config.loss_scale;
    const Value scale = t_.loss_scale, zero = scalar_like(scale, 0);
    const Value age = t_.buffers.read(k_scale_age, {DType::f32, {}}) + 1;
    const Value grows = less_equal(scalar_like(scale, static_cast<double>(options.growth_every)), age);
    const Value up = select(grows, minimum(scale * 2, scalar_like(scale, highest)), scale);
    const Value down = maximum(scale * 0.5, scalar_like(scale, options.lowest));
    t_.buffers.write(k_loss_scale, select(ok_, up, down));
    t_.buffers.write(k_scale_age, select(ok_, select(grows, zero, age), zero));
  }

  TrainedTask& t_;
  Value sums_;
  ScaledNorm norm_;             // before clipping
  std::vector<Value> limited_;  // after clipping
  Value ok_;                    // false: the update changes nothing
};

Value norm_of(Value x) { return global_norm(std::span(&x, 1)).value(); }

}  // namespace

TrainingGraph build_update(const Task& task, const Batch& like, const UpdateConfig& config, Phase phase,
                           const UpdateShare& share) {
  TrainedTask t(task, like, config, phase, /*change=*/true);
  if (phase == Phase::whole || phase == Phase::step) {
    UpdateGradient gradient = gradient_of(t, phase, share);
    const OriginScope of_phase(t.graph(), {"", Origin::Phase::update});
    UpdateStep(t, std::move(gradient)).build(/*carries_states=*/phase == Phase::whole);
    return std::move(t.training);
  }
  Accumulation accumulation(t, share);
  std::vector<std::vector<Value>> gradients;
  if (phase != Phase::exchange) gradients = gradients_by_term(t);
  const OriginScope of_phase(t.graph(), {"", Origin::Phase::backward});
  if (phase == Phase::exchange) {
    accumulation.exchange_nothing();
    return std::move(t.training);
  }
  accumulation.write(gradients, phase == Phase::last);
  Value loss = t.built.task.loss;
  for (const LossTerm& term : t.built.terms) loss = loss + cast(term.value, loss.dtype());
  t.carry_states(is_finite(loss));
  return std::move(t.training);
}

StatisticsGraph build_statistics(const Task& task, const Batch& like, const UpdateConfig& config, Phase phase,
                                 const UpdateShare& share) {
  constexpr double k_smallest_norm = 1e-12;  // so that a parameter that is zero has a ratio
  TrainedTask t(task, like, config, phase, /*change=*/false);
  const std::vector<Value> gradients = gradient_of(t, phase, share).gradients;
  const std::vector<Value> limited = clipped(gradients, t.parameters, global_norm(gradients), config.clip);
  std::vector<Value> values;
  StatisticsGraph statistics{.parameters = t.names};
  for (std::size_t k = 0; k < limited.size(); ++k) {
    const Value old = t.parameters[k], moved = optimizer_step(t, k, limited[k]).next[0] - old;
    values.push_back(norm_of(gradients[k]));
    values.push_back(norm_of(moved) / maximum(norm_of(old), scalar_like(old, k_smallest_norm)));
  }
  for (const LoopActivations& loop : t.loops) {
    values.push_back(loop.saturated);
    values.push_back(loop.dead);
    statistics.loops.push_back(loop.loop);
  }
  t.graph().output(k_statistics, row_of(values));
  statistics.training = std::move(t.training);
  return statistics;
}

std::vector<int> gradient_buckets(const Task& task, const Batch& like, const UpdateConfig& config) {
  TrainedTask t(task, like, config, Phase::accumulate, /*change=*/true);
  return exchange_buckets(gradients_by_term(t)[0]);
}

}  // namespace unroll
