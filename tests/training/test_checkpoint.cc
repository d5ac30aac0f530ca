// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/train/files/checkpoint.h"
#include "tests/support/failing_vfs.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t k_updates = 13;

std::string file(Vfs& vfs, const std::string& name) {
  const std::string path = "run/" + name;
  if (!vfs.exists(path)) return "(none)";
  const Bytes bytes = vfs.read(path, 1u << 24);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
const char* const k_files[] = {"last.safetensors", "best.safetensors", "metrics.jsonl"};

TrainerOptions in_folder(Vfs& vfs, bool resume) {
  TrainerOptions o = small_training(k_updates);
  o.folder = "run";
  o.vfs = &vfs;
  o.resume = resume;
  o.metadata["config"] = "[model]\n";
  return o;
}

std::shared_ptr<const Task> task() {
  static const auto one = small_language_model();
  return one;
}
// Where a test runs hundreds of trainings.
std::shared_ptr<const Task> tiny() { return std::make_shared<TinyTask>(); }

TrainResult run_task(const std::shared_ptr<const Task>& which, Vfs& vfs, bool resume, std::int64_t stop_after = -1) {
  const auto backend = make_backend("reference");
  std::int64_t done = 0;
  return Trainer(which, *backend, in_folder(vfs, resume)).fit({}, [&] {
    return stop_after >= 0 && done++ == stop_after;
  });
}
TrainResult run(Vfs& vfs, bool resume, std::int64_t stop_after = -1) {
  return run_task(task(), vfs, resume, stop_after);
}

// The files of a run that nothing interrupted.
struct Expected {
  std::string files[3];
  explicit Expected(const std::shared_ptr<const Task>& which) {
    MemoryVfs vfs;
    run_task(which, vfs, false);
    for (int i = 0; i < 3; ++i) files[i] = file(vfs, k_files[i]);
  }
  void check(Vfs& vfs) const {
    for (int i = 0; i < 3; ++i) {
      CAPTURE(k_files[i]);
      CHECK(file(vfs, k_files[i]) == files[i]);
    }
  }
};
void check_files(Vfs& vfs) {
  static const Expected expected(task());
  expected.check(vfs);
}

void overwrite(Vfs& vfs, const std::string& name, const std::string& text) {
  const auto out = vfs.create("run/" + name);
  out->write(std::as_bytes(std::span(text.data(), text.size())));
  out->sync();
  out->close();
}

}  // namespace

TEST_CASE("a run leaves metrics, a best and a last file that say what they are") {
  MemoryVfs vfs;
  const TrainResult r = run(vfs, false);
  CHECK(r.updates == k_updates);
  const std::string metrics = file(vfs, "metrics.jsonl");
  CHECK(metrics.substr(0, 25) == "{\"update\":3,\"epoch\":0,\"lo");
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') == 4 + 3);  // logs at 3 6 9 12, validations at 5 10 13
  const TensorFile last = load_safetensors("run/last.safetensors", vfs);
  CHECK(last.metadata.at("trainer.update") == std::to_string(k_updates));
  CHECK(last.metadata.at("task") == "language_model");
  CHECK(last.metadata.at("config") == "[model]\n");
  CHECK(last.tensors.contains("optimizer.mean.output.weight"));
  CHECK(last.tensors.contains("state.0"));
  const TensorFile best = load_model("run/best.safetensors", vfs);
  CHECK(best.tensors.size() == 7);
  CHECK(load_model("run/last.safetensors", vfs).tensors.size() == 7);
}

TEST_CASE("a run stopped anywhere and resumed leaves the same bytes as one that was not") {
  for (std::int64_t stop = 0; stop <= k_updates; ++stop) {
    CAPTURE(stop);
    MemoryVfs vfs;
    const TrainResult first = run(vfs, false, stop);
    CHECK(first.interrupted == (stop < k_updates));
    CHECK(first.updates == stop);
    run(vfs, true);
    check_files(vfs);
  }
}

TEST_CASE("stopping and resuming after every update leaves the same bytes too") {
  MemoryVfs vfs;
  run(vfs, false, 1);
  for (int i = 0; i < k_updates; ++i) run(vfs, true, 1);
  check_files(vfs);
}

