// SPDX-License-Identifier: Apache-2.0
// Trained tasks as streams: raw values in, predictions in the task's units out, after every step.
#include "frontends/tasks/classify/features.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/forecast/series_units.h"
#include "frontends/tasks/language_model/language_model.h"
#include "frontends/tasks/sequential/sequential.h"
#include "unroll/error.h"
#include "unroll/stream.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

// x -> scaled(x) -> recurrent layers -> linear.
CellLayerResult read_out(Scope& scope, Value x, const RecurrentModelOptions& model, std::span<const Value> states,
                         std::int64_t outputs) {
  CellLayerResult r = recurrent_model(scope.child("recurrent"), x, model, states);
  r.y = linear_layer(scope.child("output"), r.y, outputs);
  return r;
}

StreamModel language_stream(const Metadata& metadata) {
  const RecurrentModelOptions model = get_model_options(metadata);
  StreamModel stream = recurrent_stream(model, 1);
  stream.input = DType::i32;
  LanguageNetwork network = LanguageNetwork::of(metadata);
  network.document_start = -1;  // who owns the stream resets it
  stream.build = [network](Scope& scope, Value ids, std::span<const Value> states) {
    return network.build(scope, ids, states);
  };
  return stream;
}

StreamModel classify_stream(const Metadata& metadata) {
  const RecurrentModelOptions model = get_model_options(metadata);
  const std::int64_t classes = get_integer(metadata, "classes");
  if (metadata.contains("pooling") && get_text(metadata, "pooling") != "final")
    throw Error(ErrorKind::unsupported, "task_stream",
                "a stream reads only the last step; the pooling of this model needs the whole sequence: '" +
                    get_text(metadata, "pooling").substr(0, 40) + "'",
                "Use `unroll predict` for whole sequences, or train with pooling = \"final\"");
  const Features features = Features::of(metadata);
  if (features.normalize && features.steps > 1)
    throw Error(ErrorKind::unsupported, "task_stream",
                "the model standardizes each column of a row by itself; a stream has no columns",
                "Use `unroll predict` for whole sequences, or train with data.normalize = false");
  StreamModel stream = recurrent_stream(model, features.width());
  stream.build = [=](Scope& scope, Value x, std::span<const Value> states) {
    return read_out(scope, features.scaled(x), model, states, classes);
  };
  return stream;
}

// A model that reads and gives changes keeps the last values, and whether there were any, as two more states: the first
// values count as no change.
StreamModel forecast_stream(const Metadata& metadata) {
  const RecurrentModelOptions model = get_model_options(metadata);
  const std::vector<SeriesScales> series = get_scales(metadata);
  const auto S = static_cast<std::int64_t>(series.size()), H = static_cast<std::int64_t>(series[0].ahead.size());
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
      CellLayerResult r = read_out(scope, read.to_scaled(values), model, recurrent, H * S);
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

StreamModel task_stream(const Metadata& metadata) {
  struct Row {
    std::string_view task;
    StreamModel (*make)(const Metadata&);
  };
  constexpr Row k_tasks[] = {{"language_model", language_stream},
                             {"classify", classify_stream},
                             {"forecast", forecast_stream},
                             {"sequential", sequential_stream}};
  const std::string& task = get_text(metadata, "task");
  for (const Row& row : k_tasks)
    if (row.task == task) return row.make(metadata);
  throw Error(ErrorKind::input_file, "model", "no stream for task '" + task.substr(0, 40) + "'");
}

}  // namespace unroll
