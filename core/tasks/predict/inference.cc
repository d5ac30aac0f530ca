// SPDX-License-Identifier: Apache-2.0
// Trained tasks as networks from named inputs to named outputs, and as streams.
#include "unroll/tasks/inference.h"

#include <algorithm>

#include "core/support/text/in_quotes.h"
#include "core/support/text/nearest_name.h"
#include "core/tasks/common/network_parts.h"
#include "core/tasks/graph/graph.h"
#include "core/tasks/sequential/sequential.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

[[noreturn]] void refuse_task(const Metadata& metadata, const std::string& what) {
  throw Error(ErrorKind::input_file, "model", what + " " + in_quotes(get_text(metadata, "task")));
}

// Models without a data task.
constexpr NetworkRow k_sequential_row{sequential_inference, sequential_stream};
constexpr NetworkRow k_graph_row{graph_inference, graph_stream};

const NetworkRow& network_row(const Metadata& metadata) {
#define UNROLL_TASK_ROW(name, Title, word) {#name, &name##_network_row},
  static constexpr std::pair<std::string_view, const NetworkRow*> k_rows[] = {UNROLL_TASKS(UNROLL_TASK_ROW){
      "sequential", &k_sequential_row}, {"graph", &k_graph_row}};
#undef UNROLL_TASK_ROW
  const std::string& task = get_text(metadata, "task");
  for (const auto& [name, row] : k_rows)
    if (name == task) return *row;
  refuse_task(metadata, "unknown task");
}

std::string text_of(const Axis& axis) { return axis.letter.empty() ? std::to_string(axis.size) : axis.letter; }

void bind(const TensorSpec& spec, const Tensor& tensor, std::map<std::string, std::int64_t>& sizes) {
  const auto refuse = [&](ErrorKind kind) {
    throw Error(kind, spec.name, "expected " + spec.text() + ", got " + tensor.type().text());
  };
  if (tensor.dtype() != spec.dtype) refuse(ErrorKind::type);
  if (tensor.shape().rank() != static_cast<int>(spec.axes.size())) refuse(ErrorKind::shape);
  for (std::size_t k = 0; k < spec.axes.size(); ++k) {
    const std::int64_t got = tensor.shape()[static_cast<int>(k)];
    if (spec.axes[k].letter.empty()) {
      if (got != spec.axes[k].size) refuse(ErrorKind::shape);
      continue;
    }
    const auto [at, is_new] = sizes.emplace(spec.axes[k].letter, got);
    if (!is_new && at->second != got)
      throw Error(ErrorKind::shape, spec.name,
                  "expected " + spec.text() + " with " + at->first + " = " + std::to_string(at->second) +
                      " as in another input, got " + tensor.type().text());
  }
}

}  // namespace

CellLayerResult step_answers(Scope& scope, Value x, const RecurrentModelOptions& model, std::span<const Value> states,
                             std::int64_t outputs) {
  CellLayerResult r = recurrent_model(scope.child("recurrent"), x, model, states);
  r.y = linear_layer(scope.child("output"), r.y, outputs);
  return r;
}

std::string TensorSpec::text() const {
  std::string text(dtype_name(dtype));
  for (std::size_t k = 0; k < axes.size(); ++k) text += (k == 0 ? "[" : ",") + text_of(axes[k]);
  return text + (axes.empty() ? "[]" : "]");
}

Inference task_inference(const Metadata& metadata) { return network_row(metadata).inference(metadata); }

StreamModel task_stream(const Metadata& metadata) {
  const NetworkRow& row = network_row(metadata);
  if (!row.stream) refuse_task(metadata, "no stream for task");
  return row.stream(metadata);
}

std::map<std::string, std::int64_t> bind_sizes(const Inference& inference, const TensorMap& inputs) {
  std::map<std::string, std::int64_t> sizes;
  std::vector<std::string_view> known;
  for (const TensorSpec& spec : inference.inputs) {
    known.push_back(spec.name);
    if (const auto at = inputs.find(spec.name); at != inputs.end())
      bind(spec, at->second, sizes);
    else if (std::find(inference.states.begin(), inference.states.end(), spec.name) == inference.states.end())
      throw Error(ErrorKind::usage, "inputs", "'" + spec.name + "' " + spec.text() + " is missing");
  }
  for (const auto& [name, tensor] : inputs)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorKind::usage, "inputs", "there is no input '" + name + "'", known_names(name, known));
  return sizes;
}

TensorMap zero_states(const Inference& inference, const TensorMap& inputs) {
  const auto sizes = bind_sizes(inference, inputs);
  TensorMap zeros;
  for (const TensorSpec& spec : inference.inputs)
    if (!inputs.contains(spec.name)) zeros.emplace(spec.name, Tensor(spec.dtype, shape_of(spec, sizes)));
  return zeros;
}

Shape shape_of(const TensorSpec& spec, const std::map<std::string, std::int64_t>& sizes) {
  std::vector<std::int64_t> dims;
  for (const Axis& axis : spec.axes) {
    const auto at = sizes.find(axis.letter);
    if (!axis.letter.empty() && at == sizes.end())
      throw Error(ErrorKind::usage, spec.name, "the size of " + axis.letter + " is not known");
    dims.push_back(axis.letter.empty() ? axis.size : at->second);
  }
  return Shape(dims);
}

}  // namespace unroll
