// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/network/training.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <variant>

#include "core/train/update/loss_weight.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/python/binding/arrays.h"
#include "frontends/python/network/deploy.h"
#include "frontends/python/binding/listener.h"
#include "frontends/python/network/model.h"
#include "frontends/python/network/value.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

const Tensor& first_tensor(const Field& field, const std::string& name) {
  if (const auto* tensor = std::get_if<Tensor>(&field)) return *tensor;
  const auto& sequences = std::get<std::vector<Tensor>>(field);
  if (sequences.empty()) throw Error(ErrorKind::usage, name, "there are no sequences");
  return sequences.front();
}

std::vector<std::int64_t> lengths_of(const Field& field) {
  std::vector<std::int64_t> lengths;
  for (const Tensor& sequence : std::get<std::vector<Tensor>>(field))
    lengths.push_back(sequence.shape().rank() > 0 ? sequence.shape()[0] : 0);
  return lengths;
}

// Returns the inputs of the trained network. Sequences of equal lengths share the letter of their axis.
std::vector<TensorSpec> specs_of(const Fields& fields, const std::vector<std::string>& inputs) {
  std::vector<TensorSpec> specs;
  std::vector<std::pair<std::vector<std::int64_t>, std::string>> letters;
  for (const std::string& name : inputs) {
    const Field& field = fields.at(name);
    const Tensor& like = first_tensor(field, name);
    TensorSpec spec{name, like.dtype(), {}};
    const bool are_sequences = std::holds_alternative<std::vector<Tensor>>(field);
    if (are_sequences) {
      std::vector<std::int64_t> lengths = lengths_of(field);
      auto known = std::find_if(letters.begin(), letters.end(), [&](const auto& l) { return l.first == lengths; });
      if (known == letters.end())
        known = letters.insert(known, {std::move(lengths), letters.empty() ? "T" : "T_" + name});
      spec.axes.push_back({known->second, 0});
    }
    spec.axes.push_back({"B", 0});
    for (int axis = 1; axis < like.shape().rank(); ++axis) spec.axes.push_back({"", like.shape()[axis]});
    specs.push_back(std::move(spec));
    if (are_sequences) specs.push_back({name + "_lengths", DType::i32, {{"B", 0}}});
  }
  return specs;
}

// Returns the number of sequences in a batch.
std::int64_t batch_of(const Inputs& inputs) {
  for (const auto& [name, value] : inputs.all())
    if (name.ends_with(".lengths") || !inputs.has(name + ".lengths")) return value.shape()[0];
  return 1;
}

MetricValue metric_of(const std::string& name, nb::handle given, const std::shared_ptr<Building>& at) {
  const std::string what = "metric '" + name + "'";
  if (nb::isinstance<nb::tuple>(given)) {
    const auto parts = nb::cast<nb::tuple>(given);
    if (parts.size() != 2) throw Error(ErrorKind::usage, "loss", what + " must be a value, or a sum and a count");
    return {name, sum(cast(value_of(parts[0], at, what), DType::f32)),
            sum(cast(value_of(parts[1], at, what), DType::f32))};
  }
  const Value value = value_of(given, at, what);
  return {name, sum(cast(value, DType::f32)),
          scalar(at->scope.graph(), DType::f32, static_cast<double>(value.shape().elements()))};
}

Value loss_of(nb::handle given, const std::shared_ptr<Building>& at, const std::string& what) {
  const Value loss = value_of(given, at, "the " + what);
  if (loss.rank() != 0)
    throw Error(ErrorKind::shape, what, "must return a scalar, got " + loss.type().text(), "Return layers.mean(loss)");
  return loss;
}

// Adds a value, or a sum and its count: a tuple whose second element is not a dict of metrics.
void add_loss(TaskGraph& graph, const nb::object& answer, const std::shared_ptr<Building>& at, std::int64_t batch) {
  nb::object loss = answer;
  const auto pair = [](const nb::object& given) {
    const auto parts = nb::cast<nb::tuple>(given);
    if (parts.size() != 2 || !(nb::isinstance<nb::dict>(parts[1]) || nb::isinstance<NetworkValue>(parts[1])))
      throw Error(ErrorKind::usage, "loss",
                  "must return a value, or a sum and a count, alone or with a dict of metrics");
    return std::pair<nb::object, nb::object>(parts[0], parts[1]);
  };
  if (nb::isinstance<nb::tuple>(loss) && nb::isinstance<nb::dict>(pair(loss).second)) {
    const auto [value, metrics] = pair(loss);
    for (const auto& [name, metric] : nb::cast<nb::dict>(metrics))
      graph.metrics.push_back(metric_of(cast_to<std::string>(name, "loss", "a name"), metric, at));
    loss = value;
  }
  if (nb::isinstance<nb::tuple>(loss)) {
    const auto [sum, count] = pair(loss);
    const Value n = cast(loss_of(count, at, "count of the loss"), DType::f32), none = scalar_like(n, 0);
    graph.loss = loss_of(sum, at, "sum of the loss") / select(equal(n, none), scalar_like(n, 1), n);
    graph.weight = n;
    return;
  }
  graph.loss = loss_of(loss, at, "loss");
  state_weight(at->scope, graph, scalar(at->scope.graph(), graph.loss.dtype(), static_cast<double>(batch)),
               /*are_means=*/true);
}

}  // namespace

