// SPDX-License-Identifier: Apache-2.0
// Training, streams and comparisons on a backend that does everything late: the same bits as on one that does
// everything at once, and other ones, or an error, where a guarantee is broken.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "core/train/device/device_model.h"
#include "tests/support/late_backend.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/support/error.h"
#include "unroll/train/compare.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

std::unique_ptr<Backend> cpu() { return make_backend("cpu", {.threads = 2}); }

TrainerOptions in_folder(Vfs& vfs) {
  TrainerOptions o = small_training(23);  // a checkpoint every 6 updates
  o.optimizer.name = "adam";
  o.precision = Precision::f16;
  o.average = {.kind = Average::ema, .decay = 0.9, .start = 2};
  o.accumulate = 2;
  o.watch_every = 4;
  o.folder = "run";
  o.vfs = &vfs;
  return o;
}

const char* const k_files[] = {"run/last.safetensors", "run/best.safetensors", "run/metrics.jsonl"};

std::string files_of(MemoryVfs& vfs) {
  std::string all;
  for (const char* name : k_files) {
    const Bytes bytes = vfs.read(name, 1u << 24);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

std::string trained(Backend& backend, const std::function<void(TrainerOptions&)>& change = {}) {
  MemoryVfs vfs;
  TrainerOptions o = in_folder(vfs);
  if (change) change(o);
  Trainer(small_language_model(), backend, o).fit();
  return files_of(vfs);
}

const std::string& on_time() {
  static const std::string files = trained(*cpu());
  return files;
}

constexpr std::int64_t k_steps = 12, k_lanes = 3, k_inputs = 5;

// What a stream gives for each step, and the final states.
std::vector<float> streamed(Backend& backend) {
  const StreamModel model = recurrent_stream({.cell = "lstm", .hidden = 9, .layers = 2}, k_inputs);
  Graph graph;
  Scope scope(graph, false);
  std::vector<Value> states;
  for (const Shape& shape : model.state_shapes(k_lanes)) states.push_back(filled(graph, {DType::f32, shape}, 0));
  model.build(scope, graph.input("x", {DType::f32, {1, k_lanes, k_inputs}}), states);
  Stream stream(backend, model, initialize(scope.parameters(), 7), {.lanes = k_lanes});
  std::vector<float> all;
  for (std::int64_t t = 0; t < k_steps; ++t) {
    std::vector<float> x(k_lanes * k_inputs), y(k_lanes * static_cast<std::size_t>(stream.outputs()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(t + 1));
    if (t == 5) CHECK(stream.reset(1));
    CHECK(stream.step(x, y));
    all.insert(all.end(), y.begin(), y.end());
  }
  for (const auto& [name, tensor] : stream.fork().save())
    all.insert(all.end(), tensor.values<float>().begin(), tensor.values<float>().end());
  return all;
}

}  // namespace

TEST_CASE("training on a late backend writes the bytes of training on time, the estimate of the run included") {
  LateBackend late(cpu());
  CHECK((trained(late) == on_time()));
  CHECK((trained(late, [](TrainerOptions& o) { o.estimate_seconds = 0.3; }) == on_time()));
}

TEST_CASE("a run resumed on a late backend is the same, in every byte") {
  for (const bool late_first : {true, false}) {
    MemoryVfs vfs;
    TrainerOptions o = in_folder(vfs);
    o.stop_at = 13;
    const auto plain = cpu();
    LateBackend late(cpu());
    Backend& first = late_first ? static_cast<Backend&>(late) : *plain;
    Backend& second = late_first ? *plain : static_cast<Backend&>(late);
    Trainer(small_language_model(), first, o).fit();
    o.stop_at = 0;
    o.resume = true;
    Trainer(small_language_model(), second, o).fit();
    CHECK((files_of(vfs) == on_time()));
  }
  MemoryVfs vfs;
  LateBackend late(cpu());
  CHECK(verify_resume(small_language_model(), late, in_folder(vfs), 11, "check").differences.empty());
}

TEST_CASE("where a late backend breaks a guarantee, training writes other bytes") {
  for (const Broken broken : {Broken::upload_overtakes, Broken::download_overtakes, Broken::runs_swap}) {
    CAPTURE(static_cast<int>(broken));
    LateBackend late(cpu(), broken);
    std::string files;
    try {
      files = trained(late);
    } catch (const Error& error) {
      MESSAGE(error.what());  // numbers that make no sense may end the run
    }
    CHECK((files != on_time()));
  }
}

TEST_CASE("an error of a late run ends training with its kind, and the run resumes to the same bytes") {
  int ended = 0;
  for (const int n : {1, 2, 9, 30, 61}) {
    CAPTURE(n);
    MemoryVfs vfs;
    TrainerOptions o = in_folder(vfs);
    LateBackend late(cpu());
    try {
      Trainer trainer(small_language_model(), late, o);
      late.fail_run(n, Error(ErrorKind::device, "device", "was lost"));
      trainer.fit();
      FAIL("the error is lost");
    } catch (const Error& error) {
      ++ended;
      CHECK(error.kind() == ErrorKind::device);
      CHECK(std::string(error.what()).find("was lost") != std::string::npos);
    }
    o.resume = vfs.exists(k_files[0]);
    o.overwrite = !o.resume;
    Trainer(small_language_model(), late, o).fit();
    CHECK((files_of(vfs) == on_time()));
  }
  CHECK(ended == 5);
  LateBackend deaf(cpu(), Broken::loses_errors);
  deaf.fail_run(9, Error(ErrorKind::device, "device", "was lost"));
  CHECK((trained(deaf) != on_time()));
}

TEST_CASE("a stream on a late backend gives the bits of one on time, and others where a download overtakes") {
  const std::vector<float> wanted = streamed(*cpu());
  LateBackend late(cpu());
  CHECK(streamed(late) == wanted);
  LateBackend broken(cpu(), Broken::download_overtakes);
  CHECK(streamed(broken) != wanted);
}

TEST_CASE("a step whose run fails late says so, and can be repeated") {
  const StreamModel model = recurrent_stream({.cell = "gru", .hidden = 9}, k_inputs);
  Graph graph;
  Scope scope(graph, false);
  model.build(scope, graph.input("x", {DType::f32, {1, 1, k_inputs}}),
              std::vector<Value>{filled(graph, {DType::f32, model.state_shapes(1)[0]}, 0)});
  LateBackend late(cpu());
  Stream stream(late, model, initialize(scope.parameters(), 7)), whole = stream.fork();
  const std::vector<float> x(k_inputs, 0.5f);
  std::vector<float> y(9), wanted(9);
  for (int t = 0; t < 3; ++t) {
    CHECK(whole.step(x, wanted));
    late.fail_run(1, Error(ErrorKind::device, "device", "timed out"));
    CHECK_FALSE(stream.step(x, y));
    CHECK(stream.step(x, y));
    CHECK(y == wanted);
  }
}

TEST_CASE("a late backend agrees with one on time node by node, exactly") {
  const auto plain = cpu(), verifier = make_backend("reference");
  LateBackend late(cpu());
  Backend* const backends[] = {plain.get(), &late};
  CompareOptions options;
  options.updates = 2;
  options.nodes = true;
  const unroll::Comparison c = compare_task(*small_language_model(), backends, *verifier, options);
  REQUIRE(c.backends.size() == 2);
  REQUIRE(!c.backends[1].results.empty());
  for (const ResultCheck& r : c.backends[1].results) CHECK_MESSAGE(r.achieved == 0, r.name);
  CHECK(c.backends[1].nodes.nodes > 100);
  CHECK(!c.backends[1].nodes.fault);
  CHECK(c.backends[0].losses == c.backends[1].losses);
}
