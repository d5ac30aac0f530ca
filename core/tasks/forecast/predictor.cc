// SPDX-License-Identifier: Apache-2.0
// Forecasts in the units of the series: inputs are normalized and perhaps differenced, outputs are converted back.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/data/series/series_rows.h"
#include "core/model/constants.h"
#include "core/support/philox.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/short_number.h"
#include "core/tasks/common/example_parts.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/forecast_series.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_forecaster = "Forecaster";
constexpr std::int64_t k_most_steps = 1'000'000;
constexpr double k_precision = 1e-7;  // of amounts

// Values of one series, counted back from `from` steps before the end of a history [rows, S]; 1 is the last one.
struct LevelsBefore {
  const Forecaster::Values& history;
  std::size_t n_series, series;
  std::int64_t from;
  double operator()(std::int64_t back) const {
    return history[history.size() - n_series * (from + back) + series];
  }
};

}  // namespace

struct Forecaster::State {
  State(const Metadata& metadata, const TensorMap& parameters, BackendHandle b)
      : backend(b), model(get_model_options(metadata)), scales(get_scales(metadata)),
        window(get_integer(metadata, "window")), form(get_form(metadata)),
        missing(metadata.contains("missing") ? get_text(metadata, "missing") : "previous"),
        constants(constants_of(parameters)) {
    if (window < 1)
      throw Error(ErrorKind::input_file, "model",
                  "metadata 'window' must be at least 1; got " + std::to_string(window));
    for (const SeriesScales& s : scales) columns.push_back(s.column);
    program(1);  // checks early that metadata and parameters match
  }

  std::int64_t n_series() const { return std::ssize(scales); }
  std::int64_t horizon() const { return std::ssize(scales[0].ahead); }
  std::int64_t history() const { return window + form.depth(); }
  std::int64_t n_columns() const { return form.covariates.width(); }

  // A history, extended by its forecast, the answer, and rows of covariates, which begin with the history's first.
  struct Lane {
    Values levels, covariates, answer;
    Values bounds = {};        // [L,2,H,S]
    std::uint64_t stream = 0;  // of random numbers, for a path
  };
  struct Request {
    std::int64_t steps = 0;
    std::span<const Values> covariates = {};
    std::span<const double> levels = {};  // of bounds
    std::int64_t n_paths = 0;             // to draw of each history; 0: the forecast
    std::uint64_t seed = 0;
  };

  // x f32 [W,B,S] -> prediction [B,H,S], in units of the normalizer, and with a distribution unit [B,H,S] and
  // parameters [P,B,H,S]
  std::shared_ptr<Program> program(std::int64_t rows) {
    return programs.get(rows, [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value x = graph.input("x", {DType::f32, {window, rows, n_series()}});
      Value covariates;
      if (n_columns() > 0)
        covariates = graph.input("covariates", {DType::f32, {history() + horizon(), rows, n_columns()}});
      const ForecastAnswers answers = forecast_answers(scope, x, covariates, model, form, horizon());
      graph.output("prediction", answers.y);
      if (!form.distribution.empty()) {
        const Shape shape = answers.y.shape();
        graph.output("unit", answers.unit ? broadcast(answers.unit, shape) : filled(graph, answers.y.type(), 1));
        graph.output("parameters", stack(answers.parameters));
      }
      const int n_inputs = n_columns() > 0 ? 2 : 1;
      return std::make_shared<Program>(*with_constants(graph, n_inputs, constants, k_forecaster), backend);
    });
  }

