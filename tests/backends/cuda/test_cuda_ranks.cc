// SPDX-License-Identifier: Apache-2.0
// Several ranks on the cuda backend: sums over ranks by NCCL's messages, and what is lost. On the driver and the NCCL
// of the tests (tests/backends/cuda/shim), where ranks are threads; without them, tests say so.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "backends/cuda/driver/nccl.h"
#include "core/support/sum_tree.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/run_files.h"
#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/parallel/communicator.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

#if __has_include(<nccl.h>)  // what backends/cuda/driver/nccl.h declares is what NCCL does
#include <nccl.h>
static_assert(sizeof(ncclUniqueId) == sizeof(unroll::cuda::nccl::UniqueId));
static_assert(static_cast<int>(ncclInProgress) == static_cast<int>(unroll::cuda::nccl::Result::in_progress));
static_assert(static_cast<int>(ncclRemoteError) == static_cast<int>(unroll::cuda::nccl::Result::remote_error));
static_assert(static_cast<int>(ncclFloat32) == static_cast<int>(unroll::cuda::nccl::Type::float32));
static_assert(static_cast<int>(ncclFloat64) == static_cast<int>(unroll::cuda::nccl::Type::float64));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(unroll::cuda::nccl::Config, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(unroll::cuda::nccl::Config, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(unroll::cuda::nccl::Config, blocking));
#endif


namespace test_cuda_ranks {

using namespace unroll;
using namespace unroll::testing;

namespace {

// Entry points of the tests' NCCL; null on a machine with devices.
template <class F>
F* shim_function(const char* name) {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}
bool has_shim() {
  static const bool has = shim_function<int()>("unroll_shim_nccl_communicators") != nullptr;
  if (!has) std::printf("skipped: not on the driver of the tests\n");
  return has;
}
int communicators() { return shim_function<int()>("unroll_shim_nccl_communicators")(); }

// What `work` throws on each rank: its exit code and text; empty: nothing.
std::vector<std::string> on_ranks(int n, double seconds, const std::function<void(Communicator&)>& work) {
  const auto ranks = thread_ranks(n, seconds);
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      Communicator& rank = *ranks[static_cast<std::size_t>(r)];
      try {
        work(rank);
      } catch (const Error& e) {
        rank.fail(e.what());
        errors[static_cast<std::size_t>(r)] = std::to_string(exit_code(e.kind())) + " " + e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return errors;
}

std::unique_ptr<Backend> backend_of(Communicator& rank) { return make_backend("cuda", {.communicator = &rank}); }

float leaf_value(std::int64_t leaf, std::int64_t element) {
  return std::ldexp(std::sin(static_cast<float>(7 * leaf + element)), static_cast<int>((leaf * 5 + element) % 13));
}
// Adds values[begin, end) as sum_tree.h says.
Tensor added(const std::vector<Tensor>& values, const std::vector<SumStep>& steps) {
  std::vector<Tensor> sums = values;
  for (const SumStep& step : steps) {
    Tensor& left = sums[step.left];
    const Tensor& right = sums[step.right];
    for (std::int64_t i = 0; i < left.elements(); ++i)
      left.set(i, left.dtype() == DType::f32 ? static_cast<float>(left.at(i)) + static_cast<float>(right.at(i))
                                             : left.at(i) + right.at(i));
  }
  return sums[0];
}
Tensor block_value(DType dtype, const PartialSum& block, std::int64_t n) {
  std::vector<Tensor> leaves;
  std::vector<PartialSum> blocks;
  for (std::int64_t leaf = block.first; leaf < block.end(); ++leaf) {
    Tensor value(Type{dtype, {n}});
    for (std::int64_t i = 0; i < n; ++i) value.set(i, leaf_value(leaf, i));
    leaves.push_back(std::move(value));
    blocks.push_back({leaf, 1});
  }
  std::vector<std::size_t> places;
  return added(leaves, sum_halves(blocks, places));
}
Tensor wanted_sum(DType dtype, std::int64_t leaves, std::int64_t n) {
  std::vector<Tensor> values;
  const std::vector<PartialSum> roots = partial_sums_of({0, leaves});
  for (const PartialSum& root : roots) values.push_back(block_value(dtype, root, n));
  return added(values, sum_steps(roots));
}

// The sum that each rank gets, three times: the last ones with parts as captured graphs.
void check_sum(Communicator& rank, DType dtype, std::int64_t leaves, std::int64_t n, const Tensor& wanted,
               const std::function<void()>& before_last = {}) {
  const auto backend = backend_of(rank);
  Graph graph;
  std::vector<Value> blocks;
  TensorMap values;
  std::vector<PartialSum> own = partial_sums_before_last(micro_batches_of(leaves, rank.rank(), rank.size()));
  if (own.empty()) own.push_back({0, 1});  // of a rank without leaves: not added
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string name = "block" + std::to_string(i);
    blocks.push_back(graph.input(name, {dtype, {n}}));
    values.emplace(name, block_value(dtype, own[i], n));
  }
  graph.output("sum", all_reduce(blocks, leaves, rank.rank(), rank.size()));
  Program program(graph, *backend);
  for (int run = 0; run < 3; ++run) {
    if (run == 2 && before_last) before_last();
    const Tensor sum = program.run(values).at("sum");
    if (sum.bytes().size() != wanted.bytes().size() || !equal(sum.bytes(), wanted.bytes()))
      throw Error(ErrorKind::internal, "test", "the sum has other bits");
  }
}

class Pulled : public TinyTask {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    TaskGraph t;
    t.loss = sum(square(scope.parameter("w", x.shape(), Initializer::normal(1)) - x));
    return t;
  }
};

}  // namespace

TEST_CASE("sums over ranks of devices have the bits of one rank") {
  if (!has_shim()) return;
  struct Row {
    int ranks;
    std::int64_t leaves, elements;
    DType dtype;
  };
  const Row rows[] = {{2, 2, 5, DType::f32},   {2, 7, 1, DType::f64},  {3, 7, 100, DType::f32}, {4, 4, 999, DType::f32},
                      {6, 13, 50, DType::f32}, {8, 12, 3, DType::f64}, {5, 3, 40, DType::f32}};
  for (const Row& row : rows) {
    CAPTURE(row.ranks);
    CAPTURE(row.leaves);
    const Tensor wanted = wanted_sum(row.dtype, row.leaves, row.elements);
    const auto errors = on_ranks(row.ranks, 60, [&](Communicator& rank) {
      check_sum(rank, row.dtype, row.leaves, row.elements, wanted);
    });
    for (const std::string& error : errors) CHECK(error == "");
    CHECK(communicators() == 0);
  }
}

TEST_CASE("a run on devices has the same bits for any number of ranks") {
  if (!has_shim()) return;
  RunFiles alone;
  for (const int n : {1, 2, 3}) {
    CAPTURE(n);
    MemoryVfs vfs;
    const auto errors = on_ranks(n, 120, [&](Communicator& rank) {
      TrainerOptions o = small_training(4);
      o.accumulate = 3;  // of four batches: the last update of an epoch has one, and two ranks have none
      o.folder = "run";
      o.vfs = &vfs;
      o.schedule = {};
      const auto backend = backend_of(rank);
      Trainer(std::make_shared<Pulled>(), *backend, o).fit();
    });
    for (const std::string& error : errors) CHECK(error == "");
    const RunFiles files = files_of(vfs, "run");
    if (n == 1) alone = files;
    CHECK(difference(files, alone) == "");
  }
  CHECK(communicators() == 0);
}

TEST_CASE("NCCL that is missing or too old is named on every rank") {
  if (!has_shim()) return;
  const cuda::NcclLibraries real = cuda::nccl_libraries();
  for (const char*& name : cuda::nccl_libraries().names) name = "libnccl-absent.so";
  const auto open = [](Communicator& rank) { backend_of(rank); };
  for (const std::string& error : on_ranks(2, 5, open)) CHECK(error.find("no libnccl-absent.so") != std::string::npos);
  cuda::nccl_libraries() = real;
  setenv("UNROLL_SHIM_NCCL", "21305", 1);
  for (const std::string& error : on_ranks(2, 5, open))
    CHECK(error.find("NCCL has version 2.13; 2.14 is needed") != std::string::npos);
  unsetenv("UNROLL_SHIM_NCCL");
  CHECK(communicators() == 0);
}

TEST_CASE("an error of NCCL in the middle of an update ends all ranks") {
  if (!has_shim()) return;
  struct Row {
    int result;
    const char* code;
    const char* text;
  };
  for (const Row& row : {Row{6, "8 ", "the device of another rank, or the way to it"}, Row{3, "5 ", "failed"}}) {
    CAPTURE(row.result);
    const Tensor wanted = wanted_sum(DType::f32, 2, 5);
    const auto errors = on_ranks(2, 60, [&](Communicator& rank) {
      check_sum(rank, DType::f32, 2, 5, wanted, [&] {
        if (rank.rank() == 0) shim_function<void(int)>("unroll_shim_nccl_break")(row.result);
      });
    });
    int of_nccl = 0;  // a rank may hear of it from the other one
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK((error.starts_with(row.code) || error.starts_with("8 ")));
      of_nccl += error.find(row.text) != std::string::npos;
    }
    CHECK(of_nccl > 0);
    CHECK(communicators() == 0);
  }
}

TEST_CASE("a rank whose device does not take part is named after the time limit") {
  if (!has_shim()) return;
  const Tensor wanted = wanted_sum(DType::f32, 3, 50);
  const auto errors = on_ranks(3, 1, [&](Communicator& rank) {
    const auto backend = backend_of(rank);
    if (rank.rank() == 1) {  // it has gone, and says nothing
      std::this_thread::sleep_for(std::chrono::seconds(3));
      return;
    }
    Graph graph;
    const Value x = graph.input("x", {DType::f32, {50}});
    graph.output("sum", all_reduce(std::vector{x}, 3, rank.rank(), 3));
    Program(graph, *backend).run({{"x", Tensor(Type{DType::f32, {50}})}});
  });
  for (const int r : {0, 2}) {
    CAPTURE(errors[static_cast<std::size_t>(r)]);
    CHECK(errors[static_cast<std::size_t>(r)].starts_with("8 "));
    CHECK(errors[static_cast<std::size_t>(r)].find("rank 1") != std::string::npos);
  }
}

}  // namespace test_cuda_ranks
