// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/evaluator.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/parallel/collectives.h"
#include "core/support/sum_tree.h"
#include "core/train/update/metrics.h"
#include "unroll/io/safetensors.h"

namespace unroll {

namespace {

std::string signature(const std::vector<NamedType>& list) {
  std::string text;
  for (const NamedType& n : list) text += n.name + ":" + n.type.text() + ";";
  return text;
}

// Joins the values of all ranks, one behind the other.
std::vector<float> joined(Communicator& ranks, std::span<const float> own) {
  std::vector<float> all;
  for (const ByteList& bytes : all_gather(ranks, std::as_bytes(own))) {
    if (bytes.empty()) continue;  // of a rank without batches
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

// In f64: sums of f32 counts over many batches would stop growing.
void add_to(TensorMap& sums, const std::string& name, const Tensor& count) {
  Tensor& sum = sums.try_emplace(name, Tensor(DType::f64, count.shape())).first->second;
  for (std::int64_t i = 0; i < count.elements(); ++i) sum.set(i, sum.at(i) + count.at(i));
}

// Counts are whole numbers, so their order does not matter.
TensorMap summed(Communicator& ranks, const TensorMap& own) {
  TensorMap sums;
  for (const ByteList& bytes : all_gather(ranks, safetensors_bytes({own, {}})))
    for (const auto& [name, tensor] : parse_safetensors(bytes, "counts of a rank").tensors) add_to(sums, name, tensor);
  return sums;
}

// The order in which the batches [first, end) of a split are evaluated: shard after shard, as states go from one batch
// of a shard to its next. Shares of ranks are contiguous.
class EvaluationOrder {
 public:
  // shards: 0 if the task carries no states.
  EvaluationOrder(std::int64_t first, std::int64_t end, std::int64_t shards) : first_(first) {
    const std::int64_t n = std::max<std::int64_t>(shards, 1);
    for (std::int64_t shard = 0; shard < n; ++shard) {
      begins_.push_back(size());
      for (std::int64_t i = first + (shard - first % n + n) % n; i < end; i += n) {
        if (shards == 0 && i > first) begins_.push_back(size());
        batches_.push_back(i);
      }
    }
    begins_.push_back(size());
  }
  std::int64_t n_shares() const { return std::ssize(begins_) - 1; }
  MicroBatches share(int rank, int ranks) const {
    const MicroBatches own = micro_batches_of(n_shares(), rank, ranks);
    return {begins_[own.begin], begins_[own.end]};
  }
  std::int64_t batch(std::int64_t at) const { return batches_[at]; }
  // Equally long reports in this order, in the order of the batches.
  std::vector<float> by_index(const std::vector<float>& reports) const {
    std::vector<float> sorted(reports.size());
    const std::int64_t length = batches_.empty() ? 0 : std::ssize(reports) / size();
    for (std::int64_t at = 0; at < size(); ++at)
      std::copy_n(reports.begin() + at * length, length, sorted.begin() + (batch(at) - first_) * length);
    return sorted;
  }

 private:
  std::int64_t size() const { return std::ssize(batches_); }
  std::int64_t first_;
  std::vector<std::int64_t> batches_, begins_;
};

}  // namespace

CompiledProgram Evaluator::compiled(const Batch& batch, ProgramKind kind) {
  const EvaluationGraph graph = kind == ProgramKind::prediction
                                    ? build_prediction(task_, batch)
                                    : build_evaluation(task_, batch, kind == ProgramKind::evaluation_with_counts);
  if (kind != ProgramKind::prediction) require_metrics(metrics_, graph.metrics);
  require_parameters(tensors_.parameters(), graph.parameters, batch);
  std::unique_ptr<DeviceTensors>& states = states_[signature(graph.buffers)];
  if (!states) states = std::make_unique<DeviceTensors>(programs_.backend());
  for (const NamedType& state : graph.buffers) states->add(state.name, state.type);
  const TensorSource sources[] = {{states.get()}, {&tensors_.carried(), average_name("")}, {&tensors_.parameters()}};
  return {.program = programs_.compile(*graph.graph, sources), .states = states.get()};
}

TensorMap Evaluator::run(const Batch& batch, ProgramKind kind) {
  const ProgramKey key{.kind = kind, .shapes = shapes_of(batch)};
  CompiledProgram& e = programs_.get(key, [&] { return compiled(batch, kind); });
  if (batch.starts_stream)
    for (const std::string& name : e.states->names()) e.states->clear(name);
  for (const auto& [name, tensor] : batch.inputs) e.program->set(name, tensor);
  e.program->run();
  return e.program->outputs();
}

EvaluateResult Evaluator::result_of(std::span<const float> reports) const {
  std::vector<double> sums(2 + n_sums(metrics_), 0.0);
  for (std::size_t i = 0; i < reports.size(); ++i) sums[i % sums.size()] += static_cast<double>(reports[i]);
  return {sums[1] == 0 ? 0 : sums[0] / sums[1], metric_values(metrics_, std::span(sums).subspan(2)), {}};
}

EvaluateResult Evaluator::evaluate(Split split, std::int64_t at_most, std::int64_t first, bool counts) {
  const std::int64_t shards = task_.evaluation_shards(split), n = task_.n_batches(split);
  const std::int64_t end = at_most > 0 ? std::min(first + at_most * shards, n) : n;
  const EvaluationOrder order(first, end, carries_ ? shards : 0);
  const bool shares = ranks_ && order.n_shares() > 1;
  const MicroBatches own = shares ? order.share(ranks_->rank(), ranks_->size()) : order.share(0, 1);
  std::vector<float> reports;
  TensorMap all_counts;
  const WorkStage before = stages_.now();
  for (std::int64_t at = own.begin; at < own.end; ++at) {
    stages_.tell({"evaluating", at - own.begin, own.size()});
    const TensorMap results = run(task_.batch(split, seed_, 0, order.batch(at)),
                                  counts ? ProgramKind::evaluation_with_counts : ProgramKind::evaluation);
    const auto report = results.at(k_report).values<float>();
    reports.insert(reports.end(), report.begin(), report.end());
    for (const auto& [name, tensor] : results)
      if (name.starts_with(k_count_prefix))
        add_to(all_counts, name.substr(std::string_view(k_count_prefix).size()), tensor);
  }
  stages_.tell(before);
  if (shares) {
    reports = joined(*ranks_, reports);
    all_counts = summed(*ranks_, all_counts);
  }
  EvaluateResult result = result_of(order.by_index(reports));
  result.counts = std::move(all_counts);
  return result;
}

EvaluateResult Evaluator::evaluate(std::span<const Batch> batches) {
  std::vector<float> reports;
  for (const Batch& batch : batches) {
    const TensorMap results = run(batch, ProgramKind::evaluation);
    const auto report = results.at(k_report).values<float>();
    reports.insert(reports.end(), report.begin(), report.end());
  }
  return result_of(reports);
}

TensorMap Evaluator::predict(const Batch& batch) {
  TensorMap outputs;
  for (auto& [name, tensor] : run(batch, ProgramKind::prediction))
    outputs.emplace(name.substr(std::string_view(k_output_prefix).size()), tensor);
  return outputs;
}

std::size_t Evaluator::state_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [types, set] : states_) bytes += set->bytes();
  return bytes;
}

}  // namespace unroll
