// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/import_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/support/text/shell_word.h"
#include "frontends/cli/bench/stream_job.h"
#include "frontends/onnx/parameters.h"
#include "frontends/onnx/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/graph.h"

namespace unroll::cli {
namespace {

constexpr std::int64_t k_steps = 80640;  // a multiple of all strides up to 10

// Random input for the graph: numbers in [-1, 1), or 0 and 1, which are indices of most tables.
Tensor drawn_input(const Graph& graph) {
  const NamedValue& input = graph.inputs()[0];
  const Type& type = graph.type(input.value);
  const ParameterSpec spec{input.name, {DType::f32, type.shape}, Initializer::uniform(1)};
  Tensor random = std::move(initialize(std::span(&spec, 1), 1).at(input.name));
  if (!is_float(type.dtype))
    for (std::int64_t k = 0; k < random.elements(); ++k) random.set(k, random.at(k) > 0 ? 1 : 0);
  return random.cast(type.dtype);
}

// The folder's model and the file at T steps.
Report compared(const std::string& file, const onnx::ModelStream& found, const GraphImport& ours, std::int64_t T) {
  const auto graph = found.whole(T);
  const std::string& name = graph->inputs()[0].name;
  const TensorMap inputs{{name, drawn_input(*graph)}};
  const auto backend = make_backend("cpu");
  const TensorMap wanted = evaluate(*graph, *backend, inputs);
  const TensorMap got = Model(*backend, task_inference(ours.metadata).network, ours.parameters).run(inputs);
  double largest = 0;
  for (const auto& [output, tensor] : wanted) largest = std::max(largest, relative_l2(got.at(output), tensor));
  const double tolerance = rounding_tolerance(0);
  if (!(largest <= tolerance))
    throw Error(ErrorKind::differ, file,
                fmt::format("the stored graph computes something else than the file: relative L2 difference {:.2g}, "
                            "tolerance {:.2g}", largest, tolerance),
                "Please report this; `unroll run` runs the file itself");
  return std::move(Report().add("inputs", name + " " + inputs.at(name).type().text())
                       .add("relative_l2_difference", largest).add("tolerance", tolerance).add("agrees", true));
}

// Compares at two lengths for which the model has positions, or at the only one.
ReportList compared(const std::string& file, const onnx::ModelStream& found, const GraphImport& ours) {
  ReportList rows;
  const bool is_any_length = !found.time.empty() || !found.carried.empty();
  for (std::int64_t T : {48, 96, 384, 768, 6144, 12288, 20160}) {
    const auto graph = attempt([&] { return parse_for_length(ours.metadata.at("graph"), T); });
    if (!graph.ok()) continue;
    const auto is_empty = [&](const NamedValue& o) { return (*graph)->type(o.value).shape.elements() == 0; };
    if (std::ranges::any_of((*graph)->outputs(), is_empty)) continue;
    rows.push_back(compared(file, found, ours, T));
    if (rows.size() == 2 || !is_any_length) break;
  }
  if (rows.empty()) rows.push_back(compared(file, found, ours, k_steps));
  return rows;
}

std::string stream_text(const GraphImport& ours) {
  const auto stream = attempt([&] {
    return Stream(std::shared_ptr<Backend>(make_backend("reference")), task_stream(ours.metadata), ours.parameters);
  });
  if (!stream.ok()) return std::string("no: ") + stream.error().what();
  if (stream->save().size() == 1) return "yes: each position by itself, nothing is carried";
  return fmt::format("yes: {} steps a block, {} rows of output", stream->block(), stream->rows());
}

}  // namespace

GraphImport import_onnx_graph(const std::string& file, const OnnxStreamArguments& options, Report& report) {
  const auto model = std::make_shared<const onnx::Model>(onnx::load_model_file(file));
  const onnx::StreamChoices choices = stream_choices(options);
  const onnx::ModelStream found = onnx::sequence_of(model, choices);
  const auto closed = found.whole(k_steps);
  const onnx::OpenGraph one = onnx::with_parameters(*closed, *model);
  const onnx::OpenGraph two = onnx::with_parameters(*found.whole(2 * k_steps), *model);
  GraphImport ours;
  ours.parameters = one.parameters;
  for (const auto& [name, tensor] : two.parameters) {
    const auto at = ours.parameters.find(name);
    if (at == ours.parameters.end() || !std::ranges::equal(at->second.bytes(), tensor.bytes()))
      throw Error(ErrorKind::unsupported, file, fmt::format("the constant '{}' depends on the number of steps", name),
                  fmt::format("`unroll run {}` runs the model without importing it", shell_word(file)));
  }
  if (closed->inputs().size() != 1)
    throw Error(ErrorKind::unsupported, file, "the model has several inputs that depend on the number of steps",
                fmt::format("`unroll run {}` runs the model without importing it", shell_word(file)));
  ours.metadata = graph_metadata({print_for_lengths(*one.graph, k_steps, *two.graph, 2 * k_steps),
                                  closed->inputs()[0].name, options.output, options.delay});
  report.add("nodes", one.graph->nodes().size()).add("parameters", ours.parameters.size());
  add_decisions(found, report);
  report.add("stream", stream_text(ours)).add("check", compared(file, found, ours));
  return ours;
}

}  // namespace unroll::cli
