// SPDX-License-Identifier: Apache-2.0
// Several ranks train one model: the files of a run have the same bits for any number of them.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <thread>

#include "core/train/update/update_graph.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/run_files.h"
#include "tests/training/small_tasks.h"
#include "unroll/parallel/communicator.h"
#include "unroll/support/error.h"

namespace test_ranks {

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr int k_ranks[] = {1, 2, 3, 4, 8};
constexpr std::int64_t k_leaves = 12;  // no power of two, so that some ranks have two roots

using MakeTask = std::function<std::shared_ptr<const Task>()>;

struct Run {
  MakeTask make_task;  // each rank has its own: a task makes one batch at a time
  TrainerOptions options;
  MemoryVfs vfs;
};
using Change = std::function<void(TrainerOptions&, int rank)>;

// What `work` throws on each rank; empty: nothing.
std::vector<std::string> on_ranks(int n, double seconds, const std::function<void(Communicator&)>& work) {
  const auto ranks = thread_ranks(n, seconds);
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        work(*ranks[static_cast<std::size_t>(r)]);
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(r)] = std::string(error_kind_name(e.kind())) + " " + e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return errors;
}

std::vector<std::string> train(Run& run, int n, const Change& change = {}, double seconds = 60) {
  return on_ranks(n, seconds, [&](Communicator& rank) {
    TrainerOptions o = run.options;
    o.vfs = &run.vfs;
    if (change) change(o, rank.rank());
    const auto backend = make_backend("cpu", {.threads = 1, .communicator = &rank});
    Trainer(run.make_task(), *backend, o).fit();
  });
}

TrainerOptions options_for(std::int64_t updates) {
  TrainerOptions o = small_training(updates);
  o.optimizer.name = "adam";
  o.accumulate = k_leaves;
  o.average = {.kind = Average::ema, .decay = 0.9, .start = 2};
  o.folder = "run";
  return o;
}

std::string pairs() {
  std::string text;
  for (int i = 0; i < 90; ++i) {
    std::string word = std::to_string(i * 37 % 997);
    text += word + "\t" + std::string(word.rbegin(), word.rend()) + "\n";
  }
  return text;
}

struct TaskRow {
  const char* name;
  MakeTask make;
};
const TaskRow k_tasks[] = {
    {"a language model that carries states, in shards",
     [] {
       LanguageModelOptions o = small_language_options();
       o.shards = k_leaves;
       o.batch = 1;
       return small_language_model(o);
     }},
    {"sequences of one length, whose last update has fewer batches",
     [] {
       ClassifyOptions o;
       o.model.hidden = 5;
       o.model.dropout = 0.1;
       o.steps = 4;
       o.divide = 4;
       o.batch = 2;
       return make_classify(o, small_rows(70), "small rows");
     }},
    {"translation, whose sequences have lengths",
     []() -> std::shared_ptr<const Task> {
       TranslateOptions o;
       o.model.hidden = 6;
       o.batch = 3;
       return make_translate(o, pairs(), "pairs");
     }},
};

void check_equal_for_all_numbers_of_ranks(const MakeTask& make_task, const TrainerOptions& options,
                                          const Change& change = {}) {
  RunFiles alone;
  for (const int n : k_ranks) {
    CAPTURE(n);
    Run run{make_task, options, {}};
    for (const std::string& error : train(run, n, change)) CHECK(error == "");
    const RunFiles files = files_of(run.vfs, "run");
    if (n == 1) alone = files;
    CHECK(difference(files, alone) == "");
  }
  CHECK(alone.at("last.safetensors").size() > 500);
}

// Pulls a parameter towards batches; the loss of one of them overflows in f16 and in f32.
class OneOverflow : public TinyTask {
 public:
  std::int64_t n_batches(Split) const override { return 24; }
  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());
    TaskGraph t;
    t.loss = sum(square(x)) * sum(square(scope.parameter("w", x.shape(), Initializer::normal(1))));
    return t;
  }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    Batch b = TinyTask::batch(split, seed, epoch, index);
    if (index == 17 && epoch == 0) b.inputs.at("x").set(0, std::numeric_limits<float>::infinity());
    return b;
  }
};

// Notes calls for training batches that another one of the same task is in. The last update of an epoch has 4 batches.
class OneAtATime : public OneOverflow {
 public:
  explicit OneAtATime(std::atomic<int>& meetings) : meetings_(meetings) {}
  std::int64_t n_batches(Split split) const override { return split == Split::train ? 28 : 4; }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    if (split != Split::train) return OneOverflow::batch(split, seed, epoch, index);
    if (inside_.exchange(true)) ++meetings_;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    inside_ = false;
    return OneOverflow::batch(split, seed, epoch, index);
  }

 private:
  std::atomic<int>& meetings_;
  mutable std::atomic<bool> inside_ = false;
};

