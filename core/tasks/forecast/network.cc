// SPDX-License-Identifier: Apache-2.0
// The forecast network, for whole windows and as a stream. Shapes: S series, H horizon, T steps, B lanes.
#include "core/tasks/common/network_parts.h"
#include "core/tasks/forecast/form/forecast_form.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Means and deviations of a forecast's inputs [S] (horizon 1), or of its outputs [H*S].
struct SeriesUnits {
  Value mean, deviation;
  SeriesUnits(Graph& graph, std::span<const SeriesScales> series, std::int64_t horizon);
  Value to_scaled(Value x) const;
  Value from_scaled(Value y) const;
};

SeriesUnits::SeriesUnits(Graph& graph, std::span<const SeriesScales> series, std::int64_t horizon) {
  Tensor means(DType::f32, {horizon * std::ssize(series)}), deviations = means;
  std::int64_t at = 0;
  for (std::int64_t h = 0; h < horizon; ++h)
    for (const SeriesScales& s : series) {
      means.set(at, s.ahead[h].mean);
      deviations.set(at++, s.ahead[h].deviation);
    }
  mean = constant(graph, means);
  deviation = constant(graph, deviations);
}

Value SeriesUnits::to_scaled(Value x) const { return (x - mean) / deviation; }
Value SeriesUnits::from_scaled(Value y) const { return y * deviation + mean; }

// Levels [...,H,S] as they are forecast. `unit` is that of each window, [B,1,S], or empty.
Value shown_levels(const ForecastForm& form, const SeriesUnits& given, Value levels, Value unit) {
  if (!form.distribution.is_of_amounts()) return form.shown(levels, {});
  const Shape& shape = levels.shape();
  const int ahead = shape.rank() - 2;
  Value units = broadcast(reshape(given.deviation, {shape[ahead], shape[ahead + 1]}), shape);
  if (unit) units = units * broadcast(reshape(unit, shape.with(ahead, 1)), shape);
  return form.shown(levels, units);
}

Inference forecast_inference(const Metadata& metadata) {
  const std::vector<SeriesScales> series = get_scales(metadata);
  const auto S = std::ssize(series), H = std::ssize(series[0].ahead);
  const ForecastForm form = get_form(metadata);
  // A linear part and scales by window read as many steps as in training.
  const bool has_covariates = !form.covariates.empty();
  const bool by_window = form.by_window || form.regressed > 0 || has_covariates;
  const std::int64_t window = get_integer(metadata, "window") + form.depth();
  const Axis steps = by_window ? fixed(window) : any("T");
  std::vector<TensorSpec> inputs{{"x", DType::f32, {steps, any("B"), fixed(S)}}};
  if (has_covariates)
    inputs.push_back({"covariates", DType::f32, {fixed(window + H), any("B"), fixed(form.covariates.width())}});
  return {.inputs = inputs,
          .outputs = {{"forecast", DType::f32, {any("B"), fixed(H), fixed(S)}}},
          .network = [=, model = get_model_options(metadata)](Scope& scope, const Inputs& in) {
            const Value x = in["x"];
            const std::int64_t T = x.shape()[0], B = x.shape()[1];
            if (T <= form.depth())
              throw Error(ErrorKind::shape, "forecast", "a model of differences needs " +
                          std::to_string(form.depth() + 1) + " steps or more; got " + std::to_string(T));
            const SeriesUnits read(scope.graph(), series, 1), given(scope.graph(), series, H);
            const Value scaled = read.to_scaled(form.differencing.differences(x));
            Value covariates;
            if (has_covariates) covariates = form.covariates.standardize(in["covariates"]);
            const auto [answers, unit, parameters] = forecast_answers(scope, scaled, covariates, model, form, H);
            Value ahead = reshape(given.from_scaled(reshape(answers, {B, H * S})), {B, H, S});
            if (!form.differencing.empty()) {
              const Value base = form.differencing.continuation(x, 1, H);
              ahead = ahead + reshape(base, {B, base.shape()[2], S});
            }
            return outputs({{"forecast", shown_levels(form, given, ahead, unit)}});
          }};
}

// x [W-1+T,B,S] -> [W,T*B,S], the windows that end at the last T steps. The graph is the same for any T.
Value windows_of(Value x, std::int64_t window) {
  const std::int64_t T = x.shape()[0] - window + 1, B = x.shape()[1], S = x.shape()[2];
  const Shape by_step{window, T};
  const Value rows = iota(x.graph(), by_step, 0) + iota(x.graph(), by_step, 1);
  return reshape(gather(reshape(x, {x.shape()[0], B * S}), rows), {window, T * B, S});
}

