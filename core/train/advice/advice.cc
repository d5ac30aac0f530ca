// SPDX-License-Identifier: Apache-2.0
#include "core/train/advice/advice.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/support/median.h"

namespace unroll {

namespace {

using Seen = Advisor::Seen;

constexpr double k_explodes = 10;           // times the median norm of earlier reports
constexpr std::size_t k_enough_norms = 5;   // reports that a median needs
constexpr double k_vanished = 1e-4;         // norm of a gradient, and norm of a layer's over that of another
constexpr std::size_t k_first_reports = 3;
constexpr double k_rise = 0.02;             // of validation loss over its best, of training loss below that of then
constexpr std::size_t k_rising = 3;         // validations
constexpr double k_fall = 0.01;             // of training loss over k_stalled validations: it still learns
constexpr double k_better = 0.001;          // of the best validation loss
constexpr std::size_t k_stalled = 5;        // validations
constexpr double k_learnt = 0.1;            // of the first loss
constexpr double k_saturated = 0.8, k_dead = 0.25;
constexpr double k_diverges = 3;            // times the loss of the first report
constexpr double k_waits = 0.05;            // of the time
constexpr std::size_t k_waiting = 3;        // reports
constexpr double k_waited = 2;              // seconds: a run of a moment gains nothing

bool is_not_finite(const Seen& s) { return s.skipped > 0; }

bool diverges(const Seen& s) {
  return s.infinite_metric || (s.from_start && s.first_loss > 0 && s.last_loss > k_diverges * s.first_loss);
}

bool explodes(const Seen& s) {
  if (s.gradient_norms.size() <= k_enough_norms) return false;
  const double usual = median({s.gradient_norms.begin(), s.gradient_norms.end() - 1});
  return usual > 0 && s.gradient_norms.back() > k_explodes * usual;
}

// "weight_hh_l0", not biases: those in front of a softmax over all keys have no gradient by right.
bool is_layer_weight(const std::string& name) {
  const std::size_t at = name.rfind("_l");
  return at != std::string::npos && at + 2 < name.size() && name[at + 2] >= '0' && name[at + 2] <= '9' &&
         name.find("weight") != std::string::npos;
}

bool vanishes(const Seen& s) {
  if (s.from_start && s.gradient_norms.size() == k_first_reports &&
      *std::max_element(s.gradient_norms.begin(), s.gradient_norms.end()) < k_vanished)
    return true;
  if (!s.statistics) return false;
  double low = HUGE_VAL, high = 0;
  for (const auto& [name, p] : s.statistics->parameters)
    if (is_layer_weight(name)) {
      low = std::min(low, p.gradient_norm);
      high = std::max(high, p.gradient_norm);
    }
  return low < k_vanished * high;
}

bool any_loop(const Seen& s, double LoopStatistics::*share, double limit) {
  if (!s.statistics) return false;
  for (const auto& [name, loop] : s.statistics->loops)
    if (loop.*share > limit) return true;
  return false;
}
bool saturates(const Seen& s) { return any_loop(s, &LoopStatistics::saturated, k_saturated); }
bool dies(const Seen& s) { return any_loop(s, &LoopStatistics::dead, k_dead); }

double least_validation(std::span<const Advisor::Validated> list) {
  double least = HUGE_VAL;
  for (const auto& v : list) least = std::min(least, v.validation);
  return least;
}

bool overfits(const Seen& s) {
  const auto& v = s.validations;
  if (v.size() <= k_rising) return false;
  const auto by_loss = [](const auto& a, const auto& b) { return a.validation < b.validation; };
  const auto best = std::min_element(v.begin(), v.end(), by_loss);
  if (v.end() - best <= static_cast<std::ptrdiff_t>(k_rising)) return false;
  const double limit = best->validation + k_rise * std::fabs(best->validation);
  for (auto late = v.end() - k_rising; late != v.end(); ++late)
    if (late->validation <= limit) return false;
  return v.back().training < best->training - k_rise * std::fabs(best->training);
}

// Over the last validations neither loss fell by much; nor did the training loss rise, which is no rest.
bool rests(const Seen& s) {
  const auto& v = s.validations;
  if (v.size() <= k_stalled || overfits(s)) return false;
  const std::span all(v);
  const auto& then = v[v.size() - 1 - k_stalled];
  const double best = least_validation(all.first(v.size() - k_stalled));
  if (least_validation(all.last(k_stalled)) < best - k_better * std::fabs(best)) return false;
  return std::fabs(v.back().training - then.training) < k_fall * std::fabs(then.training);
}
bool has_learnt(const Seen& s) {
  return s.validations.back().training < s.first_loss - k_learnt * std::fabs(s.first_loss);
}
bool underfits(const Seen& s) { return s.from_start && rests(s) && !has_learnt(s); }
bool is_on_plateau(const Seen& s) { return rests(s) && (!s.from_start || has_learnt(s)); }

bool waits_for_data(const Seen& s) {
  if (s.data_waits.size() <= k_waiting || s.waited < k_waited) return false;  // the first update always waits
  return *std::min_element(s.data_waits.end() - k_waiting, s.data_waits.end()) > k_waits;
}

struct Row {
  Symptom symptom;
  bool (*is_there)(const Seen&);
};
constexpr Row k_rows[] = {
    {{"not finite", "a loss or gradient that is not finite",
      "`train.lr` / 10, `train.clip_norm = 1`, check the rows that the message names"},
     is_not_finite},
    {{"divergence", "`loss` is above 3 times that of the first report, or a metric such as `perplexity` is infinite",
      "`train.lr` / 10, `train.warmup`, `train.clip_norm = 1`; `unroll train CONFIG --find-lr` suggests a rate"},
     diverges},
    {{"exploding gradients", "`gradient_norm` is above 10 times the median of the reports before",
      "`train.clip_norm = 1`, a shorter `data.steps`, a lower `train.lr`"},
     explodes},
    {{"vanishing gradients",
      "`gradient_norm` is below 1e-4 in the first three reports, or `train.watch_every` shows weights of a layer with "
      "a "
      "gradient below 1e-4 of another layer's",
      "`model.cell = \"lstm\"` or `\"gru\"`, `model.init = \"orthogonal\"`, `model.forget_bias = 1`, a cell with layer "
      "norm, "
      "fewer `model.layers`"},
     vanishes},
    {{"saturated gates", "`train.watch_every` shows a layer with `saturated` above 0.8",
      "a cell with layer norm, `model.init = \"xavier\"`, a lower `train.lr`, a larger `data.divide`"},
     saturates},
    {{"dead units", "`train.watch_every` shows a layer with `dead` above 0.25",
      "`model.nonlinearity = \"tanh\"`, a lower `train.lr`, `model.init = \"xavier\"`, a smaller `model.hidden`"},
     dies},
    {{"overfitting",
      "three validations in a row are 2 % above the best one, and the training loss fell by 2 % since that one",
      "`model.dropout`, `train.weight_decay`, a smaller `model.hidden`, more data, `train.patience`"},
     overfits},
    {{"underfitting",
      "five validations lowered the best one by less than 0.1 % and the training loss by less than 1 %, which "
      "is within a tenth of where it began",
      "a higher `train.lr`, a larger `model.hidden`, less `model.dropout`, a longer run, a look at the data"},
     underfits},
    {{"a plateau", "five validations lowered the best one by less than 0.1 % and the training loss by less than 1 %",
      "`train.schedule = \"plateau\"` or `\"cosine\"`, a lower `train.lr`, a larger `model.hidden`"},
     is_on_plateau},
    {{"a slow loader", "`data_wait` is above 5 % in three reports in a row, and the run waited for 2 seconds or more",
      "a larger `train.prefetch`, data in a simpler form"},
     waits_for_data},
};

constexpr auto k_symptoms = [] {
  std::array<Symptom, std::size(k_rows) + 2> list{};
  for (std::size_t i = 0; i < std::size(k_rows); ++i) list[i] = k_rows[i].symptom;
  list[std::size(k_rows)] = k_no_learning;
  list[std::size(k_rows) + 1] = k_worse_than_baseline;
  return list;
}();

}  // namespace

std::span<const Symptom> symptoms() { return k_symptoms; }

void Advisor::remember(const Progress& p) {
  Seen& s = seen_;
  s.skipped = p.skipped_updates;
  if (p.statistics) s.statistics = &*p.statistics;
  if (p.validation_loss) {
    if (n_losses_ > 0) s.validations.push_back({loss_sum_ / static_cast<double>(n_losses_), *p.validation_loss});
    loss_sum_ = 0;
    n_losses_ = 0;
    return;
  }
  if (!std::isfinite(p.loss)) return;  // all updates were skipped
  if (s.gradient_norms.empty()) s.first_loss = p.loss;
  s.last_loss = p.loss;
  for (const auto& [name, value] : p.metrics) s.infinite_metric |= std::isinf(value);
  s.gradient_norms.push_back(p.gradient_norm);
  s.data_waits.push_back(p.data_wait);
  const auto updates = static_cast<double>(p.update - s.update);
  if (p.updates_per_second > 0) s.waited += p.data_wait * updates / p.updates_per_second;
  s.update = p.update;
  loss_sum_ += p.loss;
  ++n_losses_;
}

std::vector<Advice> Advisor::look(const Progress& progress) {
  remember(progress);
  std::vector<Advice> found;
  for (const Row& row : k_rows) {
    const Symptom& s = row.symptom;
    if (said_.contains(s.name) || !row.is_there(seen_)) continue;
    said_.insert(s.name);
    found.push_back({std::string(s.name), std::string(s.seen) + ". Try " + std::string(s.remedies)});
  }
  seen_.statistics = nullptr;  // it belongs to the report
  return found;
}

}  // namespace unroll
