// SPDX-License-Identifier: Apache-2.0
// What a run will take, before it: memory from plans, time from updates on trial that leave no trace.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "core/support/machine_memory.h"
#include "core/support/settling.h"
#include "core/train/loop/estimate.h"
#include "tests/support/around_backend.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/sanitizers.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

std::size_t part(const RunEstimate& e, const std::string& name) {
  for (const RunEstimate::Part& p : e.memory)
    if (p.name == name) return p.bytes;
  return 0;
}

// Of 1 to 60 words, so that most batches have a shape of their own.
std::string sentences_of_many_lengths() {
  std::string text;
  for (int i = 0; i < 160; ++i) {
    for (int word = 0; word <= i * 37 % 60; ++word) {
      text += static_cast<char>('a' + word * i % 7);
      text += word % 2 == 0 ? "\tA\n" : "\tB\n";
    }
    text += "\n";
  }
  return text;
}

// Its executables hold much memory and take 5 ms in their first 15 runs, as if two ways to run were tried, then 1 ms.
class SettlingBackend : public AroundBackend {
 public:
  static constexpr std::size_t k_first = std::size_t{64} << 20, k_settled = std::size_t{1} << 20;
  static constexpr int k_tries = 15, k_slow_ms = 5;
  using AroundBackend::AroundBackend;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    return std::make_unique<SettlingExecutable>(inner_.compile(plan));
  }

 private:
  class SettlingExecutable : public Executable, public Settling {
   public:
    explicit SettlingExecutable(std::unique_ptr<Executable> inner) : inner_(std::move(inner)) {}
    void run(const Bindings& bindings) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(settled() ? 1 : k_slow_ms));
      inner_->run(bindings);
      ++runs_;
    }
    std::vector<ReportLine> report() const override { return inner_->report(); }
    std::size_t workspace_bytes() const override { return settled() ? k_settled : k_first; }
    bool settled() const override { return runs_ >= k_tries; }

   private:
    std::unique_ptr<Executable> inner_;
    int runs_ = 0;
  };
};

// Counts what is copied from buffers; its inner backend lets the host read them, or this one does not.
class CopyCounter : public AroundBackend {
 public:
  CopyCounter(Backend& inner, bool lets_read) : AroundBackend(inner), lets_read_(lets_read) {}
  std::span<std::byte> host_bytes(Buffer& buffer) override {
    return lets_read_ ? inner_.host_bytes(buffer) : std::span<std::byte>{};
  }
  void download(const Buffer& from, std::size_t at, std::span<std::byte> to) override {
    copied += to.size();
    AroundBackend::download(from, at, to);
  }
  std::size_t copied = 0;

 private:
  const bool lets_read_;
};

RunEstimate estimate_of(const std::shared_ptr<const Task>& task, TrainerOptions o) {
  const auto backend = make_backend("cpu");
  RunEstimate seen;
  o.estimate_seconds = 0.5;
  o.estimated = [&](const RunEstimate& e) { seen = e; };
  Trainer(task, *backend, o).fit();
  return seen;
}

}  // namespace

