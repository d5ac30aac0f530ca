// SPDX-License-Identifier: Apache-2.0
// Encoder and decoder: batches, masks, scheduled sampling, beam search, translations.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/tasks/decode/beam_search.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/support/error.h"

namespace test_translate {

using namespace unroll;
using namespace unroll::testing;

namespace {

// Words of a, b and c of 2 to 6 letters, and the same backwards.
std::string small_pairs(int n = 120) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    std::string word;
    for (int k = 0, rest = i * 7919 + 13; k < 2 + i % 5; ++k, rest /= 3) word += static_cast<char>('a' + rest % 3);
    text += word + "\t" + std::string(word.rbegin(), word.rend()) + "\n";
  }
  return text;
}
TranslateOptions small_options() {
  TranslateOptions o;
  o.model.hidden = 8;
  o.embedding = 5;
  o.batch = 16;
  o.test = 0.1;
  o.label_smoothing = 0.1;
  return o;
}
std::vector<PairTask::Pair> pairs_of(const PairTask& task, Split split) {
  std::vector<PairTask::Pair> list;
  task.for_each_pair(split, [&](const PairTask::Pair& pair) { list.push_back(pair); });
  return list;
}
std::shared_ptr<const PairTask> small_translate(const TranslateOptions& o = small_options()) {
  return make_translate(o, small_pairs(), "small pairs");
}

// log p of the next token of two letters and the end (2), whatever came before: a table by length.
struct Table {
  std::vector<std::vector<double>> p;                                // [step][token]
  std::map<std::vector<std::int32_t>, std::vector<double>> special;  // by what was written
  std::vector<std::vector<std::int32_t>> lanes;
  std::vector<float> logs;
  BeamStep step() {
    lanes.clear();
    return [this](std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) {
      std::vector<std::vector<std::int32_t>> next;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        next.push_back(lanes.empty() ? std::vector<std::int32_t>{} : lanes[parents[i]]);
        if (!lanes.empty()) next.back().push_back(tokens[i]);
      }
      lanes = next;
      logs.clear();
      for (const auto& lane : lanes) {
        const auto at = special.find(lane);
        for (const double v : at != special.end() ? at->second : p[std::min(lane.size(), p.size() - 1)])
          logs.push_back(static_cast<float>(std::log(v)));
      }
      return std::span<const float>(logs);
    };
  }
};
using Tokens = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("every pair is in one split and once in an epoch") {
  const auto task = small_translate();
  CHECK(pairs_of(*task, Split::train).size() + pairs_of(*task, Split::validation).size() +
            pairs_of(*task, Split::test).size() ==
        120);
  for (const std::int64_t epoch : {0, 1}) {
    std::int64_t sources = 0, ends = 0;
    for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
      const Batch b = task->batch(Split::train, 1, epoch, i);
      for (const std::int32_t length : b.inputs.at("lengths").values<std::int32_t>()) sources += length > 0;
      for (const std::int32_t label : b.inputs.at("labels").values<std::int32_t>())
        ends += label == 4;  // a b c unknown
    }
    CHECK(sources == static_cast<std::int64_t>(pairs_of(*task, Split::train).size()));
    CHECK(ends == sources);
  }
}

TEST_CASE("what fills sources and targets up changes neither loss nor gradient, bit for bit") {
  for (const char* attention : {"dot", "additive"})
    for (const double sampling : {0.0, 0.5})
      for (const bool input_feeding : {false, true})
        for (const bool pointer : {false, true}) {
          CAPTURE(attention);
          CAPTURE(sampling);
          CAPTURE(input_feeding);
          CAPTURE(pointer);
          TranslateOptions o = small_options();
          o.attention = attention;
          o.scheduled_sampling = sampling;
          o.input_feeding = input_feeding;
          o.pointer = pointer;
          o.coverage = input_feeding && std::string(attention) == "additive";
          const auto task = small_translate(o);
          const Batch batch = task->batch(Split::train, 1, 0, 2);
          const TensorMap plain = loss_and_gradients(*task, batch);
          CHECK(plain.at("loss").at(0) > 0.5);
          CHECK(same_bits(plain, loss_and_gradients(*task, with_other_padding(batch))));
        }
}

TEST_CASE("scheduled sampling feeds the model's own predictions, all of them at 1, none at 0") {
  TranslateOptions o = small_options();
  const auto loss = [&](double share) {
    o.scheduled_sampling = share;
    const auto task = small_translate(o);
    return loss_and_gradients(*task, task->batch(Split::train, 1, 0, 0)).at("loss").at(0);
  };
  const double none = loss(0), half = loss(0.5), all = loss(1);
  CHECK(none != half);
  CHECK(half != all);
}

