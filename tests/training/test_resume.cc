// SPDX-License-Identifier: Apache-2.0
// Kept checkpoints, limits of time, and the check that a resumed run is the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/support/failing_vfs.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/temp_folder.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

TrainerOptions in_folder(Vfs& vfs, bool resume, std::int64_t keep) {
  TrainerOptions o = small_training(23);  // a checkpoint every 6 updates
  o.folder = "run";
  o.vfs = &vfs;
  o.resume = resume;
  o.keep = keep;
  return o;
}

TrainResult run(const TrainerOptions& o) {
  const auto backend = make_backend("reference");
  return Trainer(std::make_shared<TinyTask>(), *backend, o).fit();
}

std::vector<std::string> checkpoints(Vfs& vfs) {
  std::vector<std::string> names;
  for (const std::string& name : vfs.list("run"))
    if (name.starts_with("checkpoint-")) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string content(Vfs& vfs, const std::string& name) {
  const Bytes bytes = vfs.read("run/" + name, 1u << 24);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void damage(Vfs& vfs, const std::string& name) {
  std::string bytes = content(vfs, name);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  vfs.remove("run/" + name);
  const auto out = vfs.create("run/" + name);
  out->write(std::as_bytes(std::span(bytes.data(), bytes.size())));
  out->close();
}

// Batches depend on how many were made before: against the contract.
class Forgetful : public TinyTask {
 public:
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    Batch b = TinyTask::batch(split, seed, epoch, index);
    if (split == Split::train && epoch + index > 0)
      b.inputs.at("x").values<float>()[0] += 0.01F * static_cast<float>(++made_);
    return b;
  }

 private:
  mutable int made_ = 0;
};

const std::vector<std::string> k_last_two = {"checkpoint-18.safetensors", "checkpoint-23.safetensors"};

}  // namespace

TEST_CASE("the last checkpoints stay, each as it was, and older ones go") {
  MemoryVfs vfs;
  run(in_folder(vfs, false, 2));
  CHECK(checkpoints(vfs) == k_last_two);
  CHECK(content(vfs, "checkpoint-23.safetensors") == content(vfs, "last.safetensors"));
  CHECK(load_safetensors("run/checkpoint-18.safetensors", vfs).metadata.at("trainer.update") == "18");
  CHECK(load_model("run/checkpoint-18.safetensors", vfs).tensors.size() == 1);

  TrainerOptions again = in_folder(vfs, false, 0);
  again.overwrite = true;
  run(again);
  CHECK(checkpoints(vfs).empty());
}

TEST_CASE("without a whole last checkpoint the newest kept one is resumed, to the same bytes") {
  MemoryVfs whole;
  run(in_folder(whole, false, 3));
  for (const bool damaged : {true, false}) {
    MemoryVfs vfs;
    TrainerOptions o = in_folder(vfs, false, 3);
    o.stop_at = 19;
    run(o);
    CHECK(checkpoints(vfs).size() == 3);  // 12, 18, 19
    if (damaged) {
      damage(vfs, "last.safetensors");
      damage(vfs, "checkpoint-19.safetensors");
    } else {
      vfs.remove("run/last.safetensors");
    }
    std::vector<std::string> warnings;
    o = in_folder(vfs, true, 3);
    o.warn = [&](const std::string& text) { warnings.push_back(text); };
    run(o);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find(damaged ? "Going on from run/checkpoint-18" : "Going on from run/checkpoint-19") !=
          std::string::npos);
    for (const char* name : {"last.safetensors", "best.safetensors", "metrics.jsonl"})
      CHECK(content(vfs, name) == content(whole, name));
  }
}

TEST_CASE("when nothing whole is left the first file's error is told") {
  MemoryVfs vfs;
  run(in_folder(vfs, false, 1));
  damage(vfs, "last.safetensors");
  damage(vfs, "checkpoint-23.safetensors");
  CHECK_THROWS_WITH_AS(run(in_folder(vfs, true, 1)), doctest::Contains("last.safetensors] is damaged"), Error);
}

TEST_CASE("a checkpoint that cannot be kept is a warning, and the run ends well") {
  int warned = 0;
  for (int at = 0;; ++at) {
    MemoryVfs vfs;
    FailingVfs failing(vfs, at, Fault::disk_full);
    TrainerOptions o = in_folder(failing, false, 1);
    int n = 0;
    o.warn = [&](const std::string&) { ++n; };
    try {
      run(o);
      if (failing.failed() == "link") warned += n == 1;
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::storage);
      CHECK(failing.failed() != "link");
    }
    if (!failing.fired()) break;
  }
  CHECK(warned == 4);  // saves after updates 6, 12, 18 and 23
}

TEST_CASE("a folder on disk has the same kept checkpoints, without a second copy") {
  TempFolder folder;
  TrainerOptions o = in_folder(disk(), false, 2);
  o.folder = folder.path();
  run(o);
  std::vector<std::string> names = disk().list(folder.path());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"best.safetensors", k_last_two[0], k_last_two[1], "last.safetensors",
                                          "metrics.jsonl"});
  CHECK(std::filesystem::hard_link_count(folder.path() + "/last.safetensors") == 2);
}