TEST_CASE("updates on trial change no byte of a run, f16, averages, carried state and accumulation included") {
  std::string files[2];
  const auto backend = make_backend("cpu");
  for (const int trial : {0, 1}) {
    MemoryVfs vfs;
    TrainerOptions o = small_training(13);
    o.folder = "run";
    o.vfs = &vfs;
    o.precision = Precision::f16;
    o.average = {.kind = Average::ema, .decay = 0.9, .start = 2};
    o.accumulate = 2;
    o.estimate_seconds = trial;
    Trainer(small_language_model(), *backend, o).fit();
    for (const char* name : {"run/last.safetensors", "run/best.safetensors", "run/metrics.jsonl"}) {
      const Bytes bytes = vfs.read(name, 1u << 24);
      files[trial].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  CHECK((files[0] == files[1]));
}

TEST_CASE("a trial that is shorter than compiling times an update nevertheless") {
  TrainerOptions o = small_training(13);
  o.estimate_seconds = 1e-9;
  RunEstimate seen;
  o.estimated = [&](const RunEstimate& e) { seen = e; };
  const auto backend = make_backend("cpu");
  Trainer(small_language_model(), *backend, o).fit();
  CHECK(seen.update_seconds > 0);
}

TEST_CASE("a checkpoint is written from where parameters and slots lie, with the bytes of one written from a copy") {
  std::string files[2];
  std::size_t copied[2];
  const auto backend = make_backend("cpu");
  for (const bool lets_read : {false, true}) {
    MemoryVfs vfs;
    TrainerOptions o = small_training(1);
    o.folder = "run";
    o.vfs = &vfs;
    o.optimizer.name = "adam";
    o.estimate_seconds = 0;
    CopyCounter counter(*backend, lets_read);
    Trainer trainer(small_language_model(), counter, o);
    trainer.fit();
    counter.copied = 0;
    trainer.save("again.safetensors");
    copied[lets_read] = counter.copied;
    const Bytes bytes = vfs.read("again.safetensors", 1u << 24);
    files[lets_read].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  CHECK((files[0] == files[1]));
  CHECK(copied[false] > files[0].size() / 2);
  CHECK(copied[true] == 0);
}

TEST_CASE("memory is what the parts hold") {
  TrainerOptions o = small_training(60);
  o.optimizer.name = "adam";
  const auto task = small_language_model();
  const RunEstimate e = estimate_of(task, o);
  const auto backend = make_backend("cpu");
  std::size_t parameters = 0;
  for (const auto& [name, tensor] : Trainer(task, *backend, o).parameters()) parameters += tensor.bytes().size();
  CHECK(part(e, "parameters") == parameters);
  CHECK(part(e, "optimizer") == 2 * parameters);
  CHECK(part(e, "averages") == 0);
  CHECK(part(e, "arena") > 0);
  CHECK(e.saved_bytes > 0);
  CHECK(e.saved_bytes <= part(e, "arena"));
  std::size_t sum = 0;
  for (const RunEstimate::Part& p : e.memory) sum += p.bytes;
  CHECK(e.bytes == sum);
  CHECK(std::is_sorted(e.memory.begin(), e.memory.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; }));

  o.average.kind = Average::ema;
  CHECK(part(estimate_of(task, o), "averages") == parameters);
  LanguageModelOptions twice = small_language_options();
  twice.steps *= 2;
  const double longer = static_cast<double>(estimate_of(small_language_model(twice), o).saved_bytes);
  CHECK(longer == doctest::Approx(2.0 * static_cast<double>(e.saved_bytes)).epsilon(0.2));
}

TEST_CASE("programs that take turns in one arena are estimated with one, those of other backends with one each") {
  class Apart : public AroundBackend {  // says that it has none
   public:
    explicit Apart(Backend& inner) : AroundBackend(inner) { capabilities_.one_arena = false; }
  };
  LabelOptions options;
  options.batch = 4;
  options.model.hidden = 48;
  const auto task = make_label(options, sentences_of_many_lengths(), "sentences");
  const auto cpu = make_backend("cpu", {.threads = 1});
  REQUIRE(cpu->describe().one_arena);
  Apart apart(*cpu);
  const TrainerOptions o = small_training(10);
  DeviceModel together(task, *cpu, o), each(task, apart, o);
  std::size_t largest = 0, sum = 0;
  const auto arena_of = [](const DeviceModel& model) {
    for (const RunEstimate::Part& p : model.memory(0))
      if (p.name == "arena") return p.bytes;
    return std::size_t{0};
  };
  for (std::int64_t i = 0; i < 6; ++i) {
    const Batch batch = task->batch(Split::train, 0, 0, i);
    const std::size_t before = arena_of(each);
    together.compile_update(batch);
    each.compile_update(batch);
    largest = std::max(largest, arena_of(each) - before);
    sum = arena_of(each);
  }
  REQUIRE(together.programs().size() > 2);
  CHECK(arena_of(together) == largest);
  std::size_t apart_bytes = 0, together_bytes = 0;
  for (const ProgramInfo& info : each.programs().updates()) apart_bytes += info.bytes;
  for (const ProgramInfo& info : together.programs().updates()) {
    together_bytes += info.bytes;
    CHECK(info.arena <= largest);
  }
  CHECK(sum > 2 * largest);
  CHECK(apart_bytes - together_bytes == sum);

  // Before the run: no more than what the longest batches of all will need, and no less.
  TrainerOptions run = small_training(80);
  run.estimate_seconds = 0.1;
  RunEstimate e;
  run.estimated = [&](const RunEstimate& seen) { e = seen; };
  Trainer(task, *cpu, run).fit();
  DeviceModel all(task, *cpu, o);
  for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i)
    all.compile_update(task->batch(Split::train, 0, 0, i));
  CHECK(part(e, "arena") > arena_of(all) / 2);
  CHECK(part(e, "arena") < 2 * arena_of(all));
}

TEST_CASE("a workspace that shrinks during the trial is counted as it is at its end, and never as less than nothing") {
  class ShorterAtTheEnd : public TinyTask {  // a shape that the trial does not reach
   public:
    TaskGraph build(Scope& scope, const Batch& like) const override {
      const Value x = scope.graph().input("x", like.inputs.at("x").type());
      TaskGraph t;
      t.loss = sum(square(x - scope.parameter("w", Shape{1}, Initializer::normal(1))));
      return t;
    }
    std::int64_t n_batches(Split) const override { return 200; }
    Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t index) const override {
      Batch b;
      b.inputs.emplace("x", Tensor::filled({DType::f32, {index < 199 ? 4 : 3}}, 1));
      return b;
    }
  };
  const auto cpu = make_backend("cpu", {.threads = 1});
  SettlingBackend backend(*cpu);
  TrainerOptions o = small_training(400);  // of which the trial makes about 100
  o.validate_every = 0;
  o.machine_memory = std::size_t{4} << 30;
  o.estimate_seconds = 1;
  RunEstimate e;
  o.estimated = [&](const RunEstimate& seen) { e = seen; };
  const auto is_estimated = [&] { return e.updates > 0; };
  Trainer(std::make_shared<ShorterAtTheEnd>(), backend, o).fit({}, is_estimated);  // throws where it seems not to fit
  CHECK(part(e, "further shapes") >= SettlingBackend::k_settled * 3 / 4);
  CHECK(part(e, "further shapes") < 4 * SettlingBackend::k_first);
}

