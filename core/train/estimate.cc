// SPDX-License-Identifier: Apache-2.0
#include "core/train/estimate.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr double k_share = 0.05;  // of the run that may go into its estimate

// The second evaluation of a batch: the first one compiles.
double validation_seconds(DeviceModel& model, std::int64_t batches) {
  model.evaluate(Split::validation, 1);
  const auto start = Clock::now();
  model.evaluate(Split::validation, 1);
  return seconds_since(start) * static_cast<double>(batches);
}

}  // namespace

std::string size_text(std::size_t bytes) {
  const bool small = bytes < std::size_t{10} << 20;
  const int shift = small ? 10 : 20;
  return std::to_string((bytes + (std::size_t{1} << shift) - 1) >> shift) + (small ? " KiB" : " MiB");
}

std::size_t constant_bytes(const Plan& plan) {
  std::size_t bytes = 0;
  for (const Node& node : plan.graph->nodes())
    if (node.op == Op::constant) bytes += node.outputs[0].bytes();
  return bytes;
}

std::size_t saved_values_bytes(const Plan& plan) {
  const Graph& graph = *plan.graph;
  const auto is_scan = [&](std::int32_t id) { return graph.node(id).op == Op::scan; };
  std::set<ValueId> saved;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::scan) continue;
    const bool reverse = scan_layout(node).reverse;
    for (const ValueId id : node.inputs)
      if (is_scan(id.node) && scan_layout(graph.node(id.node)).reverse != reverse &&
          plan.storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)].place == Storage::Place::arena)
        saved.insert(id);
  }
  std::size_t bytes = 0;
  for (const ValueId id : saved) bytes += graph.type(id).bytes();
  return bytes;
}

void require_memory(RunEstimate& e, std::size_t limit) {
  std::erase_if(e.memory, [](const RunEstimate::Part& part) { return part.bytes == 0; });
  std::stable_sort(e.memory.begin(), e.memory.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  e.bytes = 0;
  for (const RunEstimate::Part& part : e.memory) e.bytes += part.bytes;
  if (limit == 0 || e.bytes <= limit) return;
  constexpr std::size_t k_named = 4;
  std::string largest;
  for (std::size_t i = 0; i < std::min(e.memory.size(), k_named); ++i)
    largest += (i == 0 ? "" : ", ") + e.memory[i].name + " " + size_text(e.memory[i].bytes);
  throw Error(ErrorKind::memory, "trainer",
              "the run needs " + size_text(e.bytes) + "; the machine has " + size_text(limit) + " free. The largest: " +
                  largest,
              "Take a smaller model or batch, or fewer steps");
}

void try_updates(DeviceModel& model, const Trial& trial, RunEstimate& estimate) {
  const TensorMap parameters = model.parameters(), carried = model.carried();
  const auto start = Clock::now();
  std::vector<double> updates, batches;
  double allowed = trial.seconds;
  for (std::int64_t update = trial.first; update <= trial.last && seconds_since(start) < allowed; ++update) {
    if (trial.stop && trial.stop()) break;
    const std::size_t programs = model.n_programs();
    const auto before = Clock::now();
    const std::vector<Batch> now = trial.batches(update);
    const auto between = Clock::now();
    model.update(now, trial.inputs(update));
    model.totals();  // waits for the device
    if (model.n_programs() != programs) continue;
    batches.push_back(std::chrono::duration<double>(between - before).count());
    updates.push_back(seconds_since(between));
    const double run = static_cast<double>(trial.last - trial.first + 1) * median(updates);
    allowed = std::min(trial.seconds, k_share * run);
  }
  if (!updates.empty()) {
    const double update = median(updates), batch = median(batches);
    estimate.update_seconds = trial.prefetch > 0 ? std::max(update, batch) : update + batch;
    if (trial.validation_batches > 0) estimate.validation_seconds = validation_seconds(model, trial.validation_batches);
  }
  model.set_parameters(parameters, "before the trial");
  model.set_carried(carried, "before the trial");
}

}  // namespace unroll
