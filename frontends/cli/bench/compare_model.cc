// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/bench/compare_model.h"


#include "core/support/files/paths.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/io/safetensors.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

class StackTask final : public Task {
 public:
  StackTask(RecurrentModelOptions model, const RecurrentSizes& sizes) : model_(std::move(model)), sizes_(sizes) {}

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const CellLayerResult result = recurrent_model(scope, x, model_);
    TaskGraph task{.loss = mean(square(result.y)), .weight = {}, .metrics = {}, .states = {}};
    task.outputs.emplace_back("y", result.y);
    const std::vector<std::string> names = recurrent_state_names(model_);
    for (std::size_t i = 0; i < names.size(); ++i) task.outputs.emplace_back(names[i] + "n", result.states[i]);
    return task;
  }
  std::int64_t n_batches(Split) const override { return std::int64_t{1} << 30; }
  Batch batch(Split, std::uint64_t seed, std::int64_t, std::int64_t index) const override {
    const ParameterSpec x{"x", {DType::f32, {sizes_.steps, sizes_.batch, sizes_.input}}, Initializer::uniform(1)};
    return {initialize(std::span(&x, 1), seed + static_cast<std::uint64_t>(index)), false};
  }

 private:
  RecurrentModelOptions model_;
  RecurrentSizes sizes_;
};

// A task for a fixed graph: nothing is trained.
class GraphTask final : public Task {
 public:
  GraphTask(std::shared_ptr<const Graph> graph, TensorMap inputs)
      : graph_(std::move(graph)), inputs_(std::move(inputs)) {}

  TaskGraph build(Scope& scope, const Batch&) const override {
    Graph& target = scope.graph();
    std::vector<Value> inputs;
    for (const NamedValue& input : graph_->inputs())
      inputs.push_back(target.input(input.name, graph_->type(input.value)));
    const std::vector<Value> results = inline_graph(target, *graph_, inputs);
    TaskGraph task{.loss = scalar(target, DType::f32, 0), .weight = {}, .metrics = {}, .states = {}};
    for (std::size_t k = 0; k < results.size(); ++k) task.outputs.emplace_back(graph_->outputs()[k].name, results[k]);
    return task;
  }
  std::int64_t n_batches(Split) const override { return 1; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override { return {inputs_, false}; }

 private:
  std::shared_ptr<const Graph> graph_;
  TensorMap inputs_;
};

CompareModel graph_model(const ComparedArguments& o) {
  const std::string text = read_graph_text(o.config);
  if (o.input.empty())
    throw Error(ErrorKind::usage, "compare", "a graph needs its inputs", "Name their file with --input");
  if (o.grad || o.updates > 0)
    throw Error(ErrorKind::usage, "compare", "a graph alone has neither parameters nor a loss",
                "Leave out --grad and --updates");
  std::shared_ptr<const Graph> graph = parse_graph(text);
  const TensorMap given = load_safetensors(o.input).tensors;
  TensorMap inputs;
  for (const NamedValue& input : graph->inputs()) {
    const Type& type = graph->type(input.value);
    const auto at = given.find(input.name);
    if (at == given.end() || at->second.type() != type)
      throw Error(ErrorKind::input_file, o.input,
                  "tensor '" + input.name + "' must be " + type.text() + "; " +
                      (at == given.end() ? "there is none" : "got " + at->second.type().text()));
    inputs.emplace(input.name, at->second);
  }
  return {std::make_shared<GraphTask>(std::move(graph), std::move(inputs)), {}, {}, {}};
}

// layers_alone: only the recurrent layers of a config with a task.
CompareModel config_model(const Config& config, const std::string& folder, const TensorFile* weights,
                          bool layers_alone = false) {
  CompareModel model{nullptr, {}, trainer_options(config), weights ? weights->tensors : TensorMap{},
                     config.text("run.backend"), static_cast<int>(config.integer("run.threads"))};
  if (!config.text("task.kind").empty() && !layers_alone) {
    model.task = make_task(config, folder, weights ? weights->metadata : Metadata{});
    return model;
  }
  model.stack = {model_options(config), recurrent_sizes(config)};
  model.task = stack_task(model.stack->model, model.stack->sizes);
  return model;
}

}  // namespace

std::shared_ptr<const Task> stack_task(const RecurrentModelOptions& model, const RecurrentSizes& sizes) {
  return std::make_shared<StackTask>(model, sizes);
}

CompareModel compare_model(const ComparedArguments& o) {
  const bool folder = is_folder(o.config);
  const bool config = o.config.ends_with(".toml");
  CompareModel model;
  if (folder || !o.weights.empty()) {
    const RunFolder run = open_run(o);
    model = config_model(run.config, run.folder, &run.model);
  } else {
    model = config ? config_model(load_config(o, o.config), folder_of(o.config), nullptr, !o.with.empty())
                   : graph_model(o);
  }
  if (!o.precision.empty()) model.training.precision = precision_from_name(o.precision);
  if (o.seed) model.training.seed = static_cast<std::uint64_t>(*o.seed);
  return model;
}

}  // namespace unroll::cli
