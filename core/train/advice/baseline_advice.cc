// SPDX-License-Identifier: Apache-2.0
#include "core/train/advice/baseline_advice.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/support/text/exact_text.h"

namespace unroll {

namespace {

// In order of preference: mase is mae without units, so that it stands for several series.
struct RankedMetric {
  const char* name;
  bool higher_is_better;
};
constexpr RankedMetric k_metrics[] = {{"mase", false},
                                     {"mae", false},
                                     {"bleu", true},
                                     {"rouge1", true},
                                     {"accuracy", true},
                                     {"perplexity", false},
                                     {"bits_per_character", false}};
const std::set<std::string> k_constant{"most_frequent", "frequency", "mean"};  // baselines that ignore the input

struct Rival {
  std::string name;
  double value;
};

std::string text_of(double value) {
  return short_text(value, 4);
}

// "persistence has 1.2, seasonal_naive 1.07"
std::string text_of(const std::vector<Rival>& rivals) {
  std::string text;
  for (const Rival& r : rivals)
    text += text.empty() ? r.name + " has " + text_of(r.value) : ", " + r.name + " " + text_of(r.value);
  return text;
}

Advice advice_of(const Symptom& symptom, const RankedMetric& metric, double value, const std::vector<Rival>& rivals,
                 const std::string& remedies) {
  return {std::string(symptom.name), std::string(metric.name) + " is " + text_of(value) + ", the baseline " +
                                         text_of(rivals) + ". Try " + remedies};
}

}  // namespace

std::optional<Advice> compare_with_baselines(
    const std::map<std::string, double>& metrics,
    const std::map<std::string, std::map<std::string, double>>& baselines, std::string_view remedy) {
  const bool are_forecasts = baselines.contains("persistence");
  if (remedy.empty() && are_forecasts) remedy = "a longer `data.window`";
  const std::string first = std::string(remedy) + (remedy.empty() ? "" : ", ");
  for (const RankedMetric& metric : k_metrics) {
    const auto own = metrics.find(metric.name);
    if (own == metrics.end()) continue;
    std::vector<Rival> better, constant;
    bool compared = false;
    for (const auto& [name, values] : baselines) {
      const auto at = values.find(metric.name);
      if (at == values.end()) continue;
      compared = true;
      const double lead = metric.higher_is_better ? at->second - own->second : own->second - at->second;
      if (lead > 0 || std::isnan(own->second)) better.push_back({name, at->second});
      if (k_constant.contains(name) && !(lead < 0)) constant.push_back({name, at->second});
    }
    if (!constant.empty())
      return advice_of(k_no_learning, metric, own->second, constant, first + std::string(k_no_learning.remedies));
    if (!better.empty()) {
      std::string remedies = first + std::string(k_worse_than_baseline.remedies);
      if (are_forecasts)
        remedies += ": `unroll predict RUN --baseline " + std::ranges::min(better, {}, &Rival::value).name + "`";
      return advice_of(k_worse_than_baseline, metric, own->second, better, remedies);
    }
    if (compared) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace unroll
