// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/loaded_model.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "frontends/python/one_at_a_time.h"
#include "unroll/error.h"
#include "unroll/run.h"
#include "unroll/predict.h"
#include "unroll/tasks.h"
#include "unroll/trainer.h"

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

struct Request {
  const TensorFile& file;
  Backend& backend;
  const nb::object& inputs;
  std::int64_t top_k, steps, beam;
};

std::vector<std::string> texts_of(const nb::object& inputs) {
  if (nb::isinstance<nb::str>(inputs))
    throw Error(ErrorKind::usage, "predict", "expected a list of texts, got one text", "Write model.predict([text])");
  return cast_to<std::vector<std::string>>(inputs, "predict", "a list of texts");
}

// Calls work() without Python's lock.
template <class Work>
auto released(const Work& work) {
  const nb::gil_scoped_release release;
  return work();
}

nb::list ranked(const std::vector<ScoredLabel>& labels) {
  nb::list list;
  for (const ScoredLabel& l : labels) list.append(nb::make_tuple(l.label, l.probability));
  return list;
}

// Numbers row by row, from lists or arrays of any dtype.
std::vector<std::vector<double>> rows_of(const nb::object& inputs) {
  std::vector<std::vector<double>> rows;
  for (const nb::handle row : inputs) {
    const std::string what = "inputs[" + std::to_string(rows.size()) + "]";
    using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
    const auto numbers = cast_to<Numbers>(contiguous_array(row, "float64", what), what, "numbers");
    rows.emplace_back(numbers.data(), numbers.data() + numbers.size());
  }
  return rows;
}

nb::list predict_classify(const Request& r) {
  const auto rows = rows_of(r.inputs);
  const auto results = released([&] {
    return Classifier(r.file.metadata, r.file.tensors, r.backend).predict(rows, r.top_k);
  });
  nb::list list;
  for (const auto& labels : results) list.append(ranked(labels));
  return list;
}

nb::list predict_forecast(const Request& r) {
  const auto histories = rows_of(r.inputs);
  std::int64_t series = 0;
  const auto results = released([&] {
    Forecaster forecaster(r.file.metadata, r.file.tensors, r.backend);
    series = static_cast<std::int64_t>(forecaster.columns().size());
    return forecaster.predict(histories, r.steps);
  });
  nb::list list;
  for (const auto& values : results)
    list.append(array_of(Tensor::from<double>({static_cast<std::int64_t>(values.size()) / series, series}, values)));
  return list;
}

nb::list predict_document(const Request& r) {
  const auto texts = texts_of(r.inputs);
  const auto results = released([&] {
    return DocumentReader(r.file.metadata, r.file.tensors, r.backend).predict(texts, r.top_k);
  });
  nb::list list;
  for (const auto& result : results) list.append(ranked(result.labels));
  return list;
}

nb::list predict_label(const Request& r) {
  Labeller labeller(r.file.metadata, r.file.tensors, r.backend);
  std::vector<Labeller::Sentence> sentences;
  for (const nb::handle line : r.inputs)
    sentences.push_back(nb::isinstance<nb::str>(line) ? labeller.cut(nb::cast<std::string>(line))
                                                      : cast_to<Labeller::Sentence>(line, "predict", "a text or a list "
                                                                                                     "of tokens"));
  const auto results = released([&] { return labeller.predict(sentences); });
  nb::list list;
  for (const auto& result : results) list.append(nb::cast(result.labels));
  return list;
}

nb::list predict_translate(const Request& r) {
  const auto lines = texts_of(r.inputs);
  const auto results = released([&] {
    return Translator(r.file.metadata, r.file.tensors, r.backend).predict(lines, {.beam = r.beam});
  });
  nb::list list;
  for (const auto& result : results) list.append(nb::cast(result.text));
  return list;
}

nb::list predict_summarize(const Request& r) {
  const auto texts = texts_of(r.inputs);
  const auto results = released([&] {
    return Summarizer(r.file.metadata, r.file.tensors, r.backend).predict(texts, {.beam = r.beam});
  });
  nb::list list;
  for (const auto& result : results)
    list.append(nb::cast(result.summaries.empty() ? std::string() : result.summaries[0].text));
  return list;
}