// A stream of forecasts. With scales by window the network reads every window anew, as `predict` does; otherwise its
// layers carry their states. The other states are the last levels, as many as differences and windows read, and a flag
// that they exist. Before there are any, all levels are the first one.
class ForecastStream {
 public:
  explicit ForecastStream(const Metadata& metadata)
      : model_(get_model_options(metadata)), form_(get_form(metadata)), series_(get_scales(metadata)),
        window_(form_.by_window ? get_integer(metadata, "window") : std::max<std::int64_t>(form_.regressed, 1)),
        kept_(form_.depth() + window_ - 1) {}

  StreamModel stream() const {
    StreamModel stream;
    if (!form_.by_window) stream = recurrent_stream(model_, std::ssize(series_));
    stream.inputs = std::ssize(series_);
    stream.state_shapes = [self = *this, recurrent = stream.state_shapes](std::int64_t lanes) {
      std::vector<Shape> shapes = recurrent ? recurrent(lanes) : std::vector<Shape>();
      if (self.kept_ > 0) shapes.insert(shapes.end(), {{self.kept_, lanes, std::ssize(self.series_)}, {1, lanes, 1}});
      return shapes;
    };
    stream.build = [self = *this](Scope& scope, Value x, std::span<const Value> states) {
      return self.build(scope, x, states);
    };
    return stream;
  }

 private:
  CellLayerResult build(Scope& scope, Value x, std::span<const Value> states) const {
    const std::int64_t T = x.shape()[0], B = x.shape()[1], S = std::ssize(series_);
    const auto H = std::ssize(series_[0].ahead);
    const std::size_t n = states.size() - (kept_ > 0 ? 2 : 0);
    const Value levels = kept_ > 0 ? with_past(x, states[n], states[n + 1]) : x;
    const SeriesUnits read(scope.graph(), series_, 1), given(scope.graph(), series_, H);
    const Value scaled = read.to_scaled(form_.differencing.differences(levels));  // [window_-1+T,B,S]
    CellLayerResult r;
    Value unit;
    if (form_.by_window) {
      const ForecastAnswers answers = forecast_answers(scope, windows_of(scaled, window_), {}, model_, form_, H);
      r.y = reshape(answers.y, {T, B, H * S});
      unit = answers.unit;
    } else {
      r = step_answers(scope, slice(scaled, 0, window_ - 1, T), model_, states.first(n), H * S);
      if (!form_.distribution.empty())  // its parameters are in the model; a stream gives the forecast alone
        distribution_layer(scope, form_.distribution, {H, S},
                           model_.projection > 0 ? model_.projection : model_.hidden);
      if (form_.regressed > 0) {
        const Value linear = linear_forecast(scope, windows_of(scaled, window_), form_.regressed, H);
        r.y = r.y + reshape(linear, {T, B, H * S});
      }
    }
    Value ahead = reshape(given.from_scaled(r.y), {T, B, H, S});
    if (!form_.differencing.empty()) ahead = ahead + form_.differencing.continuation(levels, T, H);
    r.y = reshape(shown_levels(form_, given, ahead, unit), {T, B, H * S});
    if (kept_ == 0) return r;
    r.states.push_back(slice(levels, 0, T, kept_));
    r.states.push_back(filled(scope.graph(), states[n + 1].type(), 1));
    return r;
  }

  static Value with_past(Value x, Value past, Value seen) {
    const Value exists = broadcast(less(scalar_like(seen, 0), seen), past.shape());
    return concat({select(exists, past, broadcast(slice(x, 0, 0, 1), past.shape())), x}, 0);
  }

  RecurrentModelOptions model_;
  ForecastForm form_;
  std::vector<SeriesScales> series_;
  std::int64_t window_;  // steps that the network or its linear part reads at once
  std::int64_t kept_;    // levels
};

StreamModel forecast_stream(const Metadata& metadata) {
  if (!get_form(metadata).covariates.empty())
    throw Error(ErrorKind::usage, "forecast", "a model with covariates has no stream: it reads rows ahead",
                "Predict from a table, or run the model on whole windows");
  return ForecastStream(metadata).stream();
}

}  // namespace

const NetworkRow forecast_network_row{forecast_inference, forecast_stream};

}  // namespace unroll
