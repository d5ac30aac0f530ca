// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/export/export_model.h"

#include <algorithm>
#include <filesystem>

#include "core/support/files/paths.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/onnx/export.h"
#include "unroll/model/model.h"
#include "unroll/support/vfs.h"
#include "unroll/tasks/tasks.h"

namespace unroll::cli {
namespace {

// Returns the initial parameters of a training with this seed.
TensorMap drawn_parameters(const Inference& inference, std::uint64_t seed) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> values;
  for (const TensorSpec& spec : inference.inputs) {
    std::vector<std::int64_t> dims;
    for (const Axis& axis : spec.axes) dims.push_back(axis.letter.empty() ? axis.size : 2);
    values.emplace(spec.name, graph.input(spec.name, {spec.dtype, Shape(dims)}));
  }
  inference.network(scope, Inputs(std::move(values)));
  return initialize(scope.parameters(), seed);
}

// Returns a task's network with its states, if it has any; otherwise that of its stream.
Inference task_network(const Metadata& metadata, bool stream) {
  Inference inference = task_inference(metadata);
  if (!stream || !inference.states.empty()) return inference;
  return onnx::stream_inference(task_stream(metadata));
}

}  // namespace

ExportJob export_job(const ExportArguments& o) {
  ExportJob job{.inference = {}, .parameters = {}, .metadata = {}};
  const bool is_trained = is_folder(o.config) || !o.weights.empty();
  const RunFolder run = is_trained ? open_run(o) : RunFolder{load_config(o, o.config), {}, folder_of(o.config)};
  job.parameters = run.model.tensors;
  job.metadata = run.model.metadata;
  if (run.config.text("task.kind").empty() && !job.metadata.contains("task")) {
    job.inference = onnx::stack_inference(model_options(run.config), run.config.integer("model.input"), false);
  } else {
    if (!is_trained) job.metadata = make_task(run.config, run.folder)->metadata();
    job.inference = task_network(job.metadata, o.stream);
  }
  if (!is_trained)
    job.parameters = drawn_parameters(job.inference, trainer_options(run.config).seed);
  return job;
}

std::string export_onnx(const ExportArguments& o, Report& report) {
  const ExportJob job = export_job(o);
  std::map<std::string, std::string> properties;
  for (const auto& [key, value] : job.metadata) properties.emplace("unroll." + key, value);
  const std::string external = o.external_data ? std::filesystem::path(o.out).filename().string() : "";
  const onnx::ExportedModel model =
      onnx::export_model(job.inference, job.parameters, o.stream, properties, external);
  onnx::write_model_files(disk(), o.out, model);
  std::vector<std::string> inputs, outputs;
  for (const TensorSpec& spec : job.inference.inputs) {
    const bool is_state = std::ranges::count(job.inference.states, spec.name) > 0;
    if (o.stream || !is_state) inputs.push_back(spec.name + " " + spec.text());
  }
  for (const TensorSpec& spec : job.inference.outputs) {
    const bool is_state = std::ranges::count(job.inference.states, spec.name) > 0;
    if (o.stream || !is_state) outputs.push_back(spec.name + (is_state ? ".next " : " ") + spec.text());
  }
  report.add("out", o.out).add("bytes", model.bytes.size());
  if (!model.location.empty()) {
    const onnx::ExternalTensor& last = model.external.back();
    report.add("weights_file", (std::filesystem::path(o.out).parent_path() / model.location).string())
        .add("weights_bytes", last.offset + last.tensor->bytes().size());
  }
  report.add("inputs", inputs).add("outputs", outputs);
  return o.check ? check_onnx(o, job, o.out, report) : "";
}

}  // namespace unroll::cli