TEST_CASE("time is that of an update and of a validation, as often as the run makes them") {
  TrainerOptions o = small_training(62);  // validates every 5 and at the end
  const RunEstimate e = estimate_of(small_language_model(), o);
  CHECK(e.updates == 62);
  CHECK(e.validations == 13);
  CHECK(e.update_seconds > 0);
  CHECK(e.validation_seconds > 0);
  CHECK(e.seconds() == doctest::Approx(62 * e.update_seconds + 13 * e.validation_seconds + e.compile_seconds));
  o.stop_at = 21;
  const RunEstimate part_of_it = estimate_of(small_language_model(), o);
  CHECK(part_of_it.updates == 21);
  CHECK(part_of_it.validations == 4);
}

TEST_CASE("time and memory of a run of many shapes, few of which the trial meets, are within a factor of 2") {
  LabelOptions options;
  options.model.hidden = 48;
  options.batch = 4;
  const auto task = make_label(options, sentences_of_many_lengths(), "sentences");
  TrainerOptions o = small_training(80);
  o.validate_every = 20;
  const auto backend = make_backend("cpu", {.threads = 1});
  const auto within = [](double is, double estimated) { return is < 2 * estimated && estimated < 2 * is; };
  bool time_is_right = false;
  // The machine may do something else during one of them.
  for (int attempt = 0; attempt < 5 && !time_is_right; ++attempt) {
    RunEstimate e;
    o.estimate_seconds = 0.1;
    o.estimated = [&](const RunEstimate& seen) { e = seen; };
    const TrainResult result = Trainer(task, *backend, o).fit();
    CAPTURE(e.bytes);
    CAPTURE(peak_resident_memory());
    const bool size_is_right = within(static_cast<double>(peak_resident_memory()), static_cast<double>(e.bytes));
    if (k_keeps_freed_memory) MESSAGE("AddressSanitizer: the size of the process is not compared");
    else CHECK(size_is_right);
    CHECK(part(e, "further shapes") > part(e, "prepared weights and constants"));
    CAPTURE(result.seconds);
    CAPTURE(result.estimated_seconds);
    CHECK(e.compile_seconds > e.seconds() / 4);
    time_is_right = within(result.seconds, result.estimated_seconds);
  }
  CHECK(time_is_right);
}

