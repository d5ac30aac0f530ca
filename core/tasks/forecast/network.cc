// SPDX-License-Identifier: Apache-2.0
// The forecast network, for whole windows and as a stream. Shapes: S series, H horizon.
#include "core/tasks/common/network_parts.h"
#include "core/tasks/common/pooling.h"
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

Inference forecast_inference(const Metadata& metadata) {
  const std::vector<SeriesScales> series = get_scales(metadata);
  const auto S = std::ssize(series), H = std::ssize(series[0].ahead);
  const bool changes = get_integer(metadata, "difference") != 0;
  return {.inputs = {{"x", DType::f32, {any("T"), any("B"), fixed(S)}}},
          .outputs = {{"forecast", DType::f32, {any("B"), fixed(H), fixed(S)}}},
          .network = [=, model = get_model_options(metadata)](Scope& scope, const Inputs& in) {
            const Value x = in["x"];
            const std::int64_t T = x.shape()[0], B = x.shape()[1];
            if (changes && T < 2)
              throw Error(ErrorKind::shape, "forecast",
                          "a model of changes needs 2 steps or more; got " + std::to_string(T));
            const SeriesUnits read(scope.graph(), series, 1), given(scope.graph(), series, H);
            const Value values = changes ? slice(x, 0, 1, T - 1) - slice(x, 0, 0, T - 1) : x;
            const Value scaled = sequence_answers(scope, read.to_scaled(values), model, "final", H * S);
            const Value ahead = given.from_scaled(scaled);
            const Value by_step = reshape(ahead, {B, H, S});
            return outputs({{"forecast", changes ? by_step + reshape(row(x, T - 1), {B, 1, S}) : by_step}});
          }};
}

// A model of differences has two more states: the last values, and a flag that they exist. The first differences are
// zero.
StreamModel forecast_stream(const Metadata& metadata) {
  const RecurrentModelOptions model = get_model_options(metadata);
  const std::vector<SeriesScales> series = get_scales(metadata);
  const auto S = std::ssize(series), H = std::ssize(series[0].ahead);
  const bool changes = get_integer(metadata, "difference") != 0;
  StreamModel stream = recurrent_stream(model, S);
  const auto recurrent_shapes = stream.state_shapes;
  stream.state_shapes = [=](std::int64_t lanes) {
    std::vector<Shape> shapes = recurrent_shapes(lanes);
    if (changes) shapes.insert(shapes.end(), {{1, lanes, S}, {1, lanes, 1}});
    return shapes;
  };
  stream.build = [=](Scope& scope, Value x, std::span<const Value> states) {
    const std::int64_t steps = x.shape()[0], lanes = x.shape()[1];
    const auto predict = [&](Value values, std::span<const Value> recurrent) {
      const SeriesUnits read(scope.graph(), series, 1), given(scope.graph(), series, H);
      CellLayerResult r = step_answers(scope, read.to_scaled(values), model, recurrent, H * S);
      r.y = given.from_scaled(r.y);
      return r;
    };
    if (!changes) return predict(x, states);
    const std::size_t n = states.size() - 2;
    const Value last = states[n], seen = states[n + 1], ones = filled(scope.graph(), seen.type(), 1);
    const Value first = (slice(x, 0, 0, 1) - last) * seen;
    const Value later = slice(x, 0, 1, steps - 1) - slice(x, 0, 0, steps - 1);
    CellLayerResult r = predict(steps == 1 ? first : concat(std::vector{first, later}, 0), states.first(n));
    const Value ahead = reshape(x, {steps, lanes, 1, S}) + reshape(r.y, {steps, lanes, H, S});
    r.y = reshape(ahead, {steps, lanes, H * S});
    r.states.push_back(slice(x, 0, steps - 1, 1));
    r.states.push_back(ones);
    return r;
  };
  return stream;
}

}  // namespace

const NetworkRow forecast_network_row{forecast_inference, forecast_stream};

}  // namespace unroll
