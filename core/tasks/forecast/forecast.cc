// SPDX-License-Identifier: Apache-2.0
// Forecasting: reads a window of values of S series and predicts the next values of each. Values are z-scores fitted to
// the training split of each series.
#include <algorithm>
#include <optional>

#include "core/data/batch/shuffle.h"
#include "core/data/text/entry_lines.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/forecast_windows.h"
#include "core/tasks/table/table_form.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

namespace {

class Forecast : public Task, public SplitSeries, public SplitExamples {
 public:
  Forecast(const ForecastOptions& options, const SeriesOfSplits& rows, const std::string& name, const Metadata& fitted)
      : Forecast(recipe_of(checked_options(options, "forecast"), rows, fitted), rows, name, fitted) {}

  Forecast(ForecastRecipe recipe, const SeriesOfSplits& rows, const std::string& name, const Metadata& fitted)
      : options_(recipe.options), form_(recipe.shape.form), least_(recipe.shape.least), decided_(recipe.notes),
        windows_(rows, recipe, name) {
    for (std::size_t s = 0; s < rows[0]->n_series(); ++s) names_.push_back(rows[0]->column_name(s));
    if (fitted.empty()) learn();
    else use(fitted, name);
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [W,B,S]
    const Value given = scope.graph().input("target", like.inputs.at("target").type());  // [B,H*S]
    Value covariates;
    if (!form_.covariates.empty())
      covariates = scope.graph().input("covariates", like.inputs.at("covariates").type());  // [D+W+H,B,C]
    const LinearStart* start = start_ ? &*start_ : nullptr;
    const ForecastAnswers answers =
        forecast_answers(scope, x, covariates, options_.model, form_, options_.horizon, start);
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    const Value observed = scope.graph().input("observed", given.type());
    const Value is_observed = less(scalar_like(observed, 0), observed);
    const auto where_observed = [&](Value v) { return select(is_observed, v, scalar_like(v, 0)); };
    const Value prediction = where_observed(reshape(answers.y, given.shape())), target = where_observed(given);
    const Value unit = answers.unit ? reshape(broadcast(answers.unit, answers.y.shape()), given.shape())
                                    : filled(scope.graph(), given.type(), 1);
    const Value zero = scope.graph().input("zero", like.inputs.at("zero").type());
    Value shown = prediction;  // as a forecast gives it
    if (form_.is_non_negative) shown = where_observed(zero + form_.shown(prediction - zero, unit));
    const Value absolute = mae(shown, target), square = mse(shown, target);
    TaskGraph t;
    t.weight = sum(observed);
    Value weight;
    if (form_.is_common) {
      // Errors count in units of each series, which may differ by orders of magnitude.
      weight = scope.graph().input("weight", like.inputs.at("weight").type());
      t.metrics.push_back({"mase", sum(absolute * weight), t.weight});
    }
    Value losses;
    if (!form_.distribution.empty()) {
      DistributionValues v{(target - prediction) / unit, {}, {}, {}};
      if (form_.distribution.is_of_amounts()) {
        const Value units = form_.distribution.is_of_counts() ? units_of_targets(scope.graph()) : 1.0 / unit;
        v.target = where_observed((target - zero) * units);
        v.mean = where_observed((shown - zero) * units);
      }
      for (const Value p : answers.parameters) v.parameters.push_back(reshape(p, given.shape()));
      losses = where_observed(form_.distribution.loss(v));
      if (weight) losses = losses * unit * weight;
    } else if (weight) {
      losses = mae(prediction, target) * weight;
    } else {
      losses = mse(prediction, target);
      if (answers.unit) losses = losses / (unit * unit);
    }
    t.loss = sum(losses) / t.weight;
    const Value size = abs(shown - zero) + abs(target - zero);  // of levels
    const Value relative = where_observed(select(0 < size, absolute * 200.0 / size, scalar_like(size, 0)));
    add_metrics(t, scope, absolute, square, relative, observed);
    return t;
  }

  const SeriesRows& series(Split split) const override { return windows_.rows(split); }
  const Runs& windows(Split split) const override { return windows_.targets(split); }
  std::int64_t period() const override { return options_.period; }
  bool interpolates() const override { return options_.missing == "interpolate"; }
  const Covariates& covariates() const override { return form_.covariates; }
  std::span<const double> units_at(Split split, std::int64_t row) const override {
    return windows_.seasonal_at(split, row);
  }
  std::shared_ptr<const SeriesBaselines> fit_baselines(bool regresses) const override {
    return std::make_shared<const SeriesBaselines>(baseline_data(), regresses);
  }
  std::shared_ptr<const Task> test_fold(std::int64_t fold, std::int64_t folds, bool refit) const override {
    ForecastRecipe recipe{options_, {form_, options_.window, options_.horizon, least_}, {}, {}};
    for (const SegmentSplit& s : windows_.splits()) {
      const std::int64_t n = std::max<std::int64_t>(s.end - s.test - options_.horizon + 1, 0);
      const std::int64_t begin = s.test + fold * n / folds, next = s.test + (fold + 1) * n / folds;
      recipe.splits.push_back({s.begin, refit ? s.validation + begin - s.test : s.validation, begin,
                               n == 0 ? s.end : next + options_.horizon - 1});
    }
    return std::make_shared<Forecast>(std::move(recipe), windows_.all_rows(), series(Split::train).reader().name(),
                                      Metadata{});
  }