  // Predicts one horizon for each lane and appends it to the history and to the answer. The model reads it again for
  // the next horizon. Answers are rounded to few digits. `inputs` are the numbers of the histories. Bounds are those of
  // the first horizon.
  void extend(std::span<Lane> lanes, std::int64_t rows, std::span<const std::size_t> inputs, const Request& request) {
    const TensorMap outputs = answers(lanes, rows);
    const auto given = outputs.at("prediction").values<float>();
    const bool has_units = !form.distribution.empty();
    const auto scaled_units = has_units ? outputs.at("unit").values<float>() : std::span<const float>();
    const std::size_t S = n_series(), H = horizon(), n = H * S;
    std::vector<double> base(n), units(n, 1);
    for (std::size_t b = 0; b < lanes.size(); ++b) {
      Lane& lane = lanes[b];
      require_finite(k_forecaster, inputs[b], given.subspan(b * n, n));
      for (std::size_t s = 0; s < S; ++s) {
        std::vector<double> continued(H);
        form.differencing.integrate(LevelsBefore{lane.levels, S, s, 0}, continued);
        for (std::size_t h = 0; h < H; ++h) base[h * S + s] = continued[h];
      }
      for (std::size_t i = 0; i < n; ++i) {
        const ZScore& scale = scales[i % S].ahead[i / S];
        const float computed = given[b * n + i];
        if (has_units) units[i] = scaled_units[b * n + i] * scale.deviation;
        const double offset = scale.mean + base[i];
        lane.levels.push_back(form.shown(static_cast<double>(computed) * scale.deviation + offset, units[i]));
        lane.answer.push_back(form.distribution.is_of_amounts()
                                  ? shortest_near(lane.levels.back(), k_precision * lane.levels.back())
                                  : form.shown(scaled_f32(computed, scale.deviation, offset), units[i]));
      }
      const auto quantiles = [&](std::size_t n_shares, const auto& share) {
        return quantiles_of(std::span(lane.levels).last(n), units, outputs.at("parameters"), b, inputs[b], n_shares,
                            share);
      };
      if (!request.levels.empty() && lane.bounds.empty())
        lane.bounds = quantiles(2 * request.levels.size(), [&](std::size_t k, std::size_t) {
          const double tail = (1 - request.levels[k / 2]) / 2;
          return k % 2 == 0 ? tail : 1 - tail;
        });
      if (request.n_paths == 0) continue;
      const std::size_t done = lane.answer.size() - n;
      const Values drawn = quantiles(1, [&](std::size_t, std::size_t i) { return uniform(request, lane, done + i); });
      std::ranges::copy(drawn, lane.levels.end() - static_cast<std::ptrdiff_t>(n));
      for (std::size_t i = 0; i < n; ++i) lane.answer[done + i] = shortest_near(drawn[i], k_precision * units[i]);
    }
  }
  // Returns a number between 0 and 1 for a value of a path.
  static double uniform(const Request& request, const Lane& lane, std::size_t value) {
    constexpr std::uint32_t k_domain = 0x70617468;  // "path"
    const PhiloxBlock words = philox({static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(lane.stream),
                                      static_cast<std::uint32_t>(lane.stream >> 32), k_domain},
                                     {static_cast<std::uint32_t>(request.seed),
                                      static_cast<std::uint32_t>(request.seed >> 32)});
    return static_cast<double>(philox_uniform(words[0])) + 0x1p-25;
  }

  // Runs the network on the last window of each lane.
  TensorMap answers(std::span<Lane> lanes, std::int64_t rows) {
    const std::size_t S = n_series(), B = rows;
    Tensor x(DType::f32, {window, rows, n_series()});
    CovariateBatch covariates(form.covariates, history() + horizon(), rows);
    const auto to = x.values<float>();
    for (std::size_t b = 0; b < lanes.size(); ++b) {
      for (std::int64_t w = 0; w < window; ++w)
        for (std::size_t s = 0; s < S; ++s) {
          const double value = form.differencing.at(LevelsBefore{lanes[b].levels, S, s, window - w});
          to[(w * B + b) * S + s] = static_cast<float>(scales[s].ahead[0].apply(value));
        }
      if (n_columns() > 0) covariates.add(covariates_around(lanes[b]), static_cast<std::int64_t>(b));
    }
    TensorMap inputs{{"x", std::move(x)}};
    if (n_columns() > 0) inputs.emplace("covariates", covariates.take());
    return program(rows)->run(inputs);
  }