Network network_with_loss(const LossNetwork& functions) {
  return [functions](Scope& scope, const Inputs& inputs) {
    return build_in_python(scope, inputs, [&](const std::shared_ptr<Building>& at, const nb::dict& named) {
      nb::dict given;
      for (const std::string& name : functions.inputs)
        for (const std::string& argument : {name, name + "_lengths"})
          if (named.contains(argument.c_str())) given[argument.c_str()] = named[argument.c_str()];
      const nb::object result = called(functions.network, given);
      TaskGraph graph = outputs_of(result, at);
      const bool has_targets = std::all_of(functions.targets.begin(), functions.targets.end(),
                                           [&](const std::string& name) { return inputs.has(name); });
      if (has_targets) add_loss(graph, called(functions.loss, result, named), at, batch_of(inputs));
      return graph;
    });
  };
}

TrainerOptions trainer_options(const std::vector<std::string>& settings,
                               const std::function<void(const std::string&)>& warn) {
  cli::Config config;
  for (const std::string& setting : settings) config.apply_setting(setting);
  using cli::k_owner;
  const std::array<const void*, 6> owners = {&k_owner<OptimizerOptions>, &k_owner<ScheduleOptions>,
                                             &k_owner<ClipOptions>,      &k_owner<AverageOptions>,
                                             &k_owner<LossScaleOptions>, &k_owner<TrainerOptions>};
  for (const cli::KeySpec& key : cli::config_schema()) {
    const bool is_read = std::any_of(key.fields.begin(), key.fields.end(), [&](const cli::KeyField& field) {
      return std::find(owners.begin(), owners.end(), field.owner) != owners.end();
    });
    if (!is_read && !config.is_default(key.path))
      config.refuse(key.path, "training of layer functions does not read this key",
                    "Data, batch and backend are arguments; docs/config.md has the keys of training");
  }
  TrainerOptions options = cli::trainer_options(config);
  options.estimate_seconds = 0;
  options.warn = warn;
  for (const std::string& line : config.settings_without_effect(cli::k_trained)) warn(line);
  return options;
}

namespace {

TensorDataset dataset_of(const NetworkTrainRequest& request) {
  if (request.validation.empty()) return TensorDataset(request.train, request.data);
  return {request.train, request.validation, {}, request.data};
}

FinishedRun train_with(const NetworkTrainRequest& request, Listener& listener) {
  TrainerOptions options =
      trainer_options(request.settings, [&](const std::string& text) { listener.warn(text); });
  options.folder = request.folder;
  options.resume = request.resume;
  const LossNetwork& functions = request.functions;
  BuiltNetwork built = build_network(functions.network, specs_of(request.train, functions.inputs));
  const auto backend = make_backend(request.backend, {.threads = request.threads});
  std::map<std::string, std::string> metadata = {{k_network_key, "layers"}};
  if (Result<Metadata> graph = attempt([&] { return graph_metadata_of(built.inference, 0); })) metadata.merge(*graph);
  const auto task = make_task(dataset_of(request), network_with_loss(functions), metadata);
  std::optional<cli::StartingRunFolder> folder;
  if (!request.folder.empty()) folder.emplace(request.folder, request.resume);
  Trainer trainer(task, *backend, std::move(options));
  if (!request.parameters.empty()) trainer.set_parameters(request.parameters);
  TrainResult result = listener.fit(trainer);
  if (folder) folder->keep();
  TensorFile file = folder ? load_model(request.folder + "/best.safetensors")
                           : TensorFile{trainer.parameters(), metadata};
  return {std::move(result), network_model(functions.network, std::move(built.inference), std::move(file),
                                           request.backend, request.threads)};
}

// Reads arrays whose first axis is the example, and lists of sequences [T, ...].
Fields fields_of(const nb::dict& arrays) {
  Fields fields;
  for (const auto& [key, value] : arrays) {
    const auto name = cast_to<std::string>(key, "layers.train", "a name");
    if (!nb::isinstance<nb::list>(value)) {
      fields.emplace(name, tensor_of(value, name));
      continue;
    }
    std::vector<Tensor> sequences;
    for (const nb::handle sequence : nb::cast<nb::list>(value))
      sequences.push_back(tensor_of(sequence, name + "[" + std::to_string(sequences.size()) + "]"));
    fields.emplace(name, std::move(sequences));
  }
  return fields;
}

}  // namespace

PythonRun train_network(const NetworkTrainRequest& request) {
  Listener listener(request.on_report);
  return listener.train<PythonRun>(request.folder, [&] { return train_with(request, listener); });
}

void add_network_training(nb::module_& module) {
  module.def("_train_network", [](const nb::object& network, const nb::object& loss,
                                  const std::vector<std::string>& inputs, const std::vector<std::string>& targets,
                                  const nb::dict& train, const nb::dict& validation,
                                  std::int64_t batch, double validation_share, std::int64_t pad_to_multiple,
                                  const std::vector<std::string>& settings, const nb::dict& parameters,
                                  const std::string& folder, bool resume, nb::object on_report,
                                  const std::string& backend, int threads) {
    NetworkTrainRequest request{.functions = {shared(network), shared(loss), inputs, targets},
                                .train = fields_of(train),
                                .validation = fields_of(validation),
                                .data = {.batch = batch, .validation = validation_share,
                                         .pad_to_multiple = pad_to_multiple},
                                .settings = settings,
                                .parameters = tensors_of(parameters),
                                .folder = folder,
                                .resume = resume,
                                .on_report = std::move(on_report),
                                .backend = backend,
                                .threads = threads};
    return train_network(request);
  }, "network"_a, "loss"_a, "inputs"_a, "targets"_a, "train"_a, "validation"_a, "batch"_a, "validation_share"_a,
             "pad_to_multiple"_a, "settings"_a, "parameters"_a, "folder"_a, "resume"_a, "on_report"_a.none(),
             "backend"_a, "threads"_a);
}

}  // namespace unroll::python