  std::int64_t n_examples(Split split) const override { return windows(split).size(); }
  bool are_windows() const override { return true; }
  bool have_numbers() const override { return true; }
  std::int64_t split_size(Split split) const override { return windows_.n_rows(split); }
  std::string split_unit() const override { return "value"; }
  std::string split_needs(Split split) const override {
    const bool shares_rows = &series(split) == &series(Split::train);  // the window may precede the split
    return "data.horizon = " + std::to_string(options_.horizon) +
           (shares_rows ? "" : " behind data.window = " + std::to_string(options_.window));
  }
  std::int64_t n_batches(Split split) const override {
    return (windows(split).size() + options_.batch - 1) / options_.batch;
  }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const Runs& from = windows(split);
    const std::int64_t n = from.size(), begin = index * options_.batch;
    const std::int64_t B = std::min(options_.batch, n - begin), W = options_.window;
    const std::int64_t H = options_.horizon, S = n_series();
    Tensor x(DType::f32, {W, B, S}), target(DType::f32, {B, H * S}), observed(DType::f32, {B, H * S});
    Tensor weight(DType::f32, form_.is_common ? target.shape() : Shape());
    Tensor zero(DType::f32, target.shape());  // a level of 0, as a target
    CovariateBatch columns(form_.covariates, form_.depth() + W + H, B);
    const auto xs = x.values<float>(), ys = target.values<float>(), seen = observed.values<float>();
    SeriesPiece piece;
    std::vector<double> base(H);
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t k = split == Split::train ? shuffle_.order(n, seed, epoch)[begin + b] : begin + b;
      const std::int64_t t = from[k];
      series(split).read_window(t - W - form_.depth(), t + H, piece);
      if (options_.missing == "interpolate") piece.interpolate(t);
      columns.add(series(split), piece, t - W - form_.depth(), b);
      const std::span<const double> seasonal = windows_.seasonal_at(split, t);
      for (std::size_t s = 0; s < names_.size(); ++s) {
        for (std::int64_t w = 0; w < W; ++w)
          xs[(w * B + b) * S + s] =
              static_cast<float>(ahead_[s][0].apply(value_at(piece, t - W + w, s, form_.differencing)));
        continue_at(piece, t, s, form_.differencing, base);
        const bool has_unit = !form_.is_common || seasonal[s] > 0;
        for (std::int64_t h = 0; h < H; ++h) {
          const std::size_t at = (b * H + h) * S + s;
          ys[at] = static_cast<float>(ahead_[s][h].apply(piece.level(t + h, s) - base[h]));
          seen[at] = piece.is_observed(t + h, s) && has_unit ? 1.0F : 0.0F;
          if (form_.is_common) weight.set(at, has_unit ? ahead_[s][h].deviation / seasonal[s] : 0);
          zero.set(at, ahead_[s][h].apply(0 - base[h]));
        }
      }
    }
    Batch result;
    result.inputs.emplace("x", std::move(x));
    result.inputs.emplace("target", std::move(target));
    result.inputs.emplace("observed", std::move(observed));
    if (form_.is_common) result.inputs.emplace("weight", std::move(weight));
    result.inputs.emplace("zero", std::move(zero));
    if (!form_.covariates.empty()) result.inputs.emplace("covariates", columns.take());
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "forecast"},
               {"window", std::to_string(options_.window)},
               {"period", std::to_string(options_.period)}};
    put_form(m, form_);
    std::vector<SeriesScales> scales;
    for (std::size_t s = 0; s < names_.size(); ++s) scales.push_back({names_[s], ahead_[s]});
    put_scales(m, scales);
    const SeriesRows& rows = series(Split::train);
    put_table_form(m, rows.reader(), options_);
    m["missing"] = options_.missing;
    if (form_.is_common) m["id"] = rows.id_column();
    m["date"] = rows.date_column().name;
    if (rows.dates().exist()) {
      m["date_form"] = rows.dates().format().name();
      m["date_time"] = rows.dates().format().has_time() ? "1" : "0";
      m["date_calendar"] = calendar_code(rows.dates().step());
      m["date_step"] = step_text(rows.dates().step());
      if (const std::string zone = rows.dates().zone(); !zone.empty())
        m.insert({{"timezone", zone}, {"date_steps", rows.dates().steps()}});
    }
    put_model_options(m, options_.model);
    return m;
  }

  std::vector<std::string> metric_notes() const override {
    if (form_.is_common) return windows_.notes();
    std::vector<std::string> notes;
    const std::int64_t n = windows_.n_rows(Split::train);
    const std::string of = series(Split::train).reader().name() + ": there is no mase";
    const std::string period = "data.period = " + std::to_string(options_.period);
    for (std::size_t s = 0; s < names_.size(); ++s) {
      if (seasonal()[s] > 0) continue;
      const std::string series = of + (n_series() > 1 ? " of '" + names_[s] + "'" : "") + ": ";
      if (options_.period >= n)
        notes.push_back(series + period + " is not shorter than the training set (" + counted(n, "value") +
                        "). Set data.period to the length of a season, or to 1");
      else
        notes.push_back(series + "in the training set, each value is the one " + period + " steps before it");
    }
    return notes;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> all = lines_of(windows_.all_rows(), &SeriesRows::notes);
    all.insert(all.end(), decided_.begin(), decided_.end());
    for (std::string& note : metric_notes()) all.push_back(std::move(note));
    return all;
  }
  std::vector<std::string> warnings() const override { return lines_of(windows_.all_rows(), &SeriesRows::warnings); }

  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    if (windows(split).empty()) return {};
    const auto by_series =
        method_errors(baseline_data(), {series(split), windows(split), windows_.seasonal(split)});
    std::map<std::string_view, ForecastErrors> in_all;
    std::map<std::string, std::map<std::string, double>> metrics;
    for (std::size_t s = 0; s < names_.size(); ++s)
      for (const auto& [method, errors] : by_series[s]) {
        if (n_series() > 1) errors.put(metrics[std::string(method)], "." + names_[s]);
        in_all[method] += errors;
      }
    for (const auto& [method, errors] : in_all) errors.put(metrics[std::string(method)], "");
    return metrics;
  }

 private:
  BaselineData baseline_data() const {
    return {series(Split::train), windows_.training_targets(), form_.differencing, options_};
  }

  // Decides what the options leave to the rows before the test set, or to the trained model.
  static ForecastRecipe recipe_of(const ForecastOptions& options, const SeriesOfSplits& rows, const Metadata& fitted) {
    if (!fitted.empty()) return trained_recipe(options, *rows[0], fitted);
    std::int64_t room = rows[0]->size();
    for (const auto& of_split : rows) room = std::min(room, of_split->size());
    return decide_recipe(options, *rows[0], room);
  }

  // Fits scales and the start of the linear part to the training rows.
  void learn() {
    const SeriesRows& rows = series(Split::train);
    const Runs& targets = windows_.training_targets();
    const std::span<const SegmentSplit> splits = windows_.splits();
    std::vector<RowRange> trained;
    for (const SegmentSplit& s : splits) trained.push_back({s.begin, s.validation});
    form_.covariates = Covariates(options_, rows, trained);
    ahead_ = form_.is_common ? fit_common_scales(rows, splits, form_.differencing, options_.horizon)
                             : fit_scales(rows, targets, splits, form_.differencing, options_.horizon);
    if (form_.regressed > 0)
      start_ = fit_linear({rows, targets, seasonal()}, {form_, options_.window, options_.horizon}, ahead_);
  }

  // Requires the settings that the model was trained with.
  void use(const Metadata& fitted, const std::string& file) {
    const std::vector<SeriesScales> scales = get_scales(fitted);
    const auto refuse = [&](const std::string& of_model, const std::string& given) {
      throw Error(ErrorKind::usage, file, "the model forecasts " + of_model + "; " + given);
    };
    const std::size_t horizon = scales[0].ahead.size();
    if (static_cast<std::int64_t>(horizon) != options_.horizon)
      refuse(std::to_string(horizon) + " values ahead", "horizon is " + std::to_string(options_.horizon));
    const std::vector<std::string> given = columns_of(options_);
    if (scales.size() != given.size())
      refuse(counted(scales.size(), "series"), "columns names " + std::to_string(given.size()));
    for (std::size_t s = 0; s < scales.size(); ++s) {
      const CsvReader& reader = series(Split::train).reader();
      if (!given[s].empty() && reader.column_name(reader.column(given[s])) != names_[s])
        refuse(in_quotes(scales[s].column), (given.size() > 1 ? "column " + std::to_string(s + 1) + " of columns is "
                                                              : std::string("column is ")) + in_quotes(given[s]));
      ahead_.push_back(scales[s].ahead);
    }
    require_as_trained(fitted, file, "window", std::to_string(options_.window));
    Metadata given_form;
    put_form(given_form, form_);
    for (const char* key : {"difference", "scale"})
      if (fitted.contains(key)) require_as_trained(fitted, file, key, given_form.at(key));
    require_as_trained(fitted, file, "missing", options_.missing);
    if (!options_.timezone.empty())
      require_as_trained({{"timezone", series(Split::train).dates().zone()}}, file, "timezone", options_.timezone);
    if (options_.non_negative != "auto")
      require_as_trained({{"non_negative", form_.is_non_negative ? "yes" : "no"}}, file, "non_negative",
                         options_.non_negative);
    require_covariates_as_trained(fitted, file, options_);
  }

  // Adds metrics in the columns' units; errors [B,H*S] are in the standardized units of the targets. Evaluations also
  // report each series. Training reports would become too long with a hundred series.
  void add_metrics(TaskGraph& t, const Scope& scope, Value absolute, Value square, Value relative,
                   Value observed) const {
    const std::int64_t H = options_.horizon, S = n_series();
    const auto series_of = [S](std::int64_t i) { return i % S; };
    const auto deviation = [&](std::int64_t i) {
      return ahead_[series_of(i)][i / S].deviation;
    };
    std::vector<double> largest(names_.size());  // largest scale of a series, because squared units may exceed f32
    for (std::int64_t i = 0; i < H * S; ++i) largest[series_of(i)] = std::max(largest[series_of(i)], deviation(i));
    const double largest_of_all = *std::ranges::max_element(largest);
    Tensor all(DType::f32, {H * S}), each = all, seasons = all, has_season = all;
    bool scaled = false;
    for (std::int64_t i = 0; i < H * S; ++i) {
      all.set(i, deviation(i) / largest_of_all);
      each.set(i, deviation(i) / largest[series_of(i)]);
      if (form_.is_common || seasonal()[series_of(i)] <= 0) continue;
      seasons.set(i, deviation(i) / seasonal()[series_of(i)]);
      has_season.set(i, 1);
      scaled = true;
    }
    const auto by = [&](const Tensor& weights) { return constant(scope.graph(), weights); };
    t.metrics.push_back({"mae", sum(absolute * by(all)), sum(observed), MetricForm::ratio, largest_of_all});
    if (scaled) t.metrics.push_back({"mase", sum(absolute * by(seasons)), sum(observed * by(has_season))});
    t.metrics.push_back({"rmse", sum(square * by(all) * by(all)), sum(observed), MetricForm::root, largest_of_all});
    t.metrics.push_back({"smape", sum(relative), sum(observed)});
    if (S == 1 || scope.training()) return;
    const auto by_series = [&](Value values) { return reduce_sum(reshape(values, {values.shape()[0] * H, S}), {0}); };
    const Value absolutes = by_series(absolute * by(each)), squares = by_series(square * by(each) * by(each)),
                counts = by_series(observed), relatives = by_series(relative);
    for (std::size_t s = 0; s < names_.size(); ++s) {
      const auto of = [&](Value values) { return row(values, static_cast<std::int64_t>(s)); };
      t.metrics.push_back({"mae." + names_[s], of(absolutes), of(counts), MetricForm::ratio, largest[s]});
      if (!form_.is_common && seasonal()[s] > 0)
        t.metrics.push_back(
            {"mase." + names_[s], of(absolutes), of(counts), MetricForm::ratio, largest[s] / seasonal()[s]});
      t.metrics.push_back({"rmse." + names_[s], of(squares), of(counts), MetricForm::root, largest[s]});
      t.metrics.push_back({"smape." + names_[s], of(relatives), of(counts)});
    }
  }

  // The units of the targets [H*S], in those of the series.
  Value units_of_targets(Graph& graph) const {
    const std::int64_t S = n_series();
    Tensor units(DType::f32, {options_.horizon * S});
    for (std::int64_t i = 0; i < units.elements(); ++i) units.set(i, ahead_[i % S][i / S].deviation);
    return constant(graph, units);
  }

  std::int64_t n_series() const { return std::ssize(names_); }
  std::span<const double> seasonal() const { return windows_.seasonal(Split::train); }

  ForecastOptions options_;
  ForecastForm form_;
  std::int64_t least_;                // as in ForecastShape
  std::vector<std::string> decided_;  // by the recipe, in words
  ForecastWindows windows_;
  std::vector<std::string> names_;  // of the series
  std::optional<LinearStart> start_;
  std::vector<std::vector<ZScore>> ahead_;  // by series and distance; the first also scales the inputs
  mutable Shuffle shuffle_;
};

}  // namespace

std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, DataSource data, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<Forecast>(options, read_series(options, data, name, fitted), name, fitted);
}

}  // namespace unroll