// Counts the validation batches that are made.
class Counted : public Task {
 public:
  Counted(std::shared_ptr<const Task> task, std::atomic<int>& n) : task_(std::move(task)), n_(n) {}
  TaskGraph build(Scope& scope, const Batch& like) const override { return task_->build(scope, like); }
  std::int64_t n_batches(Split split) const override { return task_->n_batches(split); }
  std::int64_t shards() const override { return task_->shards(); }
  std::int64_t evaluation_shards(Split split) const override { return task_->evaluation_shards(split); }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    if (split == Split::validation) ++n_;
    return task_->batch(split, seed, epoch, index);
  }

 private:
  std::shared_ptr<const Task> task_;
  std::atomic<int>& n_;
};

}  // namespace

TEST_CASE("ranks share the validation of a language model, with the loss of one rank") {
  const std::shared_ptr<const Task> task = k_tasks[0].make();
  const std::int64_t n = task->n_batches(Split::validation);
  REQUIRE(task->evaluation_shards(Split::validation) == 2);
  double alone = 0;
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    std::atomic<int> made = 0;
    std::vector<double> losses(static_cast<std::size_t>(ranks));
    for (const std::string& error : on_ranks(ranks, 60, [&](Communicator& rank) {
           const auto backend = make_backend("cpu", {.threads = 1, .communicator = &rank});
           TrainerOptions o = options_for(1);
           o.folder = "";
           Trainer trainer(std::make_shared<Counted>(k_tasks[0].make(), made), *backend, o);
           losses[static_cast<std::size_t>(rank.rank())] = trainer.evaluate(Split::validation).loss;
         }))
      CHECK(error == "");
    if (ranks == 1) alone = losses[0];
    for (const double loss : losses) CHECK(loss == alone);
    CHECK(made == n);
  }
}

TEST_CASE("a rank that is asked to stop ends all of them after the same update") {
  for (const int n : {2, 3}) {
    std::vector<std::int64_t> updates(static_cast<std::size_t>(n));
    const auto errors = on_ranks(n, 60, [&](Communicator& rank) {
      const auto backend = make_backend("cpu", {.threads = 1, .communicator = &rank});
      TrainerOptions o = options_for(50);
      o.folder = "";
      Trainer trainer(k_tasks[1].make(), *backend, o);
      int asked = 0;
      const auto stop = [&] { return rank.rank() == n - 1 && ++asked == 5; };
      updates[static_cast<std::size_t>(rank.rank())] = trainer.fit({}, stop).updates;
    });
    for (const std::string& error : errors) CHECK(error == "");
    for (const std::int64_t u : updates) CHECK(u == 5);
  }
}

// Tasks keep the order of an epoch. A rank without a batch in an update needs the shapes of one, and so does the replay
// of an update that was skipped, while another thread makes the next ones.
TEST_CASE("training batches are made one at a time, for ranks without batches and for skipped updates, too") {
  std::atomic<int> meetings = 0;
  for (const int n : {1, 8}) {
    CAPTURE(n);
    Run run{[&] { return std::make_shared<OneAtATime>(meetings); }, options_for(12), {}};
    run.options.log_every = 1;  // looks for skipped updates
    for (const std::string& error : train(run, n)) CHECK(error == "");
    CHECK(meetings == 0);
  }
}

TEST_CASE("a run has the same bits for any number of ranks") {
  for (const TaskRow& row : k_tasks)
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      CAPTURE(std::string(row.name));
      TrainerOptions o = options_for(13);
      o.precision = precision;
      check_equal_for_all_numbers_of_ranks(row.make, o);
    }
}

TEST_CASE("an overflow on one rank skips the update on all, and lowers the loss scale of all") {
  for (const Precision precision : {Precision::f32, Precision::f16}) {
    TrainerOptions o = options_for(9);
    o.precision = precision;
    o.loss_scale.initial = 16;
    check_equal_for_all_numbers_of_ranks([] { return std::make_shared<OneOverflow>(); }, o);
  }
}

TEST_CASE("a run goes on with another number of ranks") {
  for (const TaskRow& row : k_tasks) {
    CAPTURE(std::string(row.name));
    Run straight{row.make, options_for(13), {}};
    train(straight, 1);
    Run resumed{row.make, options_for(13), {}};
    const auto until = [](std::int64_t update) {
      return [update](TrainerOptions& o, int) {
        o.stop_at = update;
        o.resume = true;
      };
    };
    for (const auto& [n, update] : {std::pair{3, 4}, {1, 7}, {4, 11}, {2, 13}})
      for (const std::string& error : train(resumed, n, until(update))) CHECK(error == "");
    CHECK(difference(files_of(resumed.vfs, "run"), files_of(straight.vfs, "run")) == "");
  }
}

TEST_CASE("patience ends all ranks at the same update, with the best parameters") {
  TrainerOptions o = options_for(60);
  o.patience = 2;
  o.validate_every = 2;
  o.optimizer.lr = 0.3;
  check_equal_for_all_numbers_of_ranks(k_tasks[1].make, o);
}

