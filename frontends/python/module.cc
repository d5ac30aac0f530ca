// SPDX-License-Identifier: Apache-2.0
// The Python module: trained models on NumPy arrays, for sequences or step by step, and predictions on raw data.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontends/checkpoint/read/checkpoint.h"
#include "frontends/python/binding/arrays.h"
#include "frontends/python/binding/calls.h"
#include "frontends/python/binding/collected.h"
#include "frontends/python/binding/errors.h"
#include "frontends/python/binding/forecast.h"
#include "frontends/python/binding/interruptible.h"
#include "frontends/python/binding/loaded_model.h"
#include "frontends/python/binding/training.h"
#include "frontends/python/network/layers.h"
#include "frontends/python/network/model.h"
#include "frontends/python/network/own_loop.h"
#include "frontends/python/network/training.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

void add_stream(nb::module_& module) {
  nb::class_<OpenStream>(module, "Stream",
                         "A model that runs one step, or a chunk of steps, per call and carries its state.")
      .def("step", &OpenStream::step, "x"_a, "out"_a = nb::none(),
           "Process x of shape [I] (one lane), [B, I] or [T, B, I]; ids have no last axis.\n"
           "Return y with the axes of x, [..., O]; nothing is copied for contiguous arrays of the model's dtype.\n"
           "`out` is a writable array of floats that receives y instead of a new one.")
      .def("reset", &OpenStream::reset, "lane"_a = nb::none(), "Set the state of a lane, or of all, to zero.")
      .def("save", &OpenStream::save, "Return the state as a dict of arrays.")
      .def("restore", &OpenStream::restore, "state"_a, "Replace the state by one that save() returned.")
      .def("fork", &OpenStream::fork, "Return a second stream in the same state. The weights are shared.")
      .def_prop_ro("lanes", &OpenStream::lanes, "Sequences that advance together, B.")
      .def_prop_ro("chunk", &OpenStream::chunk, "Steps of a chunk, T.")
      .def_prop_ro("inputs", &OpenStream::inputs, "Values of one step, I; 1 for ids.")
      .def_prop_ro("outputs", &OpenStream::outputs, "Values that a step returns, O.");
}

const std::string& predict_doc() {
  static const std::string doc = [] {
    std::string text = "Predict from raw inputs, one result for each, in the same order:";
    for (const auto& [task, form] : prediction_forms()) text += "\n  " + task + ": " + form;
    return text;
  }();
  return doc;
}
void add_model(nb::module_& module) {
  nb::class_<TensorSpec>(module, "TensorSpec", "Name, dtype and axes of an input or output.")
      .def_ro("name", &TensorSpec::name)
      .def_prop_ro("dtype", [](const TensorSpec& s) { return std::string(dtype_name(s.dtype)); })
      .def_prop_ro("axes",
                   [](const TensorSpec& s) {
                     nb::list axes;
                     for (const Axis& a : s.axes) {
                       if (a.letter.empty()) axes.append(a.size);
                       else axes.append(a.letter);
                     }
                     return nb::tuple(axes);
                   },
                   "A letter where each run chooses the size, else the size.")
      .def("__repr__", [](const TensorSpec& s) { return s.name + " " + s.text(); });
  const auto function_of = [](LoadedModel& model) { return std::vector{model.function.get()}; };
  nb::class_<LoadedModel>(module, "Model", nb::type_slots(collected_slots<LoadedModel>(function_of)),
                          "A trained model, or a network of layer functions.")
      .def("run", &LoadedModel::run, "inputs"_a,
           "Run whole sequences: a dict of arrays by name to a dict of arrays. Inputs that are states may be left out.")
      .def("predict", &LoadedModel::predict, "inputs"_a, "top_k"_a = 1, "steps"_a = 0, "beam"_a = 1,
           predict_doc().c_str())
      .def("generate", &LoadedModel::generate, "prompt"_a = "\n", "length"_a = 400, "temperature"_a = 0.8,
           "top_k"_a = 0, "top_p"_a = 1.0, "seed"_a = 0, "Sample text from a language model.")
      .def("stream", &LoadedModel::stream, "lanes"_a = 1, "chunk"_a = 1, "weights"_a = "f32",
           "delay"_a = 0,
           "Return a Stream. `weights` is f32, bf16 or int8. A network of layer functions has one input and one lane; "
           "its output may wait for `delay` further steps.")
      .def("export", &LoadedModel::deploy, "path"_a, "delay"_a = 0,
           "Write the model for use without Python: a C++17 header NAME.h that streams it, NAME.safetensors, or a "
           "folder, which `unroll run`, `unroll stream` and unroll.load open. `delay` as for stream.")
      .def("state_dict", &LoadedModel::state_dict, "Return copies of the parameters, by PyTorch's names.")
      .def("load_state_dict", &LoadedModel::load_state_dict, "parameters"_a,
           "Replace all parameters: a dict of arrays or tensors. Streams that are open keep the old ones.")
      .def("save", &LoadedModel::save, "path"_a, "Write the model as a safetensors file that load() reads.")
      .def_prop_ro("task", &LoadedModel::task)
      .def_prop_ro("metadata", &LoadedModel::metadata, "What training stored: vocabulary, labels, options.")
      .def_prop_ro("inputs", &LoadedModel::inputs)
      .def_prop_ro("outputs", &LoadedModel::outputs)
      .def_prop_ro("states", &LoadedModel::states, "Inputs that continue a sequence.");
}

