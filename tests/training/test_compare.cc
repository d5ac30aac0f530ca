// SPDX-License-Identifier: Apache-2.0
// Comparing backends: models of every kind agree; a broken kernel is noticed and named; clean runs raise no alarm.
//   UNROLL_CLEAN_RUNS=1000 UNROLL_FAULTS=200 UNROLL_SEED=1 test_compare
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "core/train/update/control.h"
#include "core/train/verify/compare_run.h"
#include "core/train/verify/exposed_values.h"
#include "tests/support/backends.h"
#include "tests/support/failing_vfs.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/setting.h"
#include "tests/training/compare_models.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"
#include "unroll/train/compare.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

CompareOptions options_of(std::uint64_t seed, std::int64_t updates = 0) {
  CompareOptions o;
  o.gradients = true;
  o.updates = updates;
  o.timed_runs = 0;
  o.training.seed = seed;
  o.training.optimizer.lr = 1e-2;
  return o;
}

struct Backends {
  explicit Backends(std::vector<std::string> names) {
    for (const std::string& name : names) owned.push_back(make_backend(name, {.threads = 1}));
    for (const auto& backend : owned) list.push_back(backend.get());
  }
  std::vector<std::unique_ptr<Backend>> owned;
  std::vector<Backend*> list;
};
std::vector<std::string> all_backends() {
  std::vector<std::string> names = verified_backends();
  names.insert(names.begin(), "reference");
  return names;
}

double tightest(const BackendResult& r) {
  double ratio = r.nodes.tightest;
  for (const ResultCheck& c : r.results)
    if (c.achieved > 0) ratio = std::max(ratio, c.achieved / c.allowed);
  return ratio;
}

}  // namespace

TEST_CASE("twelve models agree on every backend in results, gradients and training") {
  const Backends backends(all_backends());
  for (const ComparedModel& model : compare_models()) {
    CAPTURE(model.name);
    const unroll::Comparison c = compare_task(*model.task, backends.list, *backends.list[0], options_of(1, 3));
    CHECK(c.agrees());
    for (const BackendResult& r : c.backends) {
      CAPTURE(r.backend);
      CHECK_MESSAGE(r.difference.empty(), r.difference);
      CHECK(r.losses.size() == 3);
      if (r.backend == "reference") continue;
      CHECK(r.nodes.nodes > 0);
      std::printf("%s on %s: %zu results, %lld nodes (%lld not verified), at most %.1f %% of the allowed error\n",
                  model.name.c_str(), r.backend.c_str(), r.results.size(), static_cast<long long>(r.nodes.nodes),
                  static_cast<long long>(r.nodes.unverified), 100 * tightest(r));
    }
  }
}

TEST_CASE("twelve models agree on cpu in 16 bits, also where numbers of f16 are denormal") {
  const Backends backends({"reference", "cpu"});
  for (const Precision precision : {Precision::bf16, Precision::f16})
    for (const ComparedModel& model : compare_models()) {
      CAPTURE(model.name);
      CAPTURE(precision_name(precision));
      CompareOptions options = options_of(1);
      options.training.precision = precision;
      const unroll::Comparison c = compare_task(*model.task, backends.list, *backends.list[0], options);
      CHECK_MESSAGE(c.backends[1].difference.empty(), c.backends[1].difference);
      CHECK(c.backends[1].nodes.nodes > 0);
    }
}

TEST_CASE("clean runs raise no alarm") {
  const Backends backends(all_backends());
  const std::vector<ComparedModel> models = compare_models();
  const std::uint64_t n = setting("UNROLL_CLEAN_RUNS", 12), seed = setting("UNROLL_SEED", 1);
  double worst = 0;
  std::uint64_t alarms = 0;
  for (std::uint64_t k = 0; k < n; ++k) {
    const ComparedModel& model = models[k % models.size()];
    CAPTURE(model.name);
    CAPTURE(k);
    const CompareOptions options = options_of(seed + k, k % 3);
    const unroll::Comparison c = compare_task(*model.task, backends.list, *backends.list[0], options);
    for (const BackendResult& r : c.backends) {
      CHECK_MESSAGE(r.difference.empty(), r.difference);
      worst = std::max(worst, tightest(r));
    }
    alarms += !c.agrees();
  }
  std::printf("%llu clean runs, %llu alarms, at most %.1f %% of the allowed error\n",
              static_cast<unsigned long long>(n), static_cast<unsigned long long>(alarms), 100 * worst);
  CHECK(alarms == 0);
}

// A node of the pass, or every other time of an update, whose plan the trainer's input tells apart. The element lies in
// the first row: of packed rows only the first ones are there.
KernelFault drawn_fault(const Task& task, Backend& backend, const CompareOptions& options, std::mt19937_64& random) {
  const Pass pass = build_pass(task, task.batch(Split::train, options.training.seed, 0, 0), options);
  UpdateLoop loop(task, backend, options, pass.inputs);
  const bool in_update = options.updates > 0;
  const auto graph = numbered(*lower(in_update ? loop.graph() : *pass.graph, backend));
  const std::vector<KernelFault> faults = possible_faults(*graph);
  KernelFault fault = faults[random() % faults.size()];
  const Graph* inside = graph.get();
  for (std::size_t k = 0; k + 1 < fault.path.size(); ++k) inside = inside->node(fault.path[k]).body.get();
  const Shape& shape = inside->type({fault.path.back(), fault.output}).shape;
  const auto row = static_cast<std::uint64_t>(shape.rank() > 0 ? shape[shape.rank() - 1] : 1);
  fault.element = static_cast<std::int64_t>(random() % row);
  if (in_update) fault.where = [](const Graph& plan) {
      const auto inputs = plan.inputs();
      return std::any_of(inputs.begin(), inputs.end(), [](const NamedValue& i) { return i.name == k_control; });
    };
  return fault;
}