  // Returns quantiles [Q,H,S] of the distributions around the forecast of lane b [H,S], at share_of(q, value).
  // parameters: [P,B,H,S]
  template <class F>
  Values quantiles_of(std::span<const double> forecast, std::span<const double> units, const Tensor& parameters,
                      std::size_t b, std::size_t input, std::size_t n_shares, const F& share_of) const {
    const std::size_t n = forecast.size(), P = form.distribution.n_parameters(), B = parameters.shape()[1];
    std::vector<double> of_value(P);
    Values quantiles(n_shares * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t p = 0; p < P; ++p) {
        const auto& parameter = parameters.values<float>()[(p * B + b) * n + i];
        require_finite(k_forecaster, input, {&parameter, 1});
        of_value[p] = parameter;
      }
      for (std::size_t q = 0; q < n_shares; ++q) {
        const double value = form.distribution.quantile(share_of(q, i), forecast[i], units[i], of_value);
        quantiles[q * n + i] = form.is_non_negative ? std::max(value, 0.0) : value;
      }
    }
    return quantiles;
  }

  // The covariates of the next window and of the horizon behind it. A last horizon may reach beyond the wanted steps;
  // no answer depends on what is there.
  std::span<const double> covariates_around(Lane& lane) const {
    const std::size_t C = n_columns(), first = (lane.levels.size() / n_series() - history()) * C;
    const std::size_t n = (history() + horizon()) * C;
    while (lane.covariates.size() < first + n) lane.covariates.push_back(lane.covariates[lane.covariates.size() - C]);
    return std::span(lane.covariates).subspan(first, n);
  }

  void require_distribution() const {
    if (form.distribution.empty())
      throw Error(ErrorKind::usage, k_forecaster, "the model has no distribution",
                  "Train with model.distribution, or use ForecastIntervals");
  }
  void check(const Values& values, std::size_t index) const {
    const std::size_t S = n_series();
    if (values.size() % S != 0)
      refuse_input(k_forecaster, index,
                   std::to_string(values.size()) + " values do not divide into rows of " + std::to_string(S));
    if (static_cast<std::int64_t>(values.size() / S) < (form.is_common ? 1 : history()))
      refuse_input(k_forecaster, index, "the model reads " + counted(history(), "row") + "; got " +
                                              std::to_string(values.size() / S));
    for (const double value : values)
      if (std::isinf(value)) refuse_input(k_forecaster, index, "a value is not finite");
  }

  // Checks the covariates of a history of `n_rows` rows and returns those of the rows that the model reads.
  Values last_covariates(std::span<const Values> covariates, std::size_t index, std::int64_t n_rows,
                         std::int64_t steps) const {
    const std::int64_t C = n_columns();
    if (C == 0) return {};
    const bool is_given = index < covariates.size();
    const std::int64_t size = is_given ? std::ssize(covariates[index]) : 0;
    const std::int64_t needed = n_rows + (form.covariates.n_ahead() > 0 ? steps : 0);
    if (!is_given || size % C != 0 || size / C < needed)
      refuse_input(k_forecaster, index,
                   "the model reads " + counted(C, "covariate") + " in " + counted(needed, "row") + "; got " +
                       counted(size, "value"));
    if (form.covariates.has_past() && steps > horizon())
      refuse_input(k_forecaster, index,
                   "past covariates are unknown beyond the " + counted(horizon(), "step") +
                       " that the model forecasts");
    const Values& given = covariates[index];
    const std::int64_t skipped = std::max<std::int64_t>(n_rows - history(), 0);
    Values rows(given.begin() + skipped * C, given.end());
    const Values first(rows.begin(), rows.begin() + C);
    for (std::int64_t n = n_rows; n < history(); ++n) rows.insert(rows.begin(), first.begin(), first.end());
    return rows;
  }

  // Returns the last rows of a history as model input. Gaps are filled as SeriesRows fills those of a file.
  Values last_rows(const Values& values, std::size_t index) const {
    check(values, index);
    const std::size_t S = n_series(), read = history() * S;
    const std::size_t first = values.size() - std::min(read, values.size());
    SeriesPiece piece;
    piece.end = static_cast<std::int64_t>((values.size() - first) / S);
    piece.n_series = S;
    std::vector<double> level(S, std::nan(""));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_gap = std::isnan(values[i]);
      if (!is_gap) level[i % S] = values[i];
      if (i < first) continue;
      if (is_gap && missing == "error")
        refuse_input(k_forecaster, index,
                     "row " + std::to_string(i / S) +
                         " has a missing value; the model was trained with data.missing = \"error\"");
      if (std::isnan(level[i % S]))
        refuse_input(k_forecaster, index, "series " + in_quotes(columns[i % S]) + " has no value up to row " +
                                          std::to_string(i / S) + ", and the model reads " + counted(history(), "row"));
      piece.levels.push_back(level[i % S]);
      piece.observed.push_back(is_gap ? 0 : 1);
    }
    if (missing == "interpolate") piece.interpolate(piece.end);
    const std::vector<double> first_row(piece.levels.begin(), piece.levels.begin() + n_series());
    while (piece.levels.size() < read) piece.levels.insert(piece.levels.begin(), first_row.begin(), first_row.end());
    return std::move(piece.levels);
  }

  // Returns forecasts [steps,S]; with levels, the bounds [L,2,H,S] of the first horizon; paths [n,steps,S].
  std::vector<Values> forecasts(std::span<const Values> histories, const Request& request) {
    const std::int64_t S = n_series(), steps = request.steps;
    const std::size_t wanted = steps * S, each = std::max<std::int64_t>(request.n_paths, 1);
    std::vector<Lane> starts;
    std::vector<std::size_t> all(histories.size() * each);
    for (std::size_t i = 0; i < histories.size(); ++i)
      starts.push_back({last_rows(histories[i], i),
                        last_covariates(request.covariates, i, std::ssize(histories[i]) / S, steps), {}});
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::vector<Values> results(histories.size());
    for_each_batch(all, prediction_rows(window * (S + n_columns()), std::int64_t{1} << 20),
                   [&](std::span<const std::size_t> part, std::int64_t B) {
                     std::vector<Lane> lanes;
                     std::vector<std::size_t> inputs;
                     for (const std::size_t i : part) {
                       lanes.push_back(starts[inputs.emplace_back(i / each)]);
                       lanes.back().stream = i;
                     }
                     while (lanes[0].answer.size() < wanted) extend(lanes, B, inputs, request);
                     for (std::size_t b = 0; b < part.size(); ++b) {
                       Values& result = results[inputs[b]];
                       const Values& found = request.levels.empty() ? lanes[b].answer : lanes[b].bounds;
                       result.resize(request.levels.empty() ? each * wanted : found.size());
                       std::copy_n(found.begin(), request.levels.empty() ? wanted : found.size(),
                                   result.begin() + static_cast<std::ptrdiff_t>(part[b] % each * wanted));
                     }
                   });
    return results;
  }

  BackendHandle backend;
  RecurrentModelOptions model;
  std::vector<SeriesScales> scales;
  std::vector<std::string> columns;
  std::int64_t window;
  ForecastForm form;
  std::string missing;  // as in ForecastOptions::missing
  Constants constants;
  ProgramCache<std::int64_t> programs;  // by B
};