void add_training(nb::module_& module) {
  const auto model_of = [](PythonRun& run) { return std::vector{&run.model}; };
  nb::class_<PythonRun>(module, "Run", nb::type_slots(collected_slots<PythonRun>(model_of)), "What train() returns.")
      .def_prop_ro("model", [](const PythonRun& run) { return run.model; }, nb::sig("def model(self) -> Model"),
                   "The trained model: of the best validation if a folder was written, else the last one.")
      .def_prop_ro("updates", [](const PythonRun& run) { return run.result.updates; })
      .def_prop_ro("seconds", [](const PythonRun& run) { return run.result.seconds; }, "From the first update.")
      .def_prop_ro("best_validation_loss", [](const PythonRun& run) { return run.result.best_validation_loss; })
      .def_prop_ro("last_validation_loss", [](const PythonRun& run) { return run.result.last_validation_loss; })
      .def_prop_ro("validation_metrics", [](const PythonRun& run) { return run.result.validation_metrics; },
                   "Of the best validation.")
      .def_prop_ro("interrupted", [](const PythonRun& run) { return run.result.interrupted; },
                   "Whether a callback or a limit ended the run early.");
  module.def("_train", [](const std::string& config, bool is_text, const std::vector<std::string>& settings,
                          const std::string& folder, bool resume, nb::object on_report) {
    return train({config, is_text, settings, folder, resume, std::move(on_report)});
  }, "config"_a, "is_text"_a, "settings"_a, "folder"_a, "resume"_a, "on_report"_a = nb::none());
  module.def("_build", [](const std::string& config, bool is_text, const std::vector<std::string>& settings) {
    return build({config, is_text, settings, {}, false, nb::none()});
  }, "config"_a, "is_text"_a, "settings"_a);
  module.def("_forecast", [](const std::string& config, const std::vector<std::string>& settings,
                             const std::vector<double>& levels) {
    return forecast({config, true, settings, {}, false, nb::none()}, levels);
  }, "config"_a, "settings"_a, "levels"_a);
  module.def("_backtest", [](const std::string& config, const std::vector<std::string>& settings, std::int64_t folds,
                             bool refit, const std::vector<double>& levels) {
    return backtest({config, true, settings, {}, false, nb::none()}, folds, refit, levels);
  }, "config"_a, "settings"_a, "folds"_a, "refit"_a, "levels"_a);
  module.def("_evaluate", [](const std::string& folder, const std::string& split,
                             const std::vector<std::string>& settings) {
    const Evaluation e = evaluate(folder, split, settings);
    nb::dict result;
    result["loss"] = e.loss;
    result["metrics"] = nb::cast(e.metrics);
    result["baselines"] = nb::cast(e.baselines);
    return result;
  }, "folder"_a, "split"_a, "settings"_a);
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("__version__") = UNROLL_VERSION;
  add_errors(module);
  add_stream(module);
  add_model(module);
  add_training(module);
  add_layers(module);
  add_network_model(module);
  add_network_training(module);
  add_own_loop(module);
  module.def("_addresses", [](const nb::dict& arrays) {
    const Borrowed borrowed = borrowed_tensors(arrays);
    nb::dict addresses;
    for (const auto& [name, tensor] : borrowed.tensors)
      addresses[name.c_str()] = reinterpret_cast<std::uintptr_t>(tensor.bytes().data());
    return addresses;
  }, "arrays"_a, "Where Model.run reads these arrays, for tests.");
  module.def("_load_model", [](const std::string& path) { return arrays_of(load_model(path).tensors); }, "path"_a);
  module.def("_load_arrays", [](const std::string& path) {
    TensorMap tensors;
    for (checkpoint::NamedTensor& each : checkpoint::load_checkpoint(path).tensors) {
      if (each.unusable) throw_error(*each.unusable);
      tensors.emplace(each.name, std::move(each.tensor));
    }
    return arrays_of(std::move(tensors));
  }, "path"_a);
  module.def("_load", [](const std::string& path, const std::string& backend, int threads) {
    return interruptible([&] { return LoadedModel::open(path, backend, threads); });
  }, "path"_a, "backend"_a, "threads"_a);
  name_wrong_arguments(module);
}

}  // namespace unroll::python