struct Faults {
  std::uint64_t tried = 0, noticed = 0, named = 0;
};
Faults try_faults(const std::string& name, std::uint64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto verifier = make_backend("reference");
  const std::vector<ComparedModel> models = compare_models();
  Faults counts;
  for (std::uint64_t k = 0; k < n; ++k) {
    const ComparedModel& model = models[k % models.size()];
    const CompareOptions options = options_of(seed + k, (k + k / models.size()) % 2);
    auto inner = make_backend(name, {.threads = 1});
    const KernelFault fault = drawn_fault(*model.task, *inner, options, random);
    FaultyBackend faulty(std::move(inner), fault);
    Backend* const list[] = {verifier.get(), &faulty};
    const unroll::Comparison c = compare_task(*model.task, list, *verifier, options);
    const BackendResult& r = c.backends[1];
    const bool named = r.nodes.fault && r.nodes.fault->path == fault.path;
    ++counts.tried;
    counts.noticed += !c.agrees();
    counts.named += named;
    CHECK(faulty.n_faulty() > 0);
    if (!named)
      std::printf("%s, %s, fault %llu: %s\n", name.c_str(), model.name.c_str(), static_cast<unsigned long long>(k),
                  r.difference.empty() ? "not noticed" : r.difference.c_str());
  }
  return counts;
}

TEST_CASE("a named node is saved with its operands and gives the right result on its own") {
  const auto verifier = make_backend("reference");
  const ComparedModel model = compare_models()[2];
  std::mt19937_64 random(3);
  int replayed = 0;
  for (std::uint64_t k = 1; k <= 6; ++k) {
    auto inner = make_backend("cpu", {.threads = 1});
    const CompareOptions options = options_of(k);
    const KernelFault broken = drawn_fault(*model.task, *inner, options, random);
    FaultyBackend faulty(std::move(inner), broken);
    Backend* const list[] = {verifier.get(), &faulty};
    const unroll::Comparison c = compare_task(*model.task, list, *verifier, options);
    const auto& fault = c.backends[1].nodes.fault;
    REQUIRE(fault);
    if (!fault->graph) continue;
    ++replayed;
    MemoryVfs vfs;
    save_fault(*fault, "there", vfs);
    const Bytes text = vfs.read("there/node.txt", 1 << 20);
    const auto graph = parse_graph({reinterpret_cast<const char*>(text.data()), text.size()});
    const TensorFile file = load_safetensors("there/node.safetensors", vfs);
    CHECK(file.metadata.at("node") == fault->text());
    TensorMap inputs;
    for (const NamedValue& input : graph->inputs()) inputs.emplace(input.name, file.tensors.at(input.name));
    int wrong = 0;
    for (const auto& [name, tensor] : evaluate(*graph, *make_backend("cpu", {.threads = 1}), inputs))
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        wrong += std::abs(tensor.at(i) - file.tensors.at("got." + name).at(i)) >= 0.5;
    CHECK(wrong == 1);
  }
  CHECK(replayed > 0);
}

TEST_CASE("a wrong plan whose nodes are right is noticed and said to be that") {
  const auto verifier = make_backend("reference");
  const ComparedModel model = compare_models()[0];
  auto inner = make_backend("cpu", {.threads = 1});
  std::mt19937_64 random(1);
  KernelFault fault = drawn_fault(*model.task, *inner, options_of(1), random);
  fault.where = [](const Graph& plan) {  // not where values come out
    const auto outputs = plan.outputs();
    return std::none_of(outputs.begin(), outputs.end(),
                        [](const NamedValue& o) { return o.name.starts_with(k_exposed); });
  };
  FaultyBackend faulty(std::move(inner), fault);
  Backend* const list[] = {verifier.get(), &faulty};
  const unroll::Comparison c = compare_task(*model.task, list, *verifier, options_of(1));
  CHECK(!c.agrees());
  CHECK(!c.backends[1].nodes.fault);
  CHECK(c.backends[1].difference.find("Each node gives what it must of its operands") != std::string::npos);
}

TEST_CASE("whatever fails on the disk while a node is saved is an error") {
  NodeFault fault;
  fault.graph = std::make_shared<Graph>();
  for (const Fault kind : {Fault::disk_full, Fault::io_error})
    for (int i = 0;; ++i) {
      CAPTURE(i);
      MemoryVfs files;
      FailingVfs failing(files, i, kind);
      ErrorKind said = ErrorKind::internal;
      try {
        save_fault(fault, "there", failing);
      } catch (const Error& error) {
        said = error.kind();
      }
      if (!failing.fired()) break;
      CHECK((said == ErrorKind::storage || failing.failed() == "remove"));
    }
}

TEST_CASE("a broken kernel is noticed and its node is named") {
  for (const std::string& name : verified_backends()) {
    const Faults f = try_faults(name, setting("UNROLL_FAULTS", 12), setting("UNROLL_SEED", 1));
    std::printf("%s: of %llu faults %llu were noticed and %llu named right\n", name.c_str(),
                static_cast<unsigned long long>(f.tried), static_cast<unsigned long long>(f.noticed),
                static_cast<unsigned long long>(f.named));
    CHECK(f.noticed * 100 >= f.tried * 99);
    CHECK(f.named * 100 >= f.tried * 99);
  }
}
