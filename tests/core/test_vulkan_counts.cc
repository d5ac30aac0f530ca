// SPDX-License-Identifier: Apache-2.0
// Dispatches of a time step and bytes moved by an update, counted from recordings, beside the least that the equations
// need: the figure of merit while no GPU is measured. bench/results/vulkan-counts.md has the printed table.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "core/train/update/update_graph.h"
#include "tests/core/vulkan_log.h"
#include "unroll/error.h"
#include "unroll/model.h"
#include "unroll/ops.h"

using namespace unroll;
using device::Touch;
using vulkan::Command;

namespace {

constexpr std::int64_t T = 100, B = 32;
constexpr double k_mib = 1 << 20;

// One layer of H units with inputs of H numbers, and the loss mean(y^2).
class LayerTask final : public Task {
 public:
  LayerTask(std::string cell, std::int64_t hidden) : cell_(std::move(cell)), hidden_(hidden) {}
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Value y = recurrent_model(scope, x, {.cell = cell_, .hidden = hidden_}).y;
    TaskGraph task;
    task.loss = mean(square(y));
    return task;
  }
  std::int64_t n_batches(Split) const override { return 1; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override {
    Batch batch;
    batch.inputs.emplace("x", Tensor(Type{DType::f32, {T, B, hidden_}}));
    return batch;
  }

 private:
  std::string cell_;
  std::int64_t hidden_;
};

// What each cell needs at least, as multiples of T B H and of H H numbers. One kernel computes all steps forward, one
// backward, and the weight gradients are products of their results; the products with x are computed where they are
// used, and weights are read once by each of the three. Adam reads parameter, gradient and two moments, writes three.
struct Least {
  const char* cell;
  int forward;   // x, what is saved for the gradient, y
  int backward;  // what was saved, y (the loss gives dy), gradients of the gates
  int weights;   // those gradients, x and h
  int gates;     // matrices of H H numbers, for x and for h each
  int steps_forward, steps_backward;  // dispatches of a step as they are now
};
constexpr Least k_least[] = {
    {"lstm", 1 + 5 + 1, 5 + 1 + 4, 4 + 2, 4, 1, 1},    // gates and c
    {"gru", 1 + 4 + 1, 4 + 1 + 4, 4 + 2, 3, 1, 3},     // r, z, n and U_n h + b; the gradient of n differs for x and h
    {"lnlstm", 1 + 9 + 1, 9 + 1 + 8, 8 + 2, 4, 2, 2},  // W x, U h and c before they are normalized
};
double least_bytes(const Least& least, std::int64_t H) {
  const auto states = static_cast<double>(T * B * H), matrix = static_cast<double>(H * H);
  const int matrices = least.gates * (2 + 1 + 2 + 2 * 7);  // forward, backward, gradients, Adam
  return 4 * (states * (least.forward + least.backward + least.weights) + matrix * matrices);
}

using Range = std::pair<std::size_t, std::size_t>;
// The bytes of ranges that may overlap.
std::size_t size_of(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::size_t bytes = 0, end = 0;
  for (const auto& [first, last] : ranges) {
    if (last > end) bytes += last - std::max(first, end);
    end = std::max(end, last);
  }
  return bytes;
}
std::size_t bytes_of(const std::vector<Touch>& touches, bool writes) {
  std::map<const void*, std::vector<Range>> by_memory;
  for (const Touch& t : touches)
    if (t.writes == writes) by_memory[t.memory].emplace_back(t.begin, t.end);
  std::size_t bytes = 0;
  for (const auto& [memory, ranges] : by_memory) bytes += size_of(ranges);
  return bytes;
}

struct Counted {
  int dispatches = 0, barriers = 0;
  std::vector<std::int64_t> steps;  // dispatches of a step, of each loop
  double bytes = 0;                 // every dispatch reads its operands and writes its results once
  double again = 0;                 // of them what a loop reads in every step: its weights
};

// Bytes that were read before in the same loop and not written since.
class Reads {
 public:
  double repeated(const std::vector<Touch>& touches) {
    double bytes = 0;
    for (const Touch& t : touches) {
      if (t.writes) {
        std::erase_if(seen_, [&](const Touch& s) {
          return s.memory == t.memory && s.begin < t.end && t.begin < s.end;
        });
        continue;
      }
      const bool is_known = std::any_of(seen_.begin(), seen_.end(), [&](const Touch& s) {
        return s.memory == t.memory && s.begin == t.begin && s.end == t.end;
      });
      if (is_known) bytes += static_cast<double>(t.end - t.begin);
      else seen_.push_back(t);
    }
    return bytes;
  }

