// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/loaded_model.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <variant>

#include "core/support/files/paths.h"
#include "frontends/python/binding/interruptible.h"
#include "frontends/python/binding/one_at_a_time.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/predict.h"
#include "unroll/tasks/tasks.h"
#include "unroll/train/trainer.h"

namespace nb = nanobind;

namespace unroll::python {

namespace {

void check_same_parameters(const TensorMap& known, const TensorMap& given) {
  const auto refuse = [](const std::string& name, const std::string& what) {
    throw Error(ErrorKind::usage, "Model.load_state_dict", "'" + name + "' " + what,
                "Model.state_dict() has the names and shapes");
  };
  for (const auto& [name, tensor] : known) {
    const auto at = given.find(name);
    if (at == given.end()) refuse(name, tensor.type().text() + " is missing");
    if (at->second.type() != tensor.type())
      refuse(name, "is " + at->second.type().text() + ", expected " + tensor.type().text());
  }
  for (const auto& [name, tensor] : given)
    if (!known.contains(name)) refuse(name, "is no parameter of the model");
}

using PredictInputs = std::vector<PredictInput>;

void require_list(const nb::object& inputs, const std::string& of) {
  if (nb::isinstance<nb::str>(inputs))
    throw Error(ErrorKind::usage, "predict", "expected a list of " + of + ", got one text",
                "Write model.predict([text])");
  if (!nb::isinstance<nb::iterable>(inputs) || nb::isinstance<nb::dict>(inputs))
    throw Error(ErrorKind::type, "predict",
                "expected a list of " + of + ", got " + nb::type_name(inputs.type()).c_str());
}

PredictInputs texts_in(const nb::object& inputs) {
  require_list(inputs, "texts");
  const auto texts = cast_to<std::vector<std::string>>(inputs, "predict", "a list of texts");
  return {texts.begin(), texts.end()};
}

PredictInputs sentences_in(const nb::object& inputs) {
  require_list(inputs, "texts or lists of tokens");
  PredictInputs list;
  for (const nb::handle line : inputs) {
    if (nb::isinstance<nb::str>(line)) list.emplace_back(nb::cast<std::string>(line));
    else list.emplace_back(cast_to<std::vector<std::string>>(line, "predict", "a text or a list of tokens"));
  }
  return list;
}

// True for a NumPy array of one dimension or a list of numbers, instead of one of arrays.
bool is_one_series(const nb::object& inputs) {
  const bool is_array = nb::hasattr(inputs, "__array_interface__");
  if (!is_array && !nb::isinstance<nb::list>(inputs)) return false;
  if (nb::len(inputs) == 0) return false;
  const nb::object first = inputs[0];
  return nb::isinstance<nb::float_>(first) || nb::isinstance<nb::int_>(first) ||
         (is_array && nb::cast<int>(inputs.attr("ndim")) == 1 && !nb::hasattr(first, "__len__"));
}

// Reads numbers row by row, from lists or arrays of any dtype. `width`: numbers per step.
PredictInputs rows_in(const nb::object& inputs, std::int64_t width) {
  require_list(inputs, "arrays of numbers");
  PredictInputs rows;
  if (width == 1 && is_one_series(inputs)) {
    const auto numbers = dense<double>(inputs, "float64", "inputs");
    rows.emplace_back(std::vector<double>(numbers.data(), numbers.data() + numbers.size()));
    return rows;
  }
  for (const nb::handle row : inputs) {
    const std::string what = "inputs[" + std::to_string(rows.size()) + "]";
    const auto numbers = dense<double>(row, "float64", what);
    if (numbers.ndim() == 0)
      throw Error(ErrorKind::type, what, "expected an array of numbers, got one number",
                  "Write model.predict([numbers]): a list with an array for each prediction");
    if (numbers.ndim() > 1 && static_cast<std::int64_t>(numbers.shape(numbers.ndim() - 1)) != width)
      throw Error(ErrorKind::shape, what,
                  "expected [steps, " + std::to_string(width) + "], got " + shape_of(numbers).text());
    rows.emplace_back(std::vector<double>(numbers.data(), numbers.data() + numbers.size()));
  }
  return rows;
}

PredictInputs inputs_in(const nb::object& inputs, InputForm form, const Inference& inference) {
  if (form == InputForm::numbers) return rows_in(inputs, inference.inputs.at(0).axes.back().size);
  return form == InputForm::tokens ? sentences_in(inputs) : texts_in(inputs);
}

// Converts to Python objects: str, float, a list of str or of (label, probability), an array.
nb::object object_of(const std::string& text) { return nb::cast(text); }
nb::object object_of(double number) { return nb::cast(number); }
nb::object object_of(const std::vector<std::string>& labels) { return nb::cast(labels); }
nb::object object_of(const Tensor& numbers) { return array_of(numbers); }
nb::object object_of(const std::vector<ScoredLabel>& labels) {
  nb::list list;
  for (const ScoredLabel& l : labels) list.append(nb::make_tuple(l.label, l.probability));
  return list;
}

}  // namespace

LoadedModel::LoadedModel(TensorFile file, const std::string& backend, int threads, std::optional<Inference> inference)
    : file_(std::move(file)), inference_(inference ? std::move(*inference) : task_inference(file_.metadata)),
      backend_name_(backend), threads_(threads) {
  open_backends();
}

void LoadedModel::open_backends() {
  auto backend = make_backend(backend_name_, {.threads = threads_});
  auto for_streams = make_backend(backend_name_, {.threads = threads_});
  model_ = std::make_unique<unroll::Model>(*backend, inference_.network, file_.tensors);
  backend_ = std::move(backend);
  for_streams_ = std::move(for_streams);
}

// Leaks the objects of the other thread: their state is unknown, and their locks are never released.
void LoadedModel::renew() {
  static_cast<void>(model_.release());
  static_cast<void>(predictor_.release());
  static_cast<void>(backend_.release());
  open_backends();
}

LoadedModel LoadedModel::open(std::string path, const std::string& backend, int threads) {
  if (is_folder(path)) path += "/best.safetensors";
  TensorFile file = load_model(path);
  if (!file.metadata.contains("task"))
    throw Error(ErrorKind::input_file, path, "does not describe its network: there is no metadata 'task'",
                file.metadata.contains(k_network_key) ? "Call layers.model with the function that built the network"
                                                      : "Load a run folder, or a file that training wrote");
  return LoadedModel(std::move(file), backend, threads);
}

nb::dict LoadedModel::run(const nb::dict& inputs) {
  const OneAtATime use(*used_, "Model", [&] { renew(); });
  Borrowed given = borrowed_tensors(inputs);
  given.tensors.merge(zero_states(inference_, given.tensors));
  return arrays_of(interruptible([&] { return model_->run(given.tensors); }));
}

void LoadedModel::load_state_dict(const nb::dict& parameters) {
  const OneAtATime use(*used_, "Model", [&] { renew(); });
  TensorMap tensors = tensors_of(parameters);
  check_same_parameters(file_.tensors, tensors);
  auto model = std::make_unique<unroll::Model>(*backend_, inference_.network, tensors);
  file_.tensors = std::move(tensors);
  predictor_.reset();
  model_ = std::move(model);
}

void LoadedModel::save(const std::filesystem::path& path) const { save_safetensors(path.string(), file_); }

nb::list LoadedModel::predict(const nb::object& inputs, std::int64_t top_k, std::int64_t steps, std::int64_t beam) {
  const OneAtATime use(*used_, "Model", [&] { renew(); });
  require_task("Model.predict");
  if (!predictor_) predictor_ = interruptible([&] { return make_predictor(file_.metadata, file_.tensors, *backend_); });
  const PredictInputs given = inputs_in(inputs, predictor_->reads(), inference_);
  const auto predictions = interruptible([&] {
    return predictor_->predict(given, {.top_k = top_k, .steps = steps, .decode = {.beam = beam}});
  });
  nb::list list;
  for (const Prediction& prediction : predictions)
    list.append(std::visit([](const auto& one) { return object_of(one); }, prediction));
  return list;
}

void LoadedModel::require_task(const char* what) const {
  if (task().empty())
    throw Error(ErrorKind::usage, what, "the model is a network of layer functions, without a task",
                "Use Model.run with arrays");
}

std::string LoadedModel::generate(const std::string& prompt, std::int64_t length, double temperature,
                                  std::int64_t top_k, double top_p, std::uint64_t seed) {
  const OneAtATime use(*used_, "Model", [&] { renew(); });
  require_task("Model.generate");
  const GenerateOptions options{prompt, length, temperature, top_k, top_p, seed};
  std::string text;
  interruptible([&] {
    unroll::generate(file_.metadata, file_.tensors, *backend_, options, [&](std::string_view token) { text += token; });
  });
  return text;
}

OpenStream LoadedModel::stream(std::int64_t lanes, std::int64_t chunk, const std::string& weights,
                               std::int64_t delay) {
  const OneAtATime use(*used_, "Model", [&] { renew(); });
  const TensorFile file = as_graph(delay);
  const StreamModel model = task_stream(file.metadata);
  return OpenStream({for_streams_,
                     Stream(*for_streams_, model, file.tensors,
                            {.lanes = lanes, .chunk = chunk, .weights = weight_format_from_name(weights)}),
                     model.input});
}

}  // namespace unroll::python
