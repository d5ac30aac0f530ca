// SPDX-License-Identifier: Apache-2.0
// Compiled programs of a model, one for each graph and shape of batch, bound to the model's tensors.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/nn/index_limits.h"
#include "core/train/device/device_tensors.h"
#include "core/train/update/update_graph.h"
#include "unroll/passes/run.h"
#include "unroll/train/trainer.h"

namespace unroll {

// Names and types of the inputs of a batch. Batches of one text run in one program.
std::string shapes_of(const Batch& batch);

// Reports the stages of the work to TrainerOptions::stage. A stage within another one ends by reporting the outer one.
class StageReporter {
 public:
  explicit StageReporter(StageReport report) : report_(std::move(report)) {}
  void tell(const WorkStage& stage) {
    now_ = stage;
    if (report_) report_(stage);
  }
  const WorkStage& now() const { return now_; }

 private:
  StageReport report_;
  WorkStage now_;
};

// Tensors that a program finds under their names without the prefix.
struct TensorSource {
  const DeviceTensors* tensors;
  std::string prefix = {};
};

// The options with every output donated the input of its name.
PlanOptions donating(const Graph& graph, PlanOptions options);

// A program bound once to named tensors: inputs and outputs are looked up in `sources`, in order. The others belong to
// the program; a run uploads only those inputs. An output named like an input overwrites it.
class BoundProgram {
 public:
  BoundProgram(const Graph& graph, std::span<const TensorSource> sources, Backend& backend, PlanOptions options);

  // Does nothing for a name the program does not read. Throws Error(usage) on an index out of range.
  void set(const std::string& name, const Tensor& tensor);
  // The buffer to read and write under this name from now on; does nothing for a name the program does not have.
  void bind(const std::string& name, Buffer* buffer);
  void run();
  const Program& program() const { return program_; }
  std::size_t own_bytes() const { return own_inputs_.bytes() + own_outputs_.bytes(); }
  TensorMap outputs() const { return own_outputs_.downloaded(); }  // of the last run, without those in `sources`

 private:
  Program program_;
  std::vector<IndexLimit> limits_;
  DeviceTensors own_inputs_, own_outputs_;
  Bindings bindings_;
};

enum class ProgramKind : std::uint8_t { update, sum, statistics, evaluation, evaluation_with_counts, prediction };

// Identifies a program of a model.
struct ProgramKey {
  ProgramKind kind = ProgramKind::update;
  Phase phase = Phase::whole;  // of updates and statistics
  std::string shapes = {};     // of the batch; empty if the program reads none
  std::int64_t number = 0;     // micro-batches of the update; of a sum, the place of its left operand
  auto operator<=>(const ProgramKey&) const = default;
};

struct CompiledProgram {
  std::unique_ptr<BoundProgram> program;
  DeviceTensors* states = nullptr;                   // read and replaced by evaluations
  std::vector<std::string> parameters = {}, loops = {};  // of statistics, in the order of the output's values
};

struct ProgramInfo {
  std::string shapes;  // of its batch
  std::size_t bytes;   // held for this program alone, now: a workspace shrinks when its schedule is chosen
  std::size_t arena;   // not part of `bytes` if programs share one arena
  bool settled;        // schedules are chosen
};

class TrainingPrograms {
 public:
  // memory: bytes that a program may need; 0: unknown.
  TrainingPrograms(Backend& backend, PlanOptions options, std::size_t memory, StageReporter& stages)
      : backend_(backend), options_(std::move(options)), memory_(memory), stages_(stages) {}

  // The program of the key. Calls build() the first time.
  template <class Build>
  CompiledProgram& get(const ProgramKey& key, const Build& build) {
    if (const auto at = programs_.find(key); at != programs_.end()) return at->second;
    return programs_.emplace(key, build()).first->second;
  }
  std::unique_ptr<BoundProgram> compile(const Graph& graph, std::span<const TensorSource> sources);

  Backend& backend() const { return backend_; }
  const PlanOptions& options() const { return options_; }
  std::size_t memory() const { return memory_; }
  bool on_device() const { return backend_.describe().memory_bytes > 0; }  // in memory that is not the host's
  // Programs that take turns share one arena, as large as the largest of them needs.
  bool one_arena() const { return backend_.describe().one_arena; }

  std::size_t size() const { return programs_.size(); }
  std::vector<ProgramInfo> updates() const;  // those that read a batch
  std::vector<ProgramInfo> evaluations() const;
  struct Bytes {
    std::size_t arena = 0, weights = 0, batches = 0;
    std::size_t largest_batch = 0, saved = 0;  // of one update
  };
  Bytes bytes() const;

 private:
  PlanOptions fitting(const Graph& graph) const;
  ProgramInfo info(const ProgramKey& key, const BoundProgram& program) const;

  Backend& backend_;
  PlanOptions options_;
  std::size_t memory_;
  StageReporter& stages_;
  std::map<ProgramKey, CompiledProgram> programs_;
};

// The programs of updates (update_graph.h). To compile one allocates the buffers that its graph needs.
class UpdatePrograms {
 public:
  UpdatePrograms(const Task& task, UpdateConfig config, TrainingPrograms& cache, ModelTensors& tensors)
      : task_(task), config_(std::move(config)), cache_(cache), tensors_(tensors) {}

  BoundProgram& get(Phase phase, const Batch& like, const UpdateShare& share);
  // Adds partial sum i + 1 to partial sum i.
  BoundProgram& sum(std::size_t i);
  CompiledProgram& statistics(Phase phase, const Batch& like, const UpdateShare& share);

  const UpdateConfig& config() const { return config_; }
  const std::vector<MetricLayout>& metrics() const { return metrics_.value(); }  // set by the first program
  const std::map<std::string, Type>& parts() const { return parts_; }            // of the sums, by name

 private:
  CompiledProgram compiled(Phase phase, const Batch& like, const UpdateShare& share);
  std::vector<TensorSource> sources() const {
    return {{&tensors_.parameters()}, {&tensors_.carried()}, {&tensors_.accumulated()}};
  }

  const Task& task_;
  UpdateConfig config_;
  TrainingPrograms& cache_;
  ModelTensors& tensors_;
  std::optional<std::vector<MetricLayout>> metrics_;
  std::map<std::string, Type> parts_;
};

// Throws Error(shape) if a batch asks for other parameters than the example did.
void require_parameters(const DeviceTensors& parameters, std::span<const ParameterSpec> wanted, const Batch& batch);
// Throws Error(usage) if metrics differ between batches: the sums of all batches are added up.
void require_metrics(const std::vector<MetricLayout>& wanted, const std::vector<MetricLayout>& got);

}  // namespace unroll
