// SPDX-License-Identifier: Apache-2.0
// State of the classes Model and Stream of the Python module. They release Python's lock while they compute.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/support/process/forked.h"
#include "frontends/python/binding/arrays.h"
#include "unroll/io/safetensors.h"
#include "unroll/model/stream.h"
#include "unroll/passes/backend.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/predict.h"

namespace unroll::python {

// Metadata key of a network of layer functions, whose function is not stored.
inline constexpr const char* k_network_key = "network";

// The backend of streams outlives the model.
struct StreamParts {
  std::shared_ptr<Backend> backend;
  Stream stream;
  DType input;
};

class OpenStream {
 public:
  explicit OpenStream(StreamParts parts);
  nanobind::object step(const nanobind::object& x, const nanobind::object& out);
  void reset(std::optional<std::int64_t> lane);
  nanobind::dict save() const;
  void restore(const nanobind::dict& state);
  OpenStream fork() const;
  std::int64_t lanes() const { return parts_.stream.lanes(); }
  std::int64_t chunk() const { return parts_.stream.chunk(); }
  std::int64_t inputs() const { return parts_.stream.inputs(); }
  std::int64_t outputs() const { return parts_.stream.outputs(); }

 private:
  StreamParts parts_;
  std::unique_ptr<UseFlag> used_ = std::make_unique<UseFlag>();
};

class LoadedModel {
 public:
  // `file` has the metadata of a task, or the parameters of `inference`.
  LoadedModel(TensorFile file, const std::string& backend, int threads, std::optional<Inference> inference = {});
  // Opens a run folder or a file.
  static LoadedModel open(std::string path, const std::string& backend, int threads);
  nanobind::dict run(const nanobind::dict& inputs);
  nanobind::list predict(const nanobind::object& inputs, std::int64_t top_k, std::int64_t steps, std::int64_t beam);
  std::string generate(const std::string& prompt, std::int64_t length, double temperature, std::int64_t top_k,
                       double top_p, std::uint64_t seed);
  // delay: steps that the output of a network of layer functions may wait for.
  OpenStream stream(std::int64_t lanes, std::int64_t chunk, const std::string& weights, std::int64_t delay);
  // The model without Python: with the graph of its network, which has one input and a batch of 1. network/deploy.cc
  TensorFile as_graph(std::int64_t delay) const;
  // Writes a C++ header NAME.h, NAME.safetensors, or a folder for the command.
  void deploy(const std::filesystem::path& path, std::int64_t delay) const;
  nanobind::dict state_dict() const { return arrays_of(file_.tensors); }
  void load_state_dict(const nanobind::dict& parameters);
  void save(const std::filesystem::path& path) const;
  // "" for networks of layer functions
  std::string task() const {
    return function || !file_.metadata.contains("task") ? "" : file_.metadata.at("task");
  }
  const std::map<std::string, std::string>& metadata() const { return file_.metadata; }
  const std::vector<TensorSpec>& inputs() const { return inference_.inputs; }
  const std::vector<TensorSpec>& outputs() const { return inference_.outputs; }
  const std::vector<std::string>& states() const { return inference_.states; }
  // The Python function that builds the network, if any. It may refer to the model, a cycle for Python's garbage
  // collector.
  std::shared_ptr<nanobind::object> function;

 private:
  void require_task(const char* what) const;
  void open_backends();
  void renew();  // in a forked child, if another thread used the model during the fork

  TensorFile file_;
  Inference inference_;
  std::string backend_name_;
  int threads_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Backend> for_streams_;
  std::unique_ptr<unroll::Model> model_;
  std::unique_ptr<Predictor> predictor_;  // from the first call of predict()
  std::unique_ptr<UseFlag> used_ = std::make_unique<UseFlag>();
};

}  // namespace unroll::python
