// SPDX-License-Identifier: Apache-2.0
// Converts a config to the library's objects: model options, task, trainer options, backend, and the bare recurrent
// stack of `run`, `bench` and `inspect`. Shapes: T time, B batch, I input.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontends/config/config.h"
#include "unroll/data/data_check.h"
#include "unroll/model/model.h"
#include "unroll/passes/backend.h"
#include "unroll/tasks/tasks.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

RecurrentModelOptions model_options(const Config& config);
// data.path is relative to `folder`.
std::shared_ptr<const Task> make_task(const Config& config, const std::string& folder, const Metadata& fitted = {});
// Returns a line of Task::notes() or Task::warnings() for people: without the file's folder.
std::string without_folder(const std::string& line);
// Checks the task's data for common problems. Throws as make_task if the file is absent or the config is invalid.
DataCheck check_task_data(const Config& config, const std::string& folder);
TrainerOptions trainer_options(const Config& config);
// Returns the number of bytes in a text such as "2GiB": 2147483648; 0 for an empty text. Throws Error(usage), which
// names `who`, the key or option.
std::size_t bytes_of(const std::string& who, const std::string& text);
// Returns the folder for compiled kernels of backends: unroll in $XDG_CACHE_HOME, else in ~/.cache; empty: none.
std::string kernel_folder();
// With `predict` reports include predicted times, for which some backends measure the machine; other backends lack the
// option. 0 threads: the backend chooses.
std::unique_ptr<Backend> open_backend(const std::string& name, std::int64_t threads, bool predict = false,
                                      Trace* trace = nullptr, Communicator* ranks = nullptr);
// Opens the backend of the config's section [run], for one rank of `ranks`.
std::unique_ptr<Backend> open_backend(const Config& config, bool predict = false, Trace* trace = nullptr,
                                      Communicator* ranks = nullptr);

// A recurrent stack as one graph: inputs x [T,B,I], the initial states, optionally lengths, and the parameters.
struct RecurrentJob {
  std::shared_ptr<Graph> graph;
  std::vector<ParameterSpec> parameters;
  std::vector<std::string> state_names;  // recurrent_state_names: "h", "c"; inputs are "h0", outputs "hn"
  Value x;
  Value y;                       // [T,B,D*P]
  std::vector<Value> initial;    // [L*D,B,size], in the order of state_names
  std::vector<Value> final;
};
struct RecurrentSizes {
  std::int64_t steps = 1;
  std::int64_t batch = 1;
  std::int64_t input = 1;
  DType dtype = DType::f32;
  bool lengths = false;
};
// Returns the sizes of the config: model.input (or the embedding's width), data.steps, train.batch.
RecurrentSizes recurrent_sizes(const Config& config);
RecurrentJob build_recurrent(const RecurrentModelOptions& options, const RecurrentSizes& sizes);

// Returns a path relative to `folder`, or the path of data.path, data.validation or data.test relative to the config's
// `folder`. Throws Error(input_file) if the file is absent.
std::string data_path(const Config& config, std::string_view key, const std::string& folder);
std::string at_folder(const std::string& path, const std::string& folder);
// Returns the folder part of a path, "." if there is none.
std::string folder_of(const std::string& path);

}  // namespace unroll::cli
