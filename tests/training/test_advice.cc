// SPDX-License-Identifier: Apache-2.0
// Each symptom is recognized by what the table says, once, and by nothing less.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/train/advice/advice.h"
#include "core/train/advice/baseline_advice.h"
#include "core/train/update/metrics.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/small_tasks.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// A run that is well: the loss falls, the validation loss with it.
struct Story {
  int n = 30;
  bool from_start = true;
  double (*loss)(int) = [](int i) { return 3.0 / (1 + i); };
  double (*validation)(int) = [](int i) { return 3.1 / (1 + i); };  // after every third report
  double (*norm)(int) = [](int) { return 0.5; };
  double (*wait)(int) = [](int i) { return i == 0 ? 0.9 : 0.01; };
  void (*also)(int, Progress&) = [](int, Progress&) {};
};

std::vector<std::string> told(const Story& s) {
  Advisor advisor(s.from_start);
  std::vector<std::string> names;
  const auto look = [&](const Progress& p) {
    for (const Advice& a : advisor.look(p)) names.push_back(a.symptom);
  };
  for (int i = 0; i < s.n; ++i) {
    Progress p{};
    p.update = 10 * (i + 1);
    p.loss = s.loss(i);
    p.gradient_norm = s.norm(i);
    p.data_wait = s.wait(i);
    p.updates_per_second = 10;  // a second a report
    s.also(i, p);
    look(p);
    if (i % 3 != 2) continue;
    p.statistics.reset();
    p.validation_loss = s.validation(i);
    look(p);
  }
  return names;
}

using Names = std::vector<std::string>;

// "| a | b | c |" of the table in the guide.
std::vector<std::string> rows_of_guide() {
  std::ifstream file(UNROLL_SOURCE_ROOT "/docs/training.md");
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## Symptoms and remedies";
    if (inside && line.starts_with("| ")) rows.push_back(line);
  }
  return rows;
}

}  // namespace

TEST_CASE("the guide has the trainer's own words") {
  std::vector<std::string> rows{"| symptom | evidence | remedies |"};
  for (const Symptom& s : symptoms()) {
    std::string row;
    for (const std::string_view cell : {s.name, s.seen, s.remedies}) row += "| " + std::string(cell) + " ";
    rows.push_back(row + "|");
  }
  CHECK(rows_of_guide() == rows);
}

TEST_CASE("a run that is well gets no advice") {
  CHECK(told({}) == Names{});
  Story noisy;
  noisy.loss = [](int i) { return 3.0 / (1 + i) + 0.05 * std::sin(i); };
  noisy.norm = [](int i) { return 0.5 + 0.4 * std::sin(i); };
  CHECK(told(noisy) == Names{});
}