 private:
  std::vector<Touch> seen_;
};

Counted count(const testing::Logged& logged) {
  Counted counted;
  std::map<const vulkan::NodeWork*, const void*> loops;
  for (const vulkan::NodeWork& work : logged.program.main->works) {
    if (!work.body) continue;
    counted.steps.push_back(vulkan::commands_per_step(*work.body));
    for (const vulkan::NodeWork& inner : work.body->works) loops[&inner] = work.body.get();
  }
  std::map<const void*, Reads> reads;
  int unit = -1;
  for (const Command& command : logged.commands) {
    if (command.is_barrier) {
      ++counted.barriers;
      continue;
    }
    if (command.unit == testing::k_uploads) continue;
    ++counted.dispatches;
    const std::vector<Touch>& touches = command.touches;
    counted.bytes += static_cast<double>(command.workspace_bytes);
    if (command.unit == unit) continue;  // of the same node
    unit = command.unit;
    counted.bytes += static_cast<double>(bytes_of(touches, false) + bytes_of(touches, true));
    if (const auto loop = loops.find(command.work); loop != loops.end())
      counted.again += reads[loop->second].repeated(touches);
  }
  return counted;
}

}  // namespace

TEST_CASE("dispatches of a step and bytes of an update, beside the least that the equations need") {
  std::unique_ptr<testing::Logger> logger;
  try {
    logger = std::make_unique<testing::Logger>(/*as_gpu=*/true);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    std::printf("skipped: %s\n", error.what());
    return;
  }
  std::printf("| cell | H | dispatches of a step, forward + backward | dispatches of an update | barriers | MiB moved "
              "| again in loops, MiB | least, MiB | moved once / least |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Least& least : k_least)
    for (const std::int64_t H : {256, 512}) {
      CAPTURE(least.cell);
      CAPTURE(H);
      const LayerTask task(least.cell, H);
      const UpdateRecipe recipe{TrainerOptions()};
      const Batch batch = task.batch(Split::train, 1, 0, 0);
      const Counted counted = count(logger->log(*build_update(task, batch, recipe, Phase::whole).graph));
      REQUIRE(counted.steps.size() == 2);
      const double once = counted.bytes - counted.again, needed = least_bytes(least, H);
      std::printf("| %s | %d | %d + %d | %d | %d | %.0f | %.0f | %.0f | %.2f |\n", least.cell, static_cast<int>(H),
                  static_cast<int>(counted.steps[0]), static_cast<int>(counted.steps[1]), counted.dispatches,
                  counted.barriers, counted.bytes / k_mib, counted.again / k_mib, needed / k_mib, once / needed);
      CHECK(counted.steps[0] == least.steps_forward);
      CHECK(counted.steps[1] == least.steps_backward);
      CHECK(once >= needed);  // otherwise the least is wrong
    }
}

TEST_CASE("bytes of overlapping ranges count once") {
  int a = 0, b = 0;
  CHECK(bytes_of({{&a, 0, 8, false}, {&a, 4, 12, false}, {&b, 0, 4, false}, {&a, 0, 100, true}}, false) == 16);
  Reads reads;
  CHECK(reads.repeated({{&a, 0, 8, false}, {&b, 0, 4, true}}) == 0);
  CHECK(reads.repeated({{&a, 0, 8, false}, {&b, 0, 4, false}}) == 8);
  CHECK(reads.repeated({{&b, 2, 6, true}, {&b, 0, 4, false}}) == 0);
}
