// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/support/text/in_quotes.h"
#include "core/support/text/exact_text.h"
#include "core/tasks/forecast/seasons.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_most_regressed = 512;             // values that the linear part reads
constexpr std::int64_t k_most_weights = std::int64_t{1} << 24;  // of the linear part
constexpr std::int64_t k_least_window = 8;
constexpr double k_window_cost = 1.02;  // a scale by window must err less by this factor
constexpr double k_cut = 0.7;  // share of the rows to which trials are fitted; the others score them

Differencing differencing_of(const std::string& words, std::int64_t period) {
  if (const auto found = differencing_in(words, period)) return *found;
  throw Error(ErrorKind::usage, "forecast",
              "data.difference must be auto, none, or some of first, seasonal and numbers of values, such as "
              "\"first,seasonal\" or \"336\"; got " + in_quotes(words),
              words == "true" ? "Write first" : words == "false" ? "Write none" : "");
}

std::int64_t regressed_of(const ForecastOptions& o, std::size_t n_series) {
  const std::int64_t read = std::min(o.window, k_most_regressed);
  const bool fits = static_cast<double>(read) * static_cast<double>(o.horizon) * static_cast<double>(n_series) <=
                    static_cast<double>(k_most_weights);
  return o.autoregression && fits ? read : 0;
}

// Returns the number of rows before the test set that trials read.
std::int64_t most_rows(std::size_t n_series) {
  constexpr std::int64_t k_most_values = 4'000'000, k_most = 40'000, k_least = 2'000;
  return std::clamp(k_most_values / static_cast<std::int64_t>(n_series), k_least, k_most);
}

class Decision {
 public:
  Decision(const ForecastOptions& options, const SeriesRows& rows, std::int64_t end, std::int64_t room)
      : recipe_{options, ForecastForm(), {}}, o_(recipe_.options), rows_(rows), end_(end), room_(room),
        begin_(std::max<std::int64_t>(end - most_rows(rows.n_series()), 0)),
        cut_(begin_ + static_cast<std::int64_t>(k_cut * static_cast<double>(end - begin_))) {}

  ForecastRecipe decide() {
    decide_period();
    decide_horizon();
    choose();
    return std::move(recipe_);
  }

 private:
  void note(const std::string& text) { recipe_.notes.push_back(rows_.reader().name() + ": " + text); }

  void decide_period() {
    if (rows_.dates().exist()) seasons_ = usual_seasons(rows_.dates().step());
    if (seasons_.empty()) seasons_ = shown_seasons(rows_, end_);
    std::erase_if(seasons_, [&](const Season& s) { return 2 * s.length >= cut_; });
    if (o_.period > 0) {
      std::erase_if(seasons_, [&](const Season& s) { return s.length == o_.period; });
      seasons_.push_back({o_.period, ""});
      return;
    }
    if (seasons_.empty()) seasons_ = {{1, "no season shows"}};
    o_.period = seasons_[0].length;
    note("data.period = " + std::to_string(o_.period) + " (" + seasons_[0].reason + ")");
  }

  void decide_horizon() {
    if (o_.horizon > 0) return;
    constexpr std::int64_t k_no_season = 8;
    o_.horizon = std::clamp<std::int64_t>(std::min(end_ / 10, room_ / 4), 1, o_.period > 1 ? o_.period : k_no_season);
    note("data.horizon = " + std::to_string(o_.horizon));
  }

  std::vector<std::int64_t> windows() const {
    if (o_.window > 0) return {o_.window};
    const auto shortest = std::ranges::min_element(seasons_, {}, &Season::length);
    std::vector<std::int64_t> all;
    for (const std::int64_t p : {shortest->length, o_.period}) {
      const std::int64_t season = p * ((k_least_window + p - 1) / p);
      if (all.empty() || all[0] != season) all.insert(all.end(), {season, 2 * season});
    }
    return all;
  }
  std::vector<std::string> differences() const {
    if (o_.difference != "auto") return {o_.difference};
    std::vector<std::string> all{"none", "first"};
    for (const Season& season : seasons_)
      if (season.length > 1) {
        const std::string lag = season.length == o_.period ? "seasonal" : std::to_string(season.length);
        all.insert(all.end(), {lag, "first," + lag});
      }
    return all;
  }
  std::vector<std::string> scales() const {
    return o_.scale == "auto" ? std::vector<std::string>{"series", "window"} : std::vector<std::string>{o_.scale};
  }