TEST_CASE("ranks with other data, other options or another version are named before the first update") {
  Run run{k_tasks[1].make, options_for(5), {}};
  const auto errors = train(run, 3, [](TrainerOptions& o, int rank) {
    if (rank == 2) o.metadata["train.batch"] = "64";
  });
  bool refused = false;  // by one rank at least; others may hear of it from that one
  for (const std::string& error : errors) {
    CHECK(error.find("rank 2 has train.batch=64") != std::string::npos);
    refused = refused || error.find("usage") == 0;
  }
  CHECK(refused);
}

TEST_CASE("an error on one rank ends the others with its text") {
  Run run{k_tasks[1].make, options_for(50), {}};
  const auto errors = train(run, 4, [](TrainerOptions& o, int rank) {
    if (rank == 1)
      o.stage = [n = 0](const WorkStage& stage) mutable {
        if (stage.doing == "training" && ++n == 7) throw Error(ErrorKind::device, "test", "the lamp went out");
      };
  });
  CHECK(errors[1].find("device") == 0);
  for (const int rank : {0, 2, 3}) {
    CAPTURE(rank);
    CHECK(errors[static_cast<std::size_t>(rank)].find("peer") == 0);
    CHECK(errors[static_cast<std::size_t>(rank)].find("rank 1 ended with an error: [test] the lamp went out") !=
          std::string::npos);
  }
}

TEST_CASE("a rank counts what it sends and how long exchanges take") {
  const auto errors = on_ranks(2, 60, [](Communicator& rank) {
    if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int other = 1 - rank.rank();
    const std::vector<std::byte> own(100);
    std::vector<std::byte> got(100);
    const Communicator::Outgoing out[] = {{other, own}, {other, std::span(own).first(10)}};
    const Communicator::Incoming in[] = {{other, got}, {other, std::span(got).first(10)}};
    rank.exchange(out, in);
    if (rank.exchanged().sent_bytes != 110) throw Error(ErrorKind::internal, "test", "bytes");
    if (rank.rank() == 0 && rank.exchanged().seconds < 0.01) throw Error(ErrorKind::internal, "test", "seconds");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("the gradients of a layer travel before the loops of the layers below it") {
  for (const std::string cell : {"lstm", "lnlstm"}) {  // a composite, and a loop of single ops
    CAPTURE(cell);
    LanguageModelOptions o = small_language_options();
    o.model.cell = cell;
    o.model.layers = 3;
    o.model.hidden = 64;
    o.embedding = 64;
    const auto task = small_language_model(o);
    const Batch batch = task->example(0);
    const UpdateConfig recipe{TrainerOptions{}};
    Graph graph;
    Scope scope(graph, /*training=*/true);
    task->build(scope, batch);
    const std::vector<int> buckets = gradient_buckets(*task, batch, recipe);
    REQUIRE(buckets.size() == scope.parameters().size());
    int of_layer[3] = {-1, -1, -1};
    for (std::size_t i = 0; i < buckets.size(); ++i)
      for (int layer = 0; layer < 3; ++layer)
        if (scope.parameters()[i].name.ends_with("weight_hh_l" + std::to_string(layer))) of_layer[layer] = buckets[i];
    CHECK(of_layer[2] >= 0);
    CHECK(of_layer[2] < of_layer[1]);
    CHECK(of_layer[1] < of_layer[0]);
  }
}

TEST_CASE("a rank that does not answer is named after the time limit") {
  const auto errors = on_ranks(3, 0.2, [&](Communicator& rank) {
    if (rank.rank() == 1) return;
    const std::byte own{7};
    std::byte got{};
    const Communicator::Outgoing out{1, {&own, 1}};
    const Communicator::Incoming in{1, {&got, 1}};
    rank.exchange({&out, 1}, {&in, 1});
  });
  CHECK(errors[0].find("peer [ranks] no answer from rank 1") == 0);
  CHECK(errors[2].find("no answer from rank 1") != std::string::npos);
}

TEST_CASE("what several ranks cannot train is refused before the first update") {
  struct Row {
    MakeTask make_task;
    std::int64_t accumulate;
    const char* text;
  };
  LanguageModelOptions shards = small_language_options();
  shards.shards = 2;
  const Row rows[] = {
      {k_tasks[1].make, 2, "3 ranks cannot share the 2 batches of an update"},
      {[] { return small_language_model(); }, 3, "carries states from batch to batch"},
      {[shards] { return small_language_model(shards); }, 3, "in 2 shards, and an update has 3 batches"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    Run run{row.make_task, options_for(5), {}};
    run.options.accumulate = row.accumulate;
    for (const std::string& error : train(run, 3)) {
      CHECK(error.find("usage") == 0);
      CHECK(error.find(row.text) != std::string::npos);
    }
  }
}

}  // namespace test_ranks
