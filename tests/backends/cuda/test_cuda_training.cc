// SPDX-License-Identifier: Apache-2.0
// Trainings on cuda whose device or library fails: the exit code, the last checkpoint, and that a resumed run has the
// same bits; memory that is not there. On the driver of the tests (tests/backends/cuda/shim), or on a device.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/backends/cuda/cuda_hooks.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/or_skip.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"
#include "unroll/train/trainer.h"

namespace test_cuda_training {

using namespace unroll;
using namespace unroll::testing;
using namespace unroll::cuda_hooks;

namespace {

// An lstm by cuDNN and products by cuBLASLt, with little to compile.
class LayerTask final : public testing::TinyTask {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    const Type type{DType::f32, {}};
    const Value seen = scope.graph().input("state.seen", type);
    Scope inner = scope.child("rnn");
    const Value y = recurrent_model(inner, reshape(x, {2, 1, 1}), {.cell = "lstm", .hidden = 2}).y;
    const Value w = scope.parameter("out", {2, 1}, Initializer::normal(1));
    TaskGraph t;
    t.loss = sum(square(matmul(reshape(y, {2, 2}), w) - reshape(x, {2, 1}))) + seen * 0.01;
    t.states.push_back({"seen", type, seen, seen + sum(x)});
    return t;
  }
};

TrainerOptions training_in(Vfs& vfs, bool resume) {
  TrainerOptions options = testing::small_training(14);  // a checkpoint every 6 updates
  options.folder = "run";
  options.vfs = &vfs;
  options.resume = resume;
  options.overwrite = !resume;
  return options;
}
void train(Vfs& vfs, bool resume) {
  const auto backend = make_backend("cuda");
  Trainer(std::make_shared<LayerTask>(), *backend, training_in(vfs, resume)).fit();
}
std::string last_checkpoint(Vfs& vfs) {
  const Bytes bytes = vfs.read("run/last.safetensors", 1 << 24);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_there() { return testing::or_skip([] { return make_backend("cuda"); }) != nullptr; }

}  // namespace

// First: a call that fails to free memory, in the next test, leaves less of it.
TEST_CASE("too little memory is refused before the first update, and at run time it is said who holds it") {
  if (!is_there()) return;
  if (!contains(make_backend("cuda")->describe().device, "CUDA shim"))
    return void(std::printf("skipped: the memory of a device cannot be made smaller\n"));
  MemoryVfs vfs;
  setenv("UNROLL_SHIM_MEMORY", "2000", 1);
  std::string refused;
  try {
    train(vfs, false);
  } catch (const Error& error) {
    CHECK(exit_code(error.kind()) == 7);
    refused = error.what();
  }
  CAPTURE(refused);
  CHECK(contains(refused, "the limit is 2 KiB"));
  CHECK(contains(refused, "The largest: "));
  CHECK_FALSE(vfs.exists("run/last.safetensors"));
  unsetenv("UNROLL_SHIM_MEMORY");
  // Other programs may take memory while a run goes on.
  const auto backend = make_backend("cuda");
  const auto first = backend->allocate(std::size_t{3} << 20), second = backend->allocate(std::size_t{2} << 20);
  setenv("UNROLL_SHIM_MEMORY", "6000000", 1);
  try {
    backend->allocate(std::size_t{1} << 20);
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(exit_code(error.kind()) == 7);
    CAPTURE(std::string(error.what()));
    CHECK(contains(error.what(), "the device has no 1024 KiB for buffers"));
    CHECK(contains(error.what(), "this run holds: buffers 5120 KiB"));
  }
  unsetenv("UNROLL_SHIM_MEMORY");
}

TEST_CASE("a training whose device or library fails ends with exit code 5 or 7, and resumes to the same bytes") {
  if (!is_there()) return;
  constexpr int k_faults = 24;
  install_hooks();
  fault() = {};
  MemoryVfs whole;
  train(whole, false);
  const int calls = fault().calls;
  int thrown = 0, resumed = 0;
  for (int k = 0; k < k_faults; ++k) {
    MemoryVfs vfs;
    fault() = {0, calls * k / k_faults + k, k % 2 == 0, nullptr};
    CAPTURE(fault().due);
    try {
      train(vfs, false);
    } catch (const Error& error) {
      CAPTURE(std::string(error.what()));
      CAPTURE(fault().failed);
      CHECK(exit_code(error.kind()) == (k % 2 == 0 ? 7 : 5));
      ++thrown;
    }
    fault() = {};
    const bool has_checkpoint = vfs.exists("run/last.safetensors");
    train(vfs, has_checkpoint);
    resumed += has_checkpoint;
    CHECK(last_checkpoint(vfs) == last_checkpoint(whole));
  }
  std::printf("%d of %d calls of a training failed: %d errors, %d runs resumed from a checkpoint\n", k_faults, calls,
              thrown, resumed);
  CHECK(thrown > k_faults / 2);
  CHECK(resumed > 0);
  remove_hooks();
}

TEST_CASE("a kernel that faults in the middle of a training leaves its checkpoint, which resumes to the same bytes") {
  if (!is_there()) return;
  if (!contains(make_backend("cuda")->describe().device, "CUDA shim"))
    return void(std::printf("skipped: kernels of a device cannot be made to fail\n"));
  MemoryVfs whole, vfs;
  train(whole, false);
  {
    const auto backend = make_backend("cuda");
    Trainer trainer(std::make_shared<LayerTask>(), *backend, training_in(vfs, false));
    bool failed = false;
    try {
      trainer.fit([&](const Progress& progress) {
        if (progress.update >= 9) setenv("UNROLL_SHIM_FAULT", "1", 1);
      });
    } catch (const Error& error) {
      failed = exit_code(error.kind()) == 5 && contains(error.what(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    }
    CHECK(failed);
    CHECK_THROWS_AS(backend->allocate(4), Error);  // the error stays, until nobody uses the device
  }
  unsetenv("UNROLL_SHIM_FAULT");
  REQUIRE(vfs.exists("run/last.safetensors"));
  CHECK(last_checkpoint(vfs) != last_checkpoint(whole));
  train(vfs, true);
  CHECK(last_checkpoint(vfs) == last_checkpoint(whole));
}

}  // namespace test_cuda_training
