// SPDX-License-Identifier: Apache-2.0
// From a config to the library's objects: model options, task, trainer options, backend, and the bare recurrent
// stack that `run`, `bench` and `inspect` work on. Shapes: T time, B batch, I input.
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
// data.path counts from `folder`.
std::shared_ptr<const Task> make_task(const Config& config, const std::string& folder, const Metadata& fitted = {});
// A line of Task::notes() or Task::warnings() for a person: without the folder of the file.
std::string without_folder(const std::string& line);
// What is odd about its data; throws as make_task where there is no such file or the config is wrong.
DataCheck check_task_data(const Config& config, const std::string& folder);
TrainerOptions trainer_options(const Config& config);
// The number of bytes in a text such as "2GiB": 2147483648; 0 if the text is empty. Throws Error(usage) that names
// `who`, the key or option.
std::size_t bytes_of(const std::string& who, const std::string& text);
// Where backends keep compiled kernels between runs: unroll in $XDG_CACHE_HOME, else in ~/.cache; empty: nowhere.
std::string kernel_folder();
// With `predict` reports say what calls were predicted to take, for which some backends measure the machine; others
// do not know the option. 0 threads: as many as the backend chooses.
std::unique_ptr<Backend> open_backend(const std::string& name, std::int64_t threads, bool predict = false,
                                      Trace* trace = nullptr, Communicator* ranks = nullptr);
// The backend of the config's section [run], for one rank of `ranks`.
std::unique_ptr<Backend> open_backend(const Config& config, bool predict = false, Trace* trace = nullptr,
                                      Communicator* ranks = nullptr);

// A recurrent stack as one graph: inputs x [T,B,I], one initial state each, lengths when asked for, and the parameters.
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
// What the config says of them: model.input (or the embedding's width), data.steps, train.batch.
RecurrentSizes recurrent_sizes(const Config& config);
RecurrentJob build_recurrent(const RecurrentModelOptions& options, const RecurrentSizes& sizes);

// A path that counts from the folder.
// The path of data.path, data.validation or data.test, which starts at `folder`, that of the config. Throws
// Error(input_file) when there is no such file.
std::string data_path(const Config& config, std::string_view key, const std::string& folder);
std::string at_folder(const std::string& path, const std::string& folder);
// The folder part of a path, "." when there is none.
std::string folder_of(const std::string& path);

}  // namespace unroll::cli
