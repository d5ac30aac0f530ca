// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/forecast_form.h"

#include <algorithm>
#include <charconv>

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
  if (m.contains("autoregression")) form.regressed = get_integer(m, "autoregression");
  if (form.regressed < 0 || form.regressed > k_most_back)
    throw Error(ErrorKind::input_file, "model",
                "metadata 'autoregression' must be between 0 and " + std::to_string(k_most_back));
  return form;
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

namespace {

// Beside a linear part the network's answers start at zero.
Value network_answers(Scope& scope, Value x, const RecurrentModelOptions& model, const ForecastForm& form,
                      std::int64_t horizon) {
  const std::int64_t B = x.shape()[1], S = x.shape()[2], n = horizon * S;
  if (form.regressed == 0) return reshape(sequence_answers(scope, x, model, "final", n), {B, horizon, S});
  const Value y = recurrent_model(scope.child("recurrent"), x, model).y;
  const Value one = pooled(scope, y, "final", model.bidirectional).output;
  Scope last = scope.child("output");
  const Value weight = last.parameter("weight", {n, one.shape()[1]}, Initializer::zeros());
  const Value answers = linear(dropout_layer(scope, one, model.dropout), weight,
                               last.parameter("bias", {n}, Initializer::zeros()));
  return reshape(answers, {B, horizon, S});
}

}  // namespace

ForecastAnswers forecast_answers(Scope& scope, Value x, const RecurrentModelOptions& model, const ForecastForm& form,
                                 std::int64_t horizon, const LinearStart* start) {
  const std::int64_t B = x.shape()[1], S = x.shape()[2];
  const auto answers = [&](Value read) {
    const Value y = network_answers(scope, read, model, form, horizon);
    return form.regressed == 0 ? y : y + linear_forecast(scope, read, form.regressed, horizon, start);
  };
  if (!form.by_window) return {answers(x), {}};
  const bool has_level = form.differencing.empty();
  const Value middle = mean(x, 0, /*keepdims=*/true), centred = has_level ? x - middle : x;  // differences have none
  const Value least = scalar_like(x, form.least_scale() * form.least_scale());
  const Value unit = sqrt(mean(centred * centred, 0, /*keepdims=*/true) + least);
  const Value by_window = reshape(unit, {B, 1, S}), scaled = answers(centred / unit) * by_window;
  return {has_level ? scaled + reshape(middle, {B, 1, S}) : scaled, by_window};
}

}  // namespace unroll