TEST_CASE("a plateau that began before a stop lowers the rate after the resume as it would have") {
  // Nothing is learnt: after the first validation none is better, and every third of the others lowers the rate.
  const auto still = [](Vfs& vfs) {
    TrainerOptions o = in_folder(vfs, false, 0);
    o.optimizer.lr = 1e-30;
    o.schedule = {.name = "plateau", .plateau_patience = 3};
    o.validate_every = 2;
    o.log_every = 1;
    return o;
  };
  MemoryVfs whole, parts;
  run(still(whole));
  CHECK(load_safetensors("run/last.safetensors", whole).metadata.at("trainer.plateaus") != "0");
  TrainerOptions o = still(parts);
  for (const std::int64_t stop : {3, 5, 6, 7, 9, 12, 23}) {
    o.stop_at = stop;
    run(o);
    o.resume = true;
  }
  for (const char* name : {"last.safetensors", "metrics.jsonl"}) CHECK(content(parts, name) == content(whole, name));
}

TEST_CASE("a run in slices of time leaves the same bytes as one without a limit") {
  MemoryVfs whole, sliced;
  const TrainResult straight = run(in_folder(whole, false, 0));
  CHECK_FALSE(straight.out_of_time);
  TrainerOptions o = in_folder(sliced, false, 0);
  o.max_minutes = 1e-12;
  for (int i = 1; i < 23; ++i) {
    const TrainResult r = run(o);
    CHECK(r.updates == i);
    CHECK(r.out_of_time);
    o.resume = true;
  }
  o.max_minutes = 60;
  CHECK_FALSE(run(o).out_of_time);
  for (const char* name : {"last.safetensors", "best.safetensors", "metrics.jsonl"})
    CHECK(content(sliced, name) == content(whole, name));
}

TEST_CASE("resuming is verified, with carried state, accumulation, f16 and averages") {
  const auto backend = make_backend("cpu");
  MemoryVfs vfs;
  TrainerOptions o = small_training(100);
  o.vfs = &vfs;
  o.accumulate = 3;
  o.precision = Precision::f16;
  o.average = {.kind = Average::ema, .decay = 0.9, .start = 2};
  const ResumeCheck check = verify_resume(small_language_model(), *backend, o, 11, "check");
  CHECK(check.updates == 11);
  CHECK(check.stopped_after == 5);
  CHECK(check.differences == std::vector<std::string>{});
  CHECK(vfs.exists("check/resumed/best.safetensors"));
}

TEST_CASE("a resume on other data of the same size is refused") {
  class Other : public TinyTask {
   public:
    Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
      return TinyTask::batch(split, seed, epoch, index + 1);
    }
  };
  class Renamed : public TinyTask {
   public:
    std::map<std::string, std::string> metadata() const override { return {{"vocabulary", name}}; }
    std::string name = "a b c";
  };
  MemoryVfs vfs;
  const auto backend = make_backend("reference");
  const auto train = [&](const std::shared_ptr<const Task>& task, bool resume) {
    TrainerOptions o = in_folder(vfs, resume, 0);
    o.stop_at = resume ? 0 : 6;
    return Trainer(task, *backend, o).fit().updates;
  };
  const auto named = std::make_shared<Renamed>();
  train(named, false);
  CHECK_THROWS_WITH_AS(train(std::make_shared<Other>(), true), doctest::Contains("training data has changed"), Error);
  named->name = "a b d";
  CHECK_THROWS_WITH_AS(train(named, true), doctest::Contains("'vocabulary' from 'a b c' to 'a b d'"), Error);
  named->name = "a b c";
  CHECK(train(named, true) > 6);
}

TEST_CASE("a resume at the end of the run says so, beyond it is refused") {
  MemoryVfs vfs;
  const auto backend = make_backend("reference");
  std::vector<std::string> warnings;
  std::vector<std::int64_t> started;
  const auto train = [&](std::int64_t max_updates, bool resume) {
    TrainerOptions o = in_folder(vfs, resume, 0);
    o.max_updates = max_updates;
    o.warn = [&](const std::string& text) { warnings.push_back(text); };
    o.started = [&](std::int64_t update) { started.push_back(update); };
    return Trainer(std::make_shared<TinyTask>(), *backend, o).fit().updates;
  };
  train(8, false);
  CHECK(train(8, true) == 8);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("already at update 8 of 8: nothing to do; raise train.max_updates") == 0);
  CHECK_THROWS_WITH_AS(train(5, true), doctest::Contains("already at update 8 of 5: nothing to do"), Error);
  CHECK(train(9, true) == 9);
  CHECK((started == std::vector<std::int64_t>{0, 8}));
}

TEST_CASE("what is not the same after a resume is named") {
  const auto backend = make_backend("reference");
  MemoryVfs vfs;
  TrainerOptions o = small_training(20);
  o.vfs = &vfs;
  o.prefetch = 0;
  const ResumeCheck check = verify_resume(std::make_shared<Forgetful>(), *backend, o, 12, "check");
  const auto has = [&](const std::string& part) {
    return std::any_of(check.differences.begin(), check.differences.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
  };
  CHECK(has("last.safetensors: 'w' differs first at ["));
  CHECK(has("last.safetensors: 'state.seen' differs"));
  CHECK(has("metrics.jsonl: differs first in line "));
  CHECK_THROWS_AS(verify_resume(std::make_shared<TinyTask>(), *backend, o, 1, "check2"), Error);
}