TEST_CASE("a schedule of the share gives at every batch what a constant share of that size gives") {
  TranslateOptions o = small_options();
  const auto loss = [&](const char* schedule, double share, std::int64_t batches) {
    o.scheduled_sampling = share;
    o.sampling_schedule = schedule;
    o.sampling_batches = batches;
    const auto task = small_translate(o);
    return loss_and_gradients(*task, task->batch(Split::train, 1, 0, 0))
        .at("loss")
        .at(0);  // the key of batch 2, from 0
  };
  CHECK(loss("linear", 0.8, 4) == loss("constant", 0.4, 1));
  CHECK(loss("linear", 0.8, 2) == loss("constant", 0.8, 1));
  CHECK(loss("linear", 0.8, 1) == loss("constant", 0.8, 1));
  CHECK(loss("exponential", 0.8, 3) == loss("constant", 0.8 * (1 - std::exp(-2.0 / 3)), 1));
  CHECK(loss("inverse-sigmoid", 0.8, 2) == loss("constant", 0.8 * (1 - 2 / (2 + std::exp(1.0))), 1));
  CHECK(loss("linear", 0.8, 4) != loss("linear", 0.8, 2));
  CHECK_THROWS_WITH_AS(loss("cosine", 0.5, 2), doctest::Contains("inverse-sigmoid"), Error);
  CHECK_THROWS_WITH_AS(loss("linear", 0.5, 0), doctest::Contains("train.sampling_batches is 0"), Error);
}

TEST_CASE("an encoder and decoder learn to write a word backwards, and read it back from metadata and parameters") {
  for (const char* attention : {"dot", "additive"}) {
    CAPTURE(attention);
    TranslateOptions o = small_options();
    o.model.cell = "gru";
    o.model.hidden = 24;
    o.embedding = 12;
    o.label_smoothing = 0;
    o.attention = attention;
    const auto task = make_translate(o, small_pairs(600), "pairs");
    const auto backend = make_backend("cpu");
    TrainerOptions t = small_training(400);
    t.optimizer.lr = 0.01;
    Trainer trainer(task, *backend, t);
    trainer.fit();
    CHECK(trainer.evaluate(Split::test).metrics.at("token_accuracy") > 0.95);
    Translator translator(task->metadata(), trainer.parameters(), *backend);
    std::int64_t right = 0, wide = 0;
    const auto pairs = pairs_of(*task, Split::test);
    for (const auto& pair : pairs) {
      right += translator.translate(pair.source) == pair.target;
      wide += translator.translate(pair.source, {.beam = 4, .length_penalty = 0.6}) == pair.target;
    }
    CHECK(right * 10 > static_cast<std::int64_t>(pairs.size()) * 8);
    CHECK(wide >= right - 2);
    CHECK(translator.translate("").empty());
    CHECK_THROWS_WITH_AS(translator.translate(std::string(2000, 'a')), doctest::Contains("1024"), Error);
  }
}

TEST_CASE("the unknown token is never written, however likely it is") {
  // Two of three targets are words of their own, which min_count leaves out of the vocabulary.
  std::string text;
  for (int i = 0; i < 90; ++i) {
    const std::string rare = "w" + std::to_string(i);
    text += "red " + std::string(i % 2 == 0 ? "blue" : "green") + "\t" + (i % 3 == 0 ? "yes" : rare) + "\n";
  }
  TranslateOptions o = small_options();
  o.tokens = "words";
  o.label_smoothing = 0;
  const Trained m(make_translate(o, text, "rare targets"), 60);
  Translator translator(m.metadata, m.parameters, *m.backend);
  for (const std::int64_t beam : {1, 4}) {
    CAPTURE(beam);
    const std::string line[] = {"red blue"};
    const Translator::Result result = translator.predict(line, {.beam = beam})[0];
    CHECK(result.targets.size() == static_cast<std::size_t>(beam));
    for (const ScoredText& target : result.targets)
      CHECK(target.text.find("\xEF\xBF\xBD") == std::string::npos);
  }
}

