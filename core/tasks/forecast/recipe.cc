// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

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
constexpr double k_long_cost = 1.05;    // so must a window of a season longer than the period
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

// Returns a value that three quarters of the sizes reach.
std::int64_t usual_size(std::vector<std::int64_t> sizes) {
  const auto quarter = sizes.begin() + std::ssize(sizes) / 4;
  std::ranges::nth_element(sizes, quarter);
  return *quarter;
}

// A window of a common model needs a season of values, or four.
std::int64_t least_values(const ForecastOptions& o, bool is_common) {
  return is_common ? std::min(o.window, std::max<std::int64_t>(o.period, 4)) : o.window;
}

// True if `is` holds for all values before the test rows.
template <class Is>
bool are_all(const SeriesRows& rows, std::span<const SegmentSplit> splits, const Is& is) {
  SeriesCursor cursor(rows);
  for (const SegmentSplit& split : splits)
    for (std::int64_t t = split.begin; t < split.test; ++t) {
      const SeriesPiece& piece = cursor.at(t, t + 1);
      for (std::size_t s = 0; s < rows.n_series(); ++s)
        if (!is(piece.level(t, s))) return false;
    }
  return true;
}
bool is_count(double value) { return value >= 0 && value == std::floor(value); }
bool is_amount(double value) { return value >= 0; }

class Decision {
 public:
  Decision(const ForecastOptions& options, const SeriesRows& rows, std::int64_t room)
      : recipe_{options, ForecastShape(), {}, {}}, o_(recipe_.options), rows_(rows), room_(room),
        is_common_(rows.id_column() != "none") {}

  ForecastRecipe decide() {
    split();
    decide_period();
    decide_horizon();
    split();
    choose();
    decide_distribution();
    return std::move(recipe_);
  }

 private:
  void decide_distribution() {
    ForecastForm& form = recipe_.shape.form;
    form.distribution = Distribution(o_.distribution);
    const bool is_of_counts = form.distribution.is_of_counts(), is_of_amounts = form.distribution.is_of_amounts();
    const bool are_counts = (o_.non_negative == "auto" || is_of_counts) && are_all(rows_, recipe_.splits, is_count);
    form.is_non_negative = o_.non_negative == "yes" || (o_.non_negative == "auto" && (are_counts || is_of_amounts));
    const auto refuse = [&](const std::string& what, const std::string& advice) {
      throw Error(ErrorKind::usage, rows_.reader().name(),
                  "model.distribution = " + in_quotes(o_.distribution) + " is for " +
                      (is_of_counts ? "counts, " : "amounts, ") + what,
                  advice);
    };
    if (is_of_counts && !are_counts)
      refuse("and some values are no whole numbers from 0 on", "Use tweedie, student_t or quantiles");
    if (is_of_amounts && !are_all(rows_, recipe_.splits, is_amount))
      refuse("and some values are below 0", "Use student_t or quantiles");
    if (is_of_amounts && !form.is_non_negative)
      refuse("which are never below 0", "Leave data.non_negative = \"no\" out");
    if (form.is_non_negative && o_.non_negative == "auto" && are_counts)
      note(is_of_counts ? "the values are counts"
                        : "the values are counts: forecasts below 0 are raised to 0 (data.non_negative)");
  }

  void note(const std::string& text) { recipe_.notes.push_back(rows_.reader().name() + ": " + text); }

  // Splits by the horizon, and determines the rows that a segment usually has for training and validation.
  void split() {
    recipe_.splits = split_segments(rows_, o_);
    std::vector<std::int64_t> known, trained;
    for (const SegmentSplit& s : recipe_.splits) {
      known.push_back(s.test - s.begin);
      trained.push_back(s.validation - s.begin);
    }
    n_ = usual_size(known);
    if (is_common_) room_ = std::min(room_, usual_size(trained));
  }
  // Rows before the test set that trials read; the last ones of each segment.
  RowRange tried(const SegmentSplit& s) const {
    return {std::max(s.test - most_rows(rows_.n_series()), s.begin), s.test};
  }
  // Trials are fitted to rows before the cut, and the others score them.
  std::int64_t cut_of(const RowRange& r) const {
    const std::int64_t cut = r.begin + static_cast<std::int64_t>(k_cut * static_cast<double>(r.size()));
    return is_common_ ? std::max(std::min(cut, r.end - o_.horizon), r.begin) : cut;
  }

  void decide_period() {
    if (rows_.dates().exist()) seasons_ = usual_seasons(rows_.dates().step());
    if (seasons_.empty()) {
      std::vector<RowRange> parts;
      for (const SegmentSplit& s : recipe_.splits) parts.push_back({s.begin, s.test});
      seasons_ = shown_seasons(rows_, std::move(parts));
    }
    const std::int64_t longest = std::min(n_, most_rows(rows_.n_series())), cut = cut_of({n_ - longest, n_});
    std::erase_if(seasons_, [&](const Season& s) { return 2 * s.length >= cut; });
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
    o_.horizon = std::clamp<std::int64_t>(std::min(n_ / 10, room_ / 4), 1, o_.period > 1 ? o_.period : k_no_season);
    note("data.horizon = " + std::to_string(o_.horizon));
  }