TEST_CASE("averages, accumulated batches, plateaus and groups are resumed to the same bytes") {
  const auto train = [](Vfs& vfs, bool resume, std::int64_t stop_after) {
    const auto backend = make_backend("reference");
    TrainerOptions o = in_folder(vfs, resume);
    o.accumulate = 2;
    o.average = {.kind = Average::ema, .decay = 0.8, .start = 2};
    o.schedule = {.name = "plateau", .factor = 0.5, .plateau_patience = 1};
    o.validate_every = 2;
    o.optimizer = {.name = "lion", .lr = 5};
    o.groups = {{.match = "w", .lr_scale = 0.5, .weight_decay = 0.1}};
    std::int64_t done = 0;
    Trainer(tiny(), *backend, o).fit({}, [&] { return stop_after >= 0 && done++ == stop_after; });
  };
  MemoryVfs whole;
  train(whole, false, -1);
  CHECK(file(whole, "last.safetensors").find("average.w") != std::string::npos);
  CHECK(load_safetensors("run/last.safetensors", whole).metadata.at("trainer.plateaus") != "0");
  for (std::int64_t stop = 0; stop <= k_updates; ++stop) {
    CAPTURE(stop);
    MemoryVfs vfs;
    train(vfs, false, stop);
    train(vfs, true, -1);
    for (const char* name : k_files) CHECK(file(vfs, name) == file(whole, name));
  }
}

TEST_CASE("the best validation so far is remembered through a resume") {
  // Trained to raise w, validated on w: every validation is worse than the first.
  class Worse : public Task {
   public:
    TaskGraph build(Scope& scope, const Batch& like) const override {
      scope.graph().input("x", like.inputs.at("x").type());
      TaskGraph t;
      const Value w = sum(scope.parameter("w", {3}, Initializer::normal(1)));
      t.loss = scope.training() ? -w : w;
      return t;
    }
    std::int64_t n_batches(Split) const override { return 3; }
    Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override {
      Batch b;
      b.inputs.emplace("x", Tensor());
      return b;
    }
  };
  const auto backend = make_backend("reference");
  std::string best[2];
  for (const bool interrupted : {false, true}) {
    MemoryVfs vfs;
    std::int64_t done = 0;
    const auto worse = std::make_shared<Worse>();
    if (interrupted) Trainer(worse, *backend, in_folder(vfs, false)).fit({}, [&] { return done++ == 7; });
    const TrainResult r = Trainer(worse, *backend, in_folder(vfs, interrupted)).fit();
    CHECK(r.last_validation_loss > r.best_validation_loss);
    best[interrupted] = file(vfs, "best.safetensors");
    CHECK(load_model("run/best.safetensors", vfs).metadata.at("trainer.update") == "5");
  }
  CHECK(best[0] == best[1]);
}

TEST_CASE("resuming a finished run changes nothing") {
  MemoryVfs vfs;
  run(vfs, false);
  const TrainResult r = run(vfs, true);
  CHECK(r.updates == k_updates);
  check_files(vfs);
}

TEST_CASE("when the process dies at any file operation, resuming leaves the same bytes") {
  const Expected expected(tiny());
  int n = 0;
  for (int at = 0;; ++at) {
    MemoryVfs vfs;
    FailingVfs failing(vfs, at, Fault::dead);
    try {
      run_task(tiny(), failing, false);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::storage);
    }
    if (!failing.fired()) break;
    CAPTURE(at);
    CAPTURE(failing.failed());
    run_task(tiny(), vfs, true);
    expected.check(vfs);
    ++n;
  }
  CHECK(n > 30);
}

TEST_CASE("a failed write is a warning, training goes on, and the next save makes up for it") {
  const Expected expected(tiny());
  struct Row {
    Fault fault;
    int first, stride;  // the place matters more than the kind of failure: a sample of each is enough
  };
  for (const Row& row : {Row{Fault::disk_full, 0, 2}, Row{Fault::io_error, 1, 5}, Row{Fault::short_write, 2, 3}})
    for (int at = row.first;; at += row.stride) {
      MemoryVfs vfs;
      FailingVfs failing(vfs, at, row.fault);
      std::vector<std::string> warnings;
      TrainerOptions o = in_folder(failing, false);
      o.warn = [&](const std::string& text) { warnings.push_back(text); };
      const auto backend = make_backend("reference");
      bool threw = false;
      try {
        Trainer(tiny(), *backend, o).fit();
      } catch (const Error& e) {
        threw = true;
        CHECK(e.kind() == ErrorKind::storage);
      }
      if (!failing.fired()) break;
      CAPTURE(at);
      CAPTURE(failing.failed());
      if (threw) {  // the folder could not be prepared, or the last save of all failed: nothing is lost but the tail
        run_task(tiny(), vfs, true);
      } else {
        CHECK(warnings.size() >= 1);
      }
      expected.check(vfs);
    }
}

TEST_CASE("a disk that stays full lets training end, then says that nothing could be saved") {
  MemoryVfs vfs;
  run(vfs, false, 5);
  const std::string before = file(vfs, "last.safetensors");
  class Full : public FailingVfs {
   public:
    using FailingVfs::FailingVfs;
    bool blocked(const std::string& path) const { return path.find("safetensors") != std::string::npos; }
    std::unique_ptr<File> create(const std::string& path) override {
      if (blocked(path)) throw Error(ErrorKind::storage, path, "no space left on device");
      return FailingVfs::create(path);
    }
  } full(vfs, 1 << 30, Fault::disk_full);
  const auto backend = make_backend("reference");
  Trainer trainer(task(), *backend, in_folder(full, true));
  CHECK_THROWS_WITH_AS(trainer.fit(), doctest::Contains("no space left"), Error);
  CHECK(file(vfs, "last.safetensors") == before);
  run(vfs, true);
  check_files(vfs);
}