  ForecastShape shape_of(const ForecastOptions& o) const {
    // A trial is the linear part alone.
    return {{differencing_of(o.difference, o.period), o.scale == "window", std::min(o.window, k_most_regressed)},
            o.window, o.horizon};
  }

  // Takes the window, differences and scale whose linear forecast errs least.
  void choose() {
    TrialRows rows{rows_.observed(), {}, cut_, seasonal_errors(rows_, cut_, o_.period)};
    rows_.read(begin_, end_, rows.rows);
    double least = std::numeric_limits<double>::infinity();
    ForecastOptions best = o_;
    best.window = windows()[0];
    best.difference = differences()[0];
    best.scale = scales()[0];
    std::map<std::string, double> by_difference;
    const bool is_open = windows().size() * differences().size() * scales().size() > 1;
    for (ForecastOptions tried = o_; const std::string& difference : differences()) {
      tried.difference = difference;
      double& of_difference = by_difference.emplace(difference, least_of_all).first->second;
      for (const std::string& scale : scales())
        for (const std::int64_t window : windows()) {
          tried.scale = scale;
          tried.window = window;
          const ForecastShape shape = shape_of(tried);
          if (!is_open || window + shape.form.depth() + o_.horizon > room_) continue;
          // A stream with scales by window reads each window anew, and has no C++ form.
          const double cost = scale == "window" ? k_window_cost : 1;
          const double error = cost * trial_error(rows, shape);
          of_difference = std::min(of_difference, error);
          if (error >= least) continue;
          least = error;
          best = tried;
        }
    }
    describe(best, by_difference);
    o_ = best;
    recipe_.form = shape_of(o_).form;
    recipe_.form.regressed = regressed_of(o_, rows_.n_series());
    if (o_.autoregression && recipe_.form.regressed == 0)
      note("no linear part (model.autoregression): it would have more than " + std::to_string(k_most_weights) +
           " weights");
  }

  void describe(const ForecastOptions& best, const std::map<std::string, double>& by_difference) {
    std::string chosen;
    const auto add = [&](const char* key, const std::string& value) {
      chosen += (chosen.empty() ? "" : ", ") + std::string(key) + " = " + value;
    };
    if (o_.window == 0) add("data.window", std::to_string(best.window));
    if (o_.difference == "auto") add("data.difference", in_quotes(best.difference));
    if (o_.scale == "auto") add("data.scale", in_quotes(best.scale));
    if (chosen.empty()) return;
    std::string tried;
    for (const std::string& difference : differences())
      if (std::isfinite(by_difference.at(difference)))
        tried += (tried.empty() ? "" : ", ") + difference + " " + short_text(by_difference.at(difference), 3);
    note(chosen + (tried.empty() ? " (too few rows to compare)" : " (mase of linear trials: " + tried + ")"));
  }

  static constexpr double least_of_all = std::numeric_limits<double>::infinity();
  ForecastRecipe recipe_;
  ForecastOptions& o_;
  const SeriesRows& rows_;
  std::int64_t end_, room_, begin_, cut_;  // trials read rows [begin_, end_)
  std::vector<Season> seasons_;  // the period and others
};

}  // namespace

ForecastRecipe decide_recipe(const ForecastOptions& options, const SeriesRows& rows, std::int64_t end,
                             std::int64_t room) {
  return Decision(options, rows, end, room).decide();
}

ForecastRecipe trained_recipe(const ForecastOptions& options, const Metadata& m) {
  ForecastRecipe recipe{options, get_form(m), {}};
  ForecastOptions& o = recipe.options;
  if (o.window == 0) o.window = get_integer(m, "window");
  if (o.horizon == 0) o.horizon = get_integer(m, "horizon");
  if (o.period == 0) o.period = m.contains("period") ? get_integer(m, "period") : 52;
  if (o.difference != "auto") recipe.form.differencing = differencing_of(o.difference, o.period);
  if (o.scale != "auto") recipe.form.by_window = o.scale == "window";
  return recipe;
}

}  // namespace unroll
