// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/import_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/support/files/paths.h"
#include "core/support/text/shell_word.h"
#include "frontends/cli/import/import_graph.h"
#include "frontends/cli/import/import_onnx.h"
#include "frontends/cli/import/sample.h"
#include "frontends/config/config.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {
namespace {

// Layers without a task keep PyTorch's names without a path, as the commands for layers expect.
void drop_only_path(ImportedModel& imported) {
  if (imported.model.layers.size() != 1 || imported.model.layers[0].name.empty()) return;
  const std::string prefix = imported.model.layers[0].name + ".";
  imported.model.layers[0].name.clear();
  TensorMap parameters;
  for (auto& [name, tensor] : imported.parameters) parameters.emplace(name.substr(prefix.size()), std::move(tensor));
  imported.parameters = std::move(parameters);
  for (auto& row : imported.mapping) row.to = row.to.substr(prefix.size());
}

const SequentialLayer* first_recurrent(const Sequential& model) {
  const auto at = std::ranges::find(model.layers, "recurrent", &SequentialLayer::kind);
  return at == model.layers.end() ? nullptr : &*at;
}

// [model] describes the first recurrent layers, for commands that work on layers only.
Config config_of(const Sequential& model, std::int64_t inputs, const std::string& origin) {
  const RecurrentModelOptions& o = first_recurrent(model)->model;
  Config config;
  const auto set = [&](const char* key, ConfigValue value) {
    config.set(std::string("model.") + key, std::move(value), origin);
  };
  set("cell", o.cell);
  set("input", inputs);
  set("hidden", o.hidden);
  set("layers", std::int64_t{o.layers});
  set("bidirectional", o.bidirectional);
  set("bias", o.bias);
  if (o.projection > 0) set("projection", o.projection);
  if (o.cell == "rnn") set("nonlinearity", word_of(o.nonlinearity));
  return config;
}

std::string layer_text(const SequentialLayer& layer) {
  if (layer.kind == "embedding") return fmt::format("embedding {} -> {}", layer.tokens, layer.size);
  if (layer.kind == "linear") return fmt::format("linear -> {}", layer.size);
  if (layer.kind != "recurrent") return layer.kind;
  const RecurrentModelOptions& o = layer.model;
  std::vector<std::string> more;
  if (o.layers > 1) more.push_back(fmt::format("{} layers", o.layers));
  if (o.bidirectional) more.emplace_back("bidirectional");
  if (o.projection > 0) more.push_back(fmt::format("projection {}", o.projection));
  return fmt::format("{} {}", o.cell, o.hidden) + (more.empty() ? "" : fmt::format(" ({})", fmt::join(more, " ")));
}

void describe(const ImportedModel& imported, Report& report) {
  std::vector<std::string> layers;
  for (const SequentialLayer& layer : imported.model.layers) layers.push_back(layer_text(layer));
  report.add("layers", layers);
  ReportList mapping, unused;
  for (const auto& row : imported.mapping)
    mapping.push_back(std::move(Report().add("in_the_file", row.from).add("type", row.stored)
                                    .add("parameter", row.to)
                                    .add("shape", imported.parameters.at(row.to).shape().text())));
  for (const auto& row : imported.unused)
    unused.push_back(std::move(Report().add("name", row.from).add("type", row.stored)));
  report.add("mapping", mapping);
  if (!unused.empty()) report.add("unused", unused);
}

Config config_of(const ImportedModel& imported, const std::string& origin) {
  const SequentialLayer& layer = *first_recurrent(imported.model);
  const std::string prefix = layer.name.empty() ? "" : layer.name + ".";
  return config_of(imported.model, imported.parameters.at(prefix + "weight_ih_l0").shape()[1], origin);
}

void write_folder(const Config& config, const TensorMap& parameters, Metadata metadata, const ImportArguments& o) {
  metadata["imported"] = std::filesystem::path(o.file).filename().string();
  const bool is_new = kind_of_path(o.out, ErrorKind::storage) == PathKind::none;
  prepare_run_folder(o.out, /*resume=*/false);
  try {
    save_config(config, o.out + "/config.toml");
    save_safetensors(o.out + "/best.safetensors", {parameters, metadata});
  } catch (const Error&) {
    std::error_code ignored;  // report the error of the write
    if (is_new) std::filesystem::remove_all(o.out, ignored);
    throw;
  }
}

void refuse_options_of_checkpoints(const ImportArguments& o) {
  const checkpoint::ImportOptions plain;
  const std::pair<const char*, bool> given[] = {{"--layers", !o.names.layers.empty()},
                                                {"--prefix", !o.names.prefix.empty()},
                                                {"--rename", !o.names.renames.empty()},
                                                {"--nonlinearity", o.names.nonlinearity != plain.nonlinearity},
                                                {"--ignore-unused", o.names.ignore_unused},
                                                {"--batch-first", o.batch_first}};
  for (const auto& [name, is_given] : given)
    if (is_given)
      throw Error(ErrorKind::usage, "import", fmt::format("{} does not apply to an ONNX model", name),
                  "The file says how its layers follow each other, and which axis is which");
}

void add_next(Report& report, const ImportArguments& o) {
  if (!o.json)
    report.add("next", fmt::format("unroll run {0} --input x.safetensors --output y.safetensors", shell_word(o.out)));
}

void add_tensors(Report& report, const Inference& inference) {
  std::vector<std::string> inputs, outputs;
  for (const TensorSpec& spec : inference.inputs) inputs.push_back(spec.name + " " + spec.text());
  for (const TensorSpec& spec : inference.outputs) outputs.push_back(spec.name + " " + spec.text());
  report.add("inputs", inputs).add("outputs", outputs);
}

// A model that is no chain of layers, for the reason given.
Report import_graph(const ImportArguments& o, const std::string& reason) {
  Report report;
  report.add("file", o.file).add("out", o.out);
  if (!reason.empty()) report.add("not_layers", reason);
  const GraphImport graph = import_onnx_graph(o.file, o, report);
  add_tensors(report, task_inference(graph.metadata));
  write_folder(Config(), graph.parameters, graph.metadata, o);
  add_next(report, o);
  return report;
}

ImportedModel import_checkpoint(const ImportArguments& o, Report& report) {
  checkpoint::Checkpoint file = checkpoint::load_checkpoint(o.file);
  if (!file.skipped.empty()) report.add("not_read", file.skipped);
  return checkpoint::import_model(std::move(file), o.names, o.file);
}

// A model of layers, from a checkpoint or, if given, an ONNX model.
Report import_layers(const ImportArguments& o, const std::optional<OnnxImport>& onnx) {
  Report report;
  report.add("file", o.file).add("out", o.out);
  ImportedModel imported = onnx ? onnx->imported : import_checkpoint(o, report);
  if (!first_recurrent(imported.model))
    throw Error(ErrorKind::input_file, o.file, "the model has no recurrent layer",
                "Import a model with nn.RNN, nn.GRU or nn.LSTM");
  drop_only_path(imported);
  describe(imported, report);
  const Inference inference = task_inference(sequential_metadata(imported.model));
  add_tensors(report, inference);
  if (onnx) report.add("tensors", onnx->tensors).add("check", onnx->check);
  if (o.sample.empty()) report.add("sample", "not compared; --sample compares the output with that of PyTorch");
  else if (onnx) report.add("sample", *onnx->sample);
  else report.add("sample", check_sample(inference, imported.parameters, o.sample, o.batch_first));
  write_folder(config_of(imported, o.file), imported.parameters, sequential_metadata(imported.model), o);
  add_next(report, o);
  return report;
}

}  // namespace

Report import_model(const ImportArguments& o) {
  if (!o.file.ends_with(".onnx")) {
    if (o.any())
      throw Error(ErrorKind::usage, "import",
                  "--time, --size, --value, --tensor and --delay apply to ONNX models only");
    return import_layers(o, {});
  }
  refuse_options_of_checkpoints(o);
  if (o.any()) return import_graph(o, "");
  const Result<OnnxImport> layers = attempt([&] { return import_onnx(o.file, o.sample); });
  if (layers.ok()) return import_layers(o, *layers);
  if (layers.error().kind() == ErrorKind::differ || !o.sample.empty()) throw layers.error();
  const Result<Report> graph = attempt([&] { return import_graph(o, layers.error().what()); });
  if (graph.ok()) return *graph;
  throw Error(layers.error().kind(), "import",
              fmt::format("{}\nNor as a graph: {}", layers.error().what(), graph.error().what()));
}

}  // namespace unroll::cli