Forecaster::Forecaster(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
  require_task(metadata, "forecast", k_forecaster);
  state_ = hidden_state<State>(metadata, parameters, backend);
}

const std::vector<std::string>& Forecaster::columns() const { return state_->columns; }
std::int64_t Forecaster::horizon() const { return state_->horizon(); }
std::int64_t Forecaster::history() const { return state_->history(); }

std::vector<std::string> Forecaster::covariates() const { return state_->form.covariates.names(); }

namespace {

void require_steps(std::int64_t steps) {
  if (steps < 0 || steps > k_most_steps)
    throw Error(ErrorKind::usage, k_forecaster,
                "steps must be between 0 and " + std::to_string(k_most_steps) + "; got " + std::to_string(steps));
}

}  // namespace

std::vector<Forecaster::Values> Forecaster::predict(std::span<const Values> histories, std::int64_t steps,
                                                    std::span<const Values> covariates) {
  require_steps(steps);
  return state_->forecasts(histories, {.steps = steps > 0 ? steps : horizon(), .covariates = covariates});
}

bool Forecaster::has_distribution() const { return !state_->form.distribution.empty(); }

std::vector<Forecaster::Values> Forecaster::bounds(std::span<const Values> histories, std::span<const double> levels,
                                                   std::span<const Values> covariates) {
  state_->require_distribution();
  for (const double level : levels)
    if (!(level > 0 && level < 1))
      throw Error(ErrorKind::usage, k_forecaster, "levels must be between 0 and 1; got " + exact_text(level));
  if (levels.empty()) return std::vector<Values>(histories.size());
  return state_->forecasts(histories, {.steps = horizon(), .covariates = covariates, .levels = levels});
}

std::vector<Forecaster::Values> Forecaster::paths(std::span<const Values> histories, std::int64_t n,
                                                  std::int64_t steps, std::uint64_t seed,
                                                  std::span<const Values> covariates) {
  constexpr std::int64_t k_most_values = std::int64_t{1} << 28;  // of one history
  state_->require_distribution();
  require_steps(steps);
  if (steps == 0) steps = horizon();
  if (n < 1 || n > k_most_values / (steps * state_->n_series()))
    throw Error(ErrorKind::usage, k_forecaster,
                "the number of paths must be at least 1, and their values at most 2^28; got " + std::to_string(n));
  return state_->forecasts(histories, {.steps = steps, .covariates = covariates, .n_paths = n, .seed = seed});
}

namespace {

std::vector<Prediction> forecast_inputs(Forecaster& forecaster, std::span<const PredictInput> inputs,
                                        const PredictOptions& options) {
  const auto series = std::ssize(forecaster.columns());
  if (!forecaster.covariates().empty())
    throw Error(ErrorKind::usage, k_forecaster, "the model reads covariates, and arrays of histories have none",
                "Predict from a table, or call Forecaster::predict");
  std::vector<Prediction> list;
  for (const Forecaster::Values& values : forecaster.predict(rows_in(inputs), options.steps))
    list.emplace_back(Tensor::from<double>({std::ssize(values) / series, series}, values));
  return list;
}

}  // namespace

const PredictionRow forecast_prediction_row{
    "histories [rows, series] -> arrays [steps, series] in the units of the data",
    PredictorWith<Forecaster, InputForm::numbers, forecast_inputs>::make, forecast_examples};

}  // namespace unroll
