// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/form/forecast_form.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "core/tasks/common/pooling.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_lags = 8;

// Returns 0 for a word that is no lag.
std::int64_t lag_of(std::string_view word, std::int64_t period) {
  if (word == "first") return 1;
  if (word == "seasonal") return period;
  std::int64_t lag = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), lag);
  return error == std::errc() && stop == word.data() + word.size() ? lag : 0;
}

}  // namespace

std::optional<Differencing> differencing_in(std::string_view words, std::int64_t period) {
  std::vector<std::int64_t> lags;
  if (words == "none" || words == "0") return Differencing(lags);
  for (std::int64_t back = 0; lags.size() < k_most_lags;) {
    const std::size_t comma = std::min(words.find(','), words.size());
    const std::int64_t lag = lag_of(words.substr(0, comma), period);
    if (lag < 1 || lag > k_most_back || (back += lag) > k_most_back) return std::nullopt;
    lags.push_back(lag);
    if (comma == words.size()) return Differencing(lags);
    words.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

void put_form(Metadata& m, const ForecastForm& form) {
  m["difference"] = form.differencing.text();
  m["scale"] = form.by_window ? "window" : "series";
  m["autoregression"] = std::to_string(form.regressed);
  if (form.is_non_negative) m["non_negative"] = "1";
  if (!form.distribution.empty()) m["distribution"] = form.distribution.family();
  form.covariates.put(m);
}

ForecastForm get_form(const Metadata& m) {
  const std::string& lags = get_text(m, "difference");
  const auto differencing = differencing_in(lags, 0);
  if (!differencing)
    throw Error(ErrorKind::input_file, "model",
                "metadata 'difference' must be lags such as 1,12; got " + in_quotes(lags));
  ForecastForm form{*differencing};
  if (m.contains("scale")) form.by_window = get_text(m, "scale") == "window";
  form.is_common = m.contains("id");
  form.is_non_negative = m.contains("non_negative");
  form.covariates = Covariates(m);
  if (m.contains("distribution")) form.distribution = Distribution(get_text(m, "distribution"));
  if (m.contains("autoregression")) form.regressed = get_integer(m, "autoregression");
  if (form.regressed < 0 || form.regressed > k_most_back)
    throw Error(ErrorKind::input_file, "model",
                "metadata 'autoregression' must be between 0 and " + std::to_string(k_most_back));
  return form;
}

Value ForecastForm::shown(Value level, Value unit) const {
  if (distribution.is_of_amounts()) return positive_amount(level, unit);
  return is_non_negative ? relu(level) : level;
}
double ForecastForm::shown(double level, double unit) const {
  if (distribution.is_of_amounts()) return positive_amount(level, unit);
  return is_non_negative ? std::max(level, 0.0) : level;
}

Value linear_forecast(const Scope& scope, Value window, std::int64_t regressed, std::int64_t horizon,
                      const LinearStart* start) {
  Scope own = scope.child("autoregression");
  const std::int64_t W = window.shape()[0], S = window.shape()[2];
  const auto parameter = [&](std::string_view name, Shape shape, const Tensor LinearStart::* values) {
    return own.parameter(name, shape, start ? Initializer::given(start->*values) : Initializer::zeros());
  };
  const Value weight = parameter("weight", {S, regressed, horizon}, &LinearStart::weight);
  const Value bias = parameter("bias", {S, 1, horizon}, &LinearStart::bias);
  const Value read = transpose(slice(window, 0, W - regressed, regressed), {2, 1, 0});  // [S,B,R]
  return transpose(matmul(read, weight) + bias, {1, 2, 0});
}

DistributionLayer distribution_layer(const Scope& scope, const Distribution& distribution, const Shape& values,
                                     std::int64_t width, const LinearStart* start) {
  const std::int64_t P = distribution.n_parameters(), H = values[0], S = values[1];
  Tensor first(DType::f32, {P, H, S});
  for (std::int64_t s = 0; s < S; ++s)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::vector<double> raw = distribution.start(start ? start->deviation.at(s * H + h) : 1);
      for (std::int64_t p = 0; p < P; ++p) first.set((p * H + h) * S + s, raw[p]);
    }
  Scope own = scope.child("distribution");
  return {own.parameter("weight", {P * H * S, width}, Initializer::zeros()),
          own.parameter("bias", {P, H, S}, Initializer::given(std::move(first)))};
}

namespace {

// The parts of a forecasting network. Beside a linear part its answers start at zero.
class ForecastNetwork {
 public:
  ForecastNetwork(Scope& scope, const RecurrentModelOptions& model, const ForecastForm& form, std::int64_t horizon,
                  const LinearStart* start)
      : scope_(scope), model_(model), form_(form), horizon_(horizon), start_(start) {}

  // x [W,B,S], standardized; all in units of the window
  ForecastAnswers answers(Value x, const CovariateValues& v) const {
    if (form_.regressed == 0) return network(x, v);
    if (!v.changes) return plus(network(x, v), linear_forecast(scope_, x, form_.regressed, horizon_, start_));
    const std::int64_t S = x.shape()[2], K = v.ahead.shape()[2];
    Scope own = scope_.child("covariates");
    const Value effect = own.parameter("weight", {horizon_, K, S},
                                       start_ ? Initializer::given(start_->effect) : Initializer::zeros());
    const Value rest = x - linear(v.changes, transpose(row(effect, 0), {1, 0}));
    const Value of_changes = transpose(matmul(transpose(v.changes_ahead, {1, 0, 2}), effect), {1, 0, 2});
    return plus(network(rest, v), linear_forecast(scope_, rest, form_.regressed, horizon_, start_) + of_changes);
  }

 private:
  static ForecastAnswers plus(ForecastAnswers answers, Value y) {
    answers.y = answers.y + y;
    return answers;
  }
  ForecastAnswers network(Value x, const CovariateValues& v) const {
    const std::int64_t B = x.shape()[1], S = x.shape()[2];
    const Value y = recurrent_model(scope_.child("recurrent"), v.window ? concat({x, v.window}, 2) : x, model_).y;
    const Value one = dropout_layer(scope_, pooled(scope_, y, "final", model_.bidirectional).output, model_.dropout);
    const Value answers = reshape(output_layer(scope_.child("output"), one, horizon_ * S), {B, horizon_, S});
    return {v.ahead ? answers + decoded(one, v.ahead, S) : answers, {}, parameters(one, S)};
  }
  // The distribution begins as that of the linear part's errors.
  std::vector<Value> parameters(Value state, std::int64_t S) const {
    if (form_.distribution.empty()) return {};
    const std::int64_t B = state.shape()[0], n = horizon_ * S;
    const DistributionLayer layer =
        distribution_layer(scope_, form_.distribution, {horizon_, S}, state.shape()[1], start_);
    const Value answers = linear(state, layer.weight, reshape(layer.bias, {layer.bias.shape().elements()}));
    std::vector<Value> raw;
    for (std::int64_t p = 0; p < form_.distribution.n_parameters(); ++p)
      raw.push_back(reshape(slice(answers, 1, p * n, n), {B, horizon_, S}));
    return form_.distribution.parameters(raw);
  }
  Value output_layer(Scope last, Value x, std::int64_t n) const {
    const std::int64_t inputs = x.shape()[x.rank() - 1];
    if (form_.regressed == 0) return linear_layer(last, x, n);
    return linear(x, last.parameter("weight", {n, inputs}, Initializer::zeros()),
                  last.parameter("bias", {n}, Initializer::zeros()));
  }
  // The local decoder of a multi-horizon forecast (Wen et al. 2017, section 3.1, the local MLP): each step ahead reads
  // its covariates and the final state [B,P].
  Value decoded(Value state, Value ahead, std::int64_t n_series) const {
    Scope own = scope_.child("decoder");
    const std::int64_t B = state.shape()[0], D = model_.hidden;
    const Value of_state = reshape(linear_layer(own.child("state"), state, D), {B, 1, D});
    return output_layer(own.child("output"), tanh(linear_layer(own.child("ahead"), ahead, D) + of_state), n_series);
  }

  Scope& scope_;
  const RecurrentModelOptions& model_;
  const ForecastForm& form_;
  std::int64_t horizon_;
  const LinearStart* start_;
};

}  // namespace

ForecastAnswers forecast_answers(Scope& scope, Value x, Value covariates, const RecurrentModelOptions& model,
                                 const ForecastForm& form, std::int64_t horizon, const LinearStart* start) {
  const std::int64_t B = x.shape()[1], S = x.shape()[2];
  const ForecastNetwork network(scope, model, form, horizon, start);
  CovariateValues v;
  if (covariates) v = form.covariates.values(covariates, form.differencing, horizon);
  if (!form.by_window) return network.answers(x, v);
  const bool has_level = form.differencing.empty();
  const Value middle = mean(x, 0, /*keepdims=*/true), centred = has_level ? x - middle : x;  // differences have none
  if (has_level && v.changes) {
    const Value usual = mean(v.changes, 0, /*keepdims=*/true);
    v.changes = v.changes - usual;
    v.changes_ahead = v.changes_ahead - reshape(usual, {B, 1, usual.shape()[2]});
  }
  const Value least = scalar_like(x, form.least_scale() * form.least_scale());
  const Value unit = sqrt(mean(centred * centred, 0, /*keepdims=*/true) + least);
  ForecastAnswers answers = network.answers(centred / unit, v);
  answers.unit = reshape(unit, {B, 1, S});
  answers.y = answers.y * answers.unit;
  if (has_level) answers.y = answers.y + reshape(middle, {B, 1, S});
  return answers;
}

}  // namespace unroll
