// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/network/own_loop.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "frontends/python/binding/arrays.h"
#include "frontends/python/binding/collected.h"
#include "frontends/python/binding/errors.h"
#include "frontends/python/binding/one_at_a_time.h"
#include "unroll/model/network.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

Batch batch_of(Borrowed& borrowed) {
  Batch batch;
  batch.inputs = std::move(borrowed.tensors);
  return batch;
}

}  // namespace

template <class Work>
auto NetworkTrainer::alone(const Work& work) {
  const OneAtATime use(*used_, "layers.Trainer");
  const nb::gil_scoped_release release;
  return work();
}

NetworkTrainer::NetworkTrainer(LossNetwork functions, const nb::dict& example, const std::vector<std::string>& settings,
                               const nb::dict& parameters, const std::string& backend, int threads)
    : functions_(std::move(functions)) {
  Borrowed lent = borrowed_tensors(example);
  const TensorMap start = tensors_of(parameters);
  const nb::gil_scoped_release release;
  backend_ = make_backend(backend, {.threads = threads});
  TrainerOptions options = trainer_options(settings, [](const std::string& text) {
    const nb::gil_scoped_acquire lock;
    warn(text);
  });
  accumulate_ = options.accumulate;
  trainer_ = std::make_unique<Trainer>(make_task(batch_of(lent), network_with_loss(functions_)), *backend_,
                                       std::move(options));
  if (!start.empty()) trainer_->set_parameters(start);
}

nb::dict NetworkTrainer::update(const std::vector<nb::dict>& arrays, std::optional<double> lr) {
  std::vector<Borrowed> lent;
  for (const nb::dict& of_batch : arrays) lent.push_back(borrowed_tensors(of_batch));
  std::vector<Batch> batches;
  for (Borrowed& borrowed : lent) batches.push_back(batch_of(borrowed));
  const UpdateResult result = alone([&] { return trainer_->update(batches, lr); });
  nb::dict report;
  report["update"] = result.update;
  report["loss"] = result.loss;
  report["lr"] = result.lr;
  report["gradient_norm"] = result.gradient_norm;
  report["skipped"] = result.skipped;
  report["metrics"] = nb::cast(result.metrics);
  return report;
}

nb::dict NetworkTrainer::evaluate(const nb::dict& batch) {
  Borrowed lent = borrowed_tensors(batch);
  const EvaluateResult result = alone([&] { return trainer_->evaluate(batch_of(lent)); });
  nb::dict report;
  report["loss"] = result.loss;
  report["metrics"] = nb::cast(result.metrics);
  return report;
}

nb::dict NetworkTrainer::predict(const nb::dict& inputs) {
  Borrowed lent = borrowed_tensors(inputs);
  return arrays_of(alone([&] { return trainer_->predict(batch_of(lent)); }));
}

nb::dict NetworkTrainer::state_dict() {
  return arrays_of(alone([&] { return trainer_->parameters(); }));
}

void NetworkTrainer::load_state_dict(const nb::dict& parameters) {
  const TensorMap given = tensors_of(parameters);
  alone([&] { trainer_->set_parameters(given); });
}

void NetworkTrainer::save(const std::string& path) {
  alone([&] { trainer_->save(path); });
}

void NetworkTrainer::load(const std::string& path) {
  alone([&] { trainer_->load(path); });
}

void add_own_loop(nb::module_& module) {
  const auto collected = [](NetworkTrainer& t) {
    return std::vector{t.functions().network.get(), t.functions().loss.get()};
  };
  nb::class_<NetworkTrainer>(module, "_Trainer", nb::type_slots(collected_slots<NetworkTrainer>(collected)))
      .def("__init__",
           [](NetworkTrainer* self, const nb::object& network, const nb::object& loss,
              const std::vector<std::string>& inputs, const std::vector<std::string>& targets, const nb::dict& example,
              const std::vector<std::string>& settings, const nb::dict& parameters, const std::string& backend,
              int threads) {
             new (self) NetworkTrainer({shared(network), shared(loss), inputs, targets}, example, settings, parameters,
                                       backend, threads);
           }, "network"_a, "loss"_a, "inputs"_a, "targets"_a, "batch"_a, "settings"_a, "parameters"_a, "backend"_a,
              "threads"_a)
      .def("update", &NetworkTrainer::update, "batches"_a, "lr"_a.none())
      .def_prop_ro("accumulate", &NetworkTrainer::accumulate)
      .def("evaluate", &NetworkTrainer::evaluate, "batch"_a)
      .def("predict", &NetworkTrainer::predict, "inputs"_a)
      .def("state_dict", &NetworkTrainer::state_dict)
      .def("load_state_dict", &NetworkTrainer::load_state_dict, "parameters"_a)
      .def("save", &NetworkTrainer::save, "path"_a)
      .def("load", &NetworkTrainer::load, "path"_a)
      .def_prop_ro("updates", &NetworkTrainer::updates);
}

}  // namespace unroll::python