nb::list predict_language_model(const Request& r) {
  const auto lines = texts_of(r.inputs);
  const auto results =
      released([&] { return TextScorer(r.file.metadata, r.file.tensors, r.backend).predict(lines); });
  nb::list list;
  for (const auto& result : results) list.append(result.log_probability);
  return list;
}

struct Row {
  std::string_view task;
  nb::list (*predict)(const Request&);
};
constexpr Row k_tasks[] = {{"classify", predict_classify},   {"forecast", predict_forecast},
                           {"document", predict_document},   {"label", predict_label},
                           {"translate", predict_translate}, {"summarize", predict_summarize},
                           {"language_model", predict_language_model}};

}  // namespace

LoadedModel::LoadedModel(TensorFile file, const std::string& backend, int threads, std::optional<Inference> inference)
    : file_(std::move(file)), inference_(inference ? std::move(*inference) : task_inference(file_.metadata)),
      backend_(make_backend(backend, {.threads = threads})), for_streams_(make_backend(backend, {.threads = threads})),
      model_(std::make_unique<unroll::Model>(*backend_, inference_.network, file_.tensors)) {}

LoadedModel LoadedModel::open(std::string path, const std::string& backend, int threads) {
  if (std::filesystem::is_directory(path)) path += "/best.safetensors";
  TensorFile file = load_model(path);
  if (!file.metadata.contains("task"))
    throw Error(ErrorKind::input_file, path, "does not describe its network: there is no metadata 'task'",
                "Load a run folder, or a file that training wrote");
  return LoadedModel(std::move(file), backend, threads);
}

nb::dict LoadedModel::run(const nb::dict& inputs) {
  const OneAtATime use(*used_, "Model");
  Borrowed given = borrowed_tensors(inputs);
  given.tensors.merge(zero_states(inference_, given.tensors));
  return arrays_of(released([&] { return model_->run(given.tensors); }));
}

void LoadedModel::load_state_dict(const nb::dict& parameters) {
  const OneAtATime use(*used_, "Model");
  TensorMap tensors = tensors_of(parameters);
  check_same_parameters(file_.tensors, tensors);
  auto model = std::make_unique<unroll::Model>(*backend_, inference_.network, tensors);
  file_.tensors = std::move(tensors);
  model_ = std::move(model);
}

void LoadedModel::save(const std::filesystem::path& path) const { save_safetensors(path.string(), file_); }

nb::list LoadedModel::predict(const nb::object& inputs, std::int64_t top_k, std::int64_t steps, std::int64_t beam) {
  const OneAtATime use(*used_, "Model");
  for (const Row& row : k_tasks)
    if (row.task == task()) return row.predict({file_, *backend_, inputs, top_k, steps, beam});
  require_task("Model.predict");
  throw Error(ErrorKind::input_file, "Model.predict", "unknown task '" + task() + "'");
}

void LoadedModel::require_task(const char* what) const {
  if (task().empty())
    throw Error(ErrorKind::usage, what, "the model is a network of layer functions, without a task",
                "Use Model.run with arrays");
}

std::string LoadedModel::generate(const std::string& prompt, std::int64_t length, double temperature,
                                  std::int64_t top_k, double top_p, std::uint64_t seed) {
  const OneAtATime use(*used_, "Model");
  require_task("Model.generate");
  const GenerateOptions options{prompt, length, temperature, top_k, top_p, seed};
  std::string text;
  released([&] {
    unroll::generate(file_.metadata, file_.tensors, *backend_, options, [&](std::string_view token) { text += token; });
  });
  return text;
}

OpenStream LoadedModel::stream(std::int64_t lanes, std::int64_t chunk, const std::string& weights) {
  require_task("Model.stream");
  const StreamModel model = task_stream(file_.metadata);
  return OpenStream({for_streams_,
                     Stream(*for_streams_, model, file_.tensors,
                            {.lanes = lanes, .chunk = chunk, .weights = weight_format_from_name(weights)}),
                     model.input});
}

}  // namespace unroll::python