  struct Window {
    std::int64_t length;
    double cost;  // as k_long_cost
  };
  std::vector<Window> windows() const {
    if (o_.window > 0) return {{o_.window, 1}};
    const auto shortest = std::ranges::min_element(seasons_, {}, &Season::length);
    std::vector<Window> all;
    // Many segments determine long windows too; those before a segment are filled.
    constexpr std::int64_t k_seasons[] = {1, 2, 3, 5};
    const std::span<const std::int64_t> seasons = std::span(k_seasons).first(is_common_ ? 4 : 2);
    for (const std::int64_t p : {shortest->length, o_.period}) {
      const std::int64_t season = p * ((k_least_window + p - 1) / p);
      if (all.empty() || all[0].length != season)
        for (const std::int64_t k : seasons) all.push_back({k * season, 1});
    }
    const std::int64_t longest = std::ranges::max_element(seasons_, {}, &Season::length)->length;
    if (longest > all.back().length && longest <= k_most_regressed) all.push_back({longest, k_long_cost});
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
    if (is_common_) return {"window"};
    return o_.scale == "auto" ? std::vector<std::string>{"series", "window"} : std::vector<std::string>{o_.scale};
  }

  ForecastShape shape_of(const ForecastOptions& o) const {
    // A trial is the linear part alone.
    const ForecastForm form{differencing_of(o.difference, o.period), o.scale == "window",
                            std::min(o.window, k_most_regressed), is_common_};
    return {form, o.window, o.horizon, least_values(o, is_common_)};
  }

  // Reads some of the segments, evenly spread.
  TrialRows trial_rows() const {
    const std::vector<SegmentSplit>& splits = recipe_.splits;
    std::int64_t n = 0;
    for (const SegmentSplit& s : splits) n += tried(s).size();
    const std::size_t every = std::max<std::int64_t>(n / most_rows(rows_.n_series()), 1);
    TrialRows trial{rows_.observed(), {}};
    for (std::size_t i = 0; i < splits.size(); i += every) {
      const RowRange rows = tried(splits[i]);
      const std::int64_t cut = cut_of(rows);
      const SegmentSplit before{splits[i].begin, cut, cut, cut};
      trial.parts.push_back({{}, cut, seasonal_errors(rows_, {&before, 1}, o_.period)});
      SeriesPiece& piece = trial.parts.back().rows;
      rows_.read(rows.begin, rows.end, piece);
      piece.first = rows.begin;
    }
    return trial;
  }

  // Takes the window, differences and scale whose linear forecast errs least.
  void choose() {
    const TrialRows rows = trial_rows();
    double least = std::numeric_limits<double>::infinity();
    ForecastOptions best = o_;
    best.window = windows()[0].length;
    best.difference = differences()[0];
    best.scale = scales()[0];
    std::map<std::string, double> by_difference;
    const bool is_open = windows().size() * differences().size() * scales().size() > 1;
    for (ForecastOptions tried = o_; const std::string& difference : differences()) {
      tried.difference = difference;
      double& of_difference = by_difference.emplace(difference, least_of_all).first->second;
      for (const std::string& scale : scales())
        for (const Window& window : windows()) {
          tried.scale = scale;
          tried.window = window.length;
          const ForecastShape shape = shape_of(tried);
          if (!is_open || shape.least + shape.form.depth() + o_.horizon > room_) continue;
          // A stream with scales by window reads each window anew, and has no C++ form.
          const double cost = (scale == "window" ? k_window_cost : 1) * window.cost;
          const double error = cost * trial_error(rows, shape);
          of_difference = std::min(of_difference, error);
          if (error >= least) continue;
          least = error;
          best = tried;
        }
    }
    describe(best, by_difference);
    o_ = best;
    recipe_.shape = shape_of(o_);
    recipe_.shape.form.regressed = regressed_of(o_, rows_.n_series());
    if (o_.autoregression && recipe_.shape.form.regressed == 0)
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
    if (o_.scale == "auto" && !is_common_) add("data.scale", in_quotes(best.scale));
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
  std::int64_t n_ = 0, room_;  // rows of a segment before its test set, and rows for a window
  bool is_common_;
  std::vector<Season> seasons_;  // the period and others
};

}  // namespace

ForecastRecipe decide_recipe(const ForecastOptions& options, const SeriesRows& rows, std::int64_t room) {
  if (rows.id_column() != "none" && options.scale == "series")
    throw Error(ErrorKind::usage, "forecast", "with data.id the levels of the series differ: data.scale = \"series\"",
                "Set data.scale to \"window\" or \"auto\"");
  return Decision(options, rows, room).decide();
}

ForecastRecipe trained_recipe(const ForecastOptions& options, const SeriesRows& rows, const Metadata& m) {
  ForecastRecipe recipe{options, {get_form(m)}, {}, {}};
  ForecastForm& form = recipe.shape.form;
  ForecastOptions& o = recipe.options;
  if (o.window == 0) o.window = get_integer(m, "window");
  if (o.horizon == 0) o.horizon = get_integer(m, "horizon");
  if (o.period == 0) o.period = m.contains("period") ? get_integer(m, "period") : 52;
  if (o.difference != "auto") form.differencing = differencing_of(o.difference, o.period);
  if (o.scale != "auto") form.by_window = o.scale == "window";
  recipe.shape = {form, o.window, o.horizon, least_values(o, form.is_common)};
  recipe.splits = split_segments(rows, o);
  return recipe;
}

}  // namespace unroll