TEST_CASE("a task whose batches are slow is estimated as slow") {
  class Slow : public TinyTask {
   public:
    Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(3)) {
      }
      return TinyTask::batch(split, seed, epoch, index);
    }
  };
  TrainerOptions o = small_training(400);
  o.stop_at = 60;
  o.prefetch = 0;
  CHECK(estimate_of(std::make_shared<Slow>(), o).update_seconds >= 0.003);
}

TEST_CASE("a run that does not fit is refused before its first update, with the largest consumers") {
  const auto backend = make_backend("cpu");
  TrainerOptions o = small_training(5);
  std::int64_t made = 0;
  const auto refused = [&](std::size_t machine, const char* says) {
    o.machine_memory = machine;
    try {
      Trainer(small_language_model(), *backend, o).fit([&](const Progress&) { ++made; });
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::memory);
      CAPTURE(e.what());
      CHECK(std::string(e.what()).find(says) != std::string::npos);
    }
  };
  refused(1000, "optimizer 5 KiB, parameters 3 KiB");  // before anything is allocated
  if (k_keeps_freed_memory) {
    MESSAGE("skipped: with AddressSanitizer two runs do not need the same memory");
    return;
  }
  o.log_every = 1;
  TrainerOptions any = o;
  any.machine_memory = 0;
  const RunEstimate e = estimate_of(small_language_model(), any);
  const std::size_t needed = e.bytes - part(e, "process");  // that is there already
  refused(needed / 2, "The largest: ");
  CHECK(made == 0);
  o.machine_memory = 4 * needed;
  Trainer(small_language_model(), *backend, o).fit([&](const Progress&) { ++made; });
  CHECK(made > 0);
}

TEST_CASE("a backend with memory of its own is estimated by that, the process beside it") {
  class OnDevice : public AroundBackend {
   public:
    OnDevice(Backend& inner, std::size_t bytes) : AroundBackend(inner) { capabilities_.memory_bytes = bytes; }
  };
  const auto cpu = make_backend("cpu", {.threads = 1});
  OnDevice large(*cpu, std::size_t{1} << 40), small(*cpu, 1000);
  TrainerOptions o = small_training(10);
  o.estimate_seconds = 0.1;
  RunEstimate host, device;
  o.estimated = [&](const RunEstimate& e) { host = e; };
  Trainer(small_language_model(), *cpu, o).fit();
  o.estimated = [&](const RunEstimate& e) { device = e; };
  Trainer(small_language_model(), large, o).fit();
  CHECK_FALSE(host.on_device);
  CHECK(device.on_device);
  CHECK(part(host, "process") > 0);
  CHECK(part(device, "process") == 0);
  CHECK(device.process_bytes >= part(host, "process") / 2);
  CHECK(part(device, "parameters") == part(host, "parameters"));
  CHECK(part(device, "batches ahead") == 0);
  CHECK_THROWS_WITH_AS(Trainer(small_language_model(), small, o).fit(),
                       doctest::Contains("the device has 1 KiB free"), Error);
}

TEST_CASE("the machine says how much memory is free") {
  const std::size_t free = free_memory();
  CHECK(free > (std::size_t{1} << 20));
  CHECK(free < (std::size_t{1} << 50));
}