TEST_CASE("a folder that holds a run is neither resumed nor overwritten without being told") {
  MemoryVfs vfs;
  run(vfs, false, 5);
  CHECK_THROWS_WITH_AS(run(vfs, false), doctest::Contains("already holds a run"), Error);
  const auto backend = make_backend("reference");
  TrainerOptions o = in_folder(vfs, false);
  o.overwrite = true;
  Trainer(task(), *backend, o).fit();
  check_files(vfs);
}

TEST_CASE("a damaged checkpoint is refused, wherever it is damaged") {
  MemoryVfs vfs;
  run(vfs, false, 6);
  const std::string good = file(vfs, "last.safetensors");
  int refused = 0;
  for (std::size_t at = 8; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    overwrite(vfs, "last.safetensors", bad);
    try {
      run(vfs, true, 0);
    } catch (const Error& e) {
      CHECK((e.kind() == ErrorKind::input_file || e.kind() == ErrorKind::usage));
      ++refused;
    }
    overwrite(vfs, "last.safetensors", bad);
  }
  // Padding between header and data may differ without harm.
  CHECK(refused >= static_cast<int>((good.size() - 8) / 97) - 2);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
    overwrite(vfs, "last.safetensors", good.substr(0, size));
    CHECK_THROWS_AS(run(vfs, true), Error);
  }
}

TEST_CASE("a file that is read, changed and saved is read again with what was changed") {
  MemoryVfs vfs;
  run(vfs, false, 6);
  for (const char* name : {"run/last.safetensors", "run/best.safetensors"})
    for (const bool as_model : {true, false}) {
      TensorFile read = as_model ? load_model(name, vfs) : load_safetensors(name, vfs);
      for (auto& [parameter, tensor] : read.tensors)
        if (tensor.dtype() == DType::f32) tensor = Tensor::filled(tensor.type(), 0.25);
      read.metadata["note"] = "changed";
      save_safetensors("changed.safetensors", read, vfs);
      const TensorFile again = load_model("changed.safetensors", vfs);
      CHECK(again.metadata.at("note") == "changed");
      CHECK(again.tensors.begin()->second.at(0) == 0.25);
      CHECK_NOTHROW(parse_model(safetensors_bytes(read), "changed"));
    }
}

TEST_CASE("a checkpoint of another seed, another model or another batch size is refused") {
  MemoryVfs vfs;
  run(vfs, false, 6);
  const auto backend = make_backend("reference");
  const auto refused = [&](const char* part, const std::shared_ptr<const Task>& other,
                           const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions o = in_folder(vfs, true);
    change(o);
    CHECK_THROWS_WITH_AS(Trainer(other, *backend, o).fit(), doctest::Contains(part), Error);
  };
  refused("seed", task(), [](TrainerOptions& o) { o.seed = 12; });
  refused("optimizer.mean", task(), [](TrainerOptions& o) { o.optimizer.name = "sgd"; });
  LanguageModelOptions l = small_language_options();
  l.model.hidden = 7;
  refused("expected f32", small_language_model(l), [](TrainerOptions&) {});
  l = small_language_options();
  l.batch = 4;
  refused("batches per epoch", small_language_model(l), [](TrainerOptions&) {});
}

TEST_CASE("a model is loaded from last.safetensors with the averages that its run validated") {
  MemoryVfs vfs;
  const auto backend = make_backend("reference");
  TrainerOptions o = in_folder(vfs, false);
  o.average = {.kind = Average::mean};
  Trainer trainer(tiny(), *backend, o);
  trainer.fit();
  const TensorMap loaded = load_model("run/last.safetensors", vfs).tensors;
  CHECK(loaded.size() == 1);
  CHECK(loaded.at("w").at(0) == trainer.parameters().at("w").at(0));
  CHECK(loaded.at("w").at(0) != load_safetensors("run/last.safetensors", vfs).tensors.at("w").at(0));
}

TEST_CASE("a model that is not finite is never written over a good file") {
  MemoryVfs vfs;
  run(vfs, false, 6);
  const std::string last = file(vfs, "last.safetensors"), best = file(vfs, "best.safetensors");
  const auto backend = make_backend("reference");
  TrainerOptions o = in_folder(vfs, true);
  o.optimizer.lr = 1e38;  // one step of Adam reaches infinity soon
  o.schedule = {};
  try {
    Trainer(task(), *backend, o).fit();
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::numeric);
  }
  for (const std::string& name : {std::string("last.safetensors"), std::string("best.safetensors")})
    for (const auto& [parameter, tensor] : load_model("run/" + name, vfs).tensors) CHECK(tensor.all_finite());
}