TEST_CASE("a beam of one is greedy") {
  Table table{{{0.5, 0.4, 0.1}, {0.3, 0.3, 0.4}}, {{{0}, {0.2, 0.7, 0.1}}}, {}, {}};
  for (const double penalty : {0.0, 2.0}) {
    const Hypothesis h = beam_search(table.step(), {.length_penalty = penalty, .end = 2});
    CHECK(h.tokens == Tokens{0, 1});  // 0.5, then 0.7 after a 0, then the end at 0.4
    CHECK(h.score == doctest::Approx(std::log(0.5 * 0.7 * 0.4) / std::pow(8.0 / 6.0, penalty)));
  }
}

TEST_CASE("a beam finds what greedy decoding misses, and a wide one the best of all") {
  // Greedy takes 0 (0.5) and is left with 0.4 of everything; 1 (0.4) goes on with certainty.
  Table table{{{0.5, 0.4, 0.1}, {0.3, 0.3, 0.4}}, {{{1}, {0.01, 0.98, 0.01}}, {{1, 1}, {0.01, 0.01, 0.98}}}, {}, {}};
  CHECK(beam_search(table.step(), {.beam = 1, .end = 2}).tokens == Tokens{0});
  const Hypothesis wide = beam_search(table.step(), {.beam = 3, .max_length = 5, .end = 2});
  CHECK(wide.tokens == Tokens{1, 1});
  CHECK(wide.score == doctest::Approx(std::log(0.4 * 0.98 * 0.98)));
}

TEST_CASE("a length penalty prefers longer texts") {
  Table table{{{0.5, 0.05, 0.45}, {0.3, 0.1, 0.6}}, {}, {}, {}};
  CHECK(beam_search(table.step(), {.beam = 4, .max_length = 6, .end = 2}).tokens.empty());  // 0.45 against 0.5 * 0.6
  CHECK_FALSE(beam_search(table.step(), {.beam = 4, .length_penalty = 3, .max_length = 6, .end = 2}).tokens.empty());
}

TEST_CASE("no n-gram comes twice where that is asked for, and a text that does not end is cut") {
  Table table{{{0.9, 0.09, 0.01}}, {}, {}, {}};
  CHECK(beam_search(table.step(), {.max_length = 4, .end = 2}).tokens == Tokens{0, 0, 0, 0});
  CHECK(beam_search(table.step(), {.no_repeat_ngram = 1, .max_length = 4, .end = 2}).tokens == Tokens{0, 1});
  const Tokens bigrams = beam_search(table.step(), {.beam = 2, .no_repeat_ngram = 2, .max_length = 9, .end = 2}).tokens;
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  for (std::size_t i = 0; i + 1 < bigrams.size(); ++i) CHECK(seen.emplace(bigrams[i], bigrams[i + 1]).second);
  CHECK_THROWS_AS(beam_search(table.step(), {.beam = 0, .end = 2}), Error);
}

TEST_CASE("bad pairs and options are refused with the line or the rule") {
  const TranslateOptions o = small_options();
  CHECK_THROWS_WITH_AS(make_translate(o, "a\tb\n\nab\n", "p.tsv"), doctest::Contains("line 3: expected a source"),
                       Error);
  CHECK_THROWS_WITH_AS(make_translate(o, "a\tb\n\tb\n", "p.tsv"), doctest::Contains("line 2: the source is empty"),
                       Error);
  CHECK_THROWS_WITH_AS(make_translate(o, "a\t\n", "p.tsv"), doctest::Contains("line 1: the target is empty"), Error);
  CHECK_THROWS_WITH_AS(make_translate(o, "a\xFF\tb\n", "p.tsv"), doctest::Contains("line 1: is not UTF-8"), Error);
  CHECK_THROWS_WITH_AS(make_translate(o, "", "p.tsv"), doctest::Contains("has no pairs"), Error);
  CHECK_THROWS_WITH_AS(make_translate(o, small_pairs(20) + std::string(1100, 'a') + "\tb\n", "p.tsv"),
                       doctest::Contains("line 21: a side has more than 1024 tokens"), Error);
  TranslateOptions other = o;
  other.attention = "none";
  CHECK_THROWS_WITH_AS(small_translate(other), doctest::Contains("Use one of dot|additive"), Error);
  other = o;
  other.tokens = "syllables";
  CHECK_THROWS_WITH_AS(small_translate(other), doctest::Contains("bpe"), Error);
  other = o;
  other.coverage = true;
  CHECK_THROWS_WITH_AS(small_translate(other), doctest::Contains("coverage needs additive attention"), Error);
  other.input_feeding = true;
  CHECK_NOTHROW(small_translate(other));
  other.attention = "dot";
  CHECK_THROWS_WITH_AS(small_translate(other), doctest::Contains("coverage needs additive attention"), Error);
}

}  // namespace test_translate