TEST_CASE("each symptom is named once") {
  struct Row {
    const char* name;
    Story story;
  };
  const Row rows[] = {
      {"not finite", {.also = [](int i, Progress& p) { p.skipped_updates = i / 4; }}},
      {"divergence", {.loss = [](int i) { return i < 3 ? 3.0 - 0.1 * i : 100.0 * i; }}},
      {"divergence",
       {.also =
            [](int, Progress& p) {
              p.metrics = {{"perplexity", HUGE_VAL}};
            }}},
      {"exploding gradients", {.norm = [](int i) { return i < 10 ? 0.5 : 6.0; }}},
      {"vanishing gradients", {.norm = [](int) { return 1e-6; }}},
      {"vanishing gradients",
       {.also =
            [](int, Progress& p) {
              p.statistics = TrainingStatistics{.update = p.update,
                              .parameters = {{"weight_hh_l0", {1e-7, 1e-3}}, {"weight_hh_l1", {0.2, 1e-3}}},
                              .loops = {}};
            }}},
      {"saturated gates",
       {.also =
            [](int, Progress& p) {
              p.statistics = TrainingStatistics{p.update, {}, {{"l0", {0.9, 0}}}};
            }}},
      {"dead units",
       {.also =
            [](int, Progress& p) {
              p.statistics = TrainingStatistics{p.update, {}, {{"l0", {0.1, 0.5}}}};
            }}},
      {"overfitting", {.validation = [](int i) { return 3 + 0.2 * std::fabs(i - 8); }}},
      {"underfitting",
       {.loss = [](int i) { return 3.0 - 1e-4 * i; }, .validation = [](int i) { return 3.0 - 1e-5 * i; }}},
      {"a plateau", {.loss = [](int i) { return i < 6 ? 3.0 - 0.2 * i : 2.0; }, .validation = [](int) { return 2.1; }}},
      {"a slow loader", {.wait = [](int i) { return i < 10 ? 0.01 : 0.2; }}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(told(row.story) == Names{row.name});
  }
  for (const Symptom& s : symptoms())
    CHECK((s.name == k_no_learning.name || s.name == k_worse_than_baseline.name ||
           std::any_of(std::begin(rows), std::end(rows), [&](const Row& row) { return row.name == s.name; })));
}

TEST_CASE("a model that is worse than a baseline is told which") {
  using Metrics = std::map<std::string, double>;
  using Baselines = std::map<std::string, Metrics>;
  struct Row {
    const char* what;
    Metrics metrics;
    Baselines baselines;
    std::string symptom;             // empty: none
    std::vector<const char*> says = {};
  };
  const Baselines series{{"persistence", {{"mae", 3}, {"mase", 1.3}}},
                         {"seasonal_naive", {{"mae", 2}, {"mase", 1.07}}}};
  const Baselines classes{{"most_frequent", {{"accuracy", 0.4}}}, {"naive_bayes", {{"accuracy", 0.8}}}};
  const Baselines text{{"frequency", {{"perplexity", 20}}}};
  const Row rows[] = {
      {"forecast", {{"mae", 1}, {"mase", 1.417}}, series, "worse than a baseline",
       {"mase is 1.417", "seasonal_naive 1.07", "Try a longer `data.window`", "--find-lr",
        "`unroll predict RUN --baseline seasonal_naive`"}},
      {"better forecast", {{"mae", 4}, {"mase", 0.9}}, series, ""},
      {"most frequent class", {{"accuracy", 0.4}}, classes, "no learning", {"most_frequent has 0.4"}},
      {"naive Bayes is better", {{"accuracy", 0.7}}, classes, "worse than a baseline", {"naive_bayes has 0.8"}},
      {"better classifier", {{"accuracy", 0.81}}, classes, ""},
      {"text", {{"perplexity", 25}}, text, "no learning", {"frequency has 20"}},
      {"infinite perplexity", {{"perplexity", HUGE_VAL}}, text, "no learning", {"perplexity is inf"}},
      {"NaN", {{"perplexity", std::nan("")}}, text, "no learning"},
      {"better text", {{"perplexity", 4}}, text, ""},
      {"nothing to compare", {{"loss", 4}}, text, ""},
      {"no baselines", {{"accuracy", 0.1}}, {}, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto advice = compare_with_baselines(row.metrics, row.baselines);
    CHECK((advice ? advice->symptom : "") == row.symptom);
    for (const char* words : row.says) CHECK(advice->text.find(words) != std::string::npos);
  }
  CHECK(compare_with_baselines({{"accuracy", 0.4}}, classes, "fewer, wider steps")->text.find(
            "Try fewer, wider steps, `unroll train CONFIG --find-lr`") != std::string::npos);
}

TEST_CASE("what only just is no symptom is none") {
  const Story rows[] = {
      {.norm = [](int i) { return i < 10 ? 0.5 : 4.9; }},
      {.loss = [](int i) { return i < 3 ? 3.0 : 8.9 - 0.1 * i; }},
      {.from_start = false, .loss = [](int i) { return i < 3 ? 3.0 : 9.1 - 0.001 * i; }},  // how it began is not known
      {.n = 9, .norm = [](int) { return 2e-4; }},
      {.from_start = false, .norm = [](int) { return 1e-6; }},  // a resumed run may have come to rest
      {.also = [](int, Progress& p) { p.statistics = TrainingStatistics{p.update, {}, {{"l0", {0.79, 0.24}}}}; }},
      // The bias of a key in attention has no gradient by right.
      {.also = [](int, Progress& p) {
        p.statistics = TrainingStatistics{p.update, {{"weight_hh_l0", {0.2, 1e-3}}, {"key_bias_l0", {0, 0}}}, {}};
      }},
      {.n = 12, .validation = [](int i) { return 3 + 0.2 * std::fabs(i - 8); }},  // one validation after the best
      {.n = 15, .loss = [](int) { return 3.0; }, .validation = [](int) { return 3.0; }},
      {.loss = [](int i) { return 3.0 - 0.05 * i; }, .validation = [](int) { return 3.0; }},  // still learns
      {.loss = [](int) { return 3.0; }, .validation = [](int i) { return 3.0 - 0.001 * i; }},
      {.wait = [](int i) { return i % 3 == 0 ? 0.01 : 0.2; }},
      // 0.09 s in all
      {.wait = [](int) { return 0.3; }, .also = [](int, Progress& p) { p.updates_per_second = 1000; }},
  };
  for (const Story& story : rows) CHECK(told(story) == Names{});
}

TEST_CASE("a run whose gradients explode is told so by its reports, and only once") {
  // loss = w * x with a batch that is ten thousand times larger from the twentieth on
  class Growing : public Task {
   public:
    TaskGraph build(Scope& scope, const Batch& like) const override {
      TaskGraph t;
      t.loss = sum(scope.parameter("w", {2}, Initializer::constant(1)) *
                   scope.graph().input("x", like.inputs.at("x").type()));
      return t;
    }
    std::int64_t n_batches(Split) const override { return 40; }
    Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t index) const override {
      Batch b;
      const float value = index < 20 ? 1.0F : 1e4F;
      b.inputs.emplace("x", Tensor::from<float>({2}, {value, value}));
      return b;
    }
  };
  const auto backend = make_backend("reference");
  TrainerOptions o;
  o.max_updates = 40;
  o.log_every = 2;
  o.validate_every = 0;
  Names names;
  Trainer(std::make_shared<Growing>(), *backend, o).fit([&](const Progress& p) {
    for (const Advice& a : p.advice)
      if (a.symptom != "a slow loader") names.push_back(a.symptom);  // such updates take no time
    if (!p.advice.empty() && p.advice[0].symptom == "divergence")
      CHECK(p.advice[0].text.find("train.clip_norm = 1") != std::string::npos);
  });
  CHECK(names == Names{"divergence", "exploding gradients"});  // the loss jumps with the batch
}

namespace {

// Neither learns nor changes.
class Idle : public TinyTask {
 public:
  TaskGraph build(Scope& scope, const Batch& like) const override {
    TaskGraph t;
    t.loss = sum(scope.parameter("w", {2}, Initializer::constant(1))) * 0.0 +
             sum(scope.graph().input("x", like.inputs.at("x").type())) * 0.0 + 2.0;
    return t;
  }
};

}  // namespace

TEST_CASE("a run that is stopped and resumed gets the advice of one that is not, each once") {
  const auto backend = make_backend("reference");
  const auto told_by = [&](std::vector<std::int64_t> stops) {
    MemoryVfs vfs;
    TrainerOptions o = small_training(60);
    o.folder = "run";
    o.vfs = &vfs;
    o.log_every = 2;
    o.watch_every = 4;
    o.checkpoint_every = 3;
    std::vector<std::pair<std::int64_t, std::string>> list;
    for (const std::int64_t stop : stops) {
      o.stop_at = stop;
      Trainer(std::make_shared<Idle>(), *backend, o).fit([&](const Progress& p) {
        for (const Advice& a : p.advice)
          if (a.symptom != "a slow loader") list.emplace_back(p.update, a.symptom);
      });
      o.resume = true;
    }
    return list;
  };
  const auto straight = told_by({60});
  CHECK(straight.size() == 2);  // vanishing gradients, underfitting
  CHECK(told_by({3, 17, 40, 60}) == straight);
  CHECK(told_by({31, 32, 60}) == straight);
}

TEST_CASE("reports are read back from the lines that they became") {
  const TrainingStatistics watch{4, {{"w", {0.5, 1e-3}}}, {{"l0", {0.25, 0.125}}}};
  const std::string lines = json_line(TrainLine{2, 0, 1.5, 0.1, std::nan(""), 1, 1024.0, {{"accuracy", 0.5}}}) + "\n" +
                            json_line(watch) + "\nno line\n[1]\n" +
                            json_line(ValidationLine{3, 1.25, true, {{"accuracy", 0.75}}}) + "\n" +
                            json_line(RollbackLine{3, 2, 1}) + "\n" +
                            json_line(TrainLine{4, 0, 1.0 / 3, 0.1, 0.7, 2, {}, {}}) + "\n{\"update\":";
  const std::vector<Progress> reports = reports_of(lines);
  REQUIRE(reports.size() == 3);
  CHECK(reports[0].update == 2);
  CHECK(reports[0].loss == 1.5);
  CHECK(std::isnan(reports[0].gradient_norm));
  CHECK(reports[0].skipped_updates == 1);
  CHECK_FALSE(reports[0].statistics.has_value());
  CHECK(reports[1].validation_loss == 1.25);
  CHECK(reports[1].skipped_updates == 1);
  CHECK(reports[2].loss == 1.0 / 3);
  CHECK(reports[2].skipped_updates == 2);
  REQUIRE(reports[2].statistics.has_value());
  CHECK(reports[2].statistics->parameters.at("w").update_ratio == 1e-3);
  CHECK(reports[2].statistics->loops.at("l0").dead == 0.125);
}
