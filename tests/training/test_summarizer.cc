// SPDX-License-Identifier: Apache-2.0
// Decoding of the pointer-generator network: beam search against all texts, copies, batches, bad input.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/tasks/decode/beam_search.h"
#include "core/tasks/decode/lanes.h"
#include "core/tasks/decode/pair_text.h"
#include "tests/training/held_memory.h"
#include "tests/training/small_summaries.h"
#include "tests/training/small_tasks.h"
#include "tests/training/text_scorer.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

using Tokens = std::vector<std::int32_t>;
const std::string k_report = "the rain of spain came";  // rain and spain are unknown

Trained trained_summaries(const SummarizeOptions& o, const std::string& text, std::int64_t updates) {
  return Trained(make_summarize(o, text, "small"), updates);
}

SummarizeOptions tiny_options() {
  SummarizeOptions o = small_summary_options();
  o.tokens = "words";
  o.label_smoothing = 0;
  o.target_tokens = 3;
  return o;
}
const std::string k_tiny = "a x b\tx a\nb y a\ty b\na z b\tz a\nb w a\tw b\na v b\tv a\nb u a\tu b\n";

// Every text of at most `longest` tokens without the unknown one, as the search may write it.
std::vector<Tokens> all_texts(const Scorer& s, std::size_t shortest, std::size_t longest) {
  Tokens words;
  for (std::int32_t id = 0; id < s.coder.tokens() + static_cast<std::int32_t>(s.source.extended.size()); ++id)
    if (id != s.coder.end() && id != s.coder.target_tokenizer().unknown()) words.push_back(id);
  std::vector<Tokens> all{{}}, kept;
  for (std::size_t from = 0, length = 0; length < longest; ++length) {
    const std::size_t end = all.size();
    for (; from < end; ++from)
      for (const std::int32_t word : words) {
        all.push_back(all[from]);
        all.back().push_back(word);
      }
  }
  for (Tokens& text : all)
    if (text.size() >= shortest && text.size() < longest) kept.push_back(std::move(text));
  return kept;
}

}  // namespace

TEST_CASE("a wide beam writes the best of all texts") {
  Scorer s(trained_summaries(tiny_options(), k_tiny, 40), "a q b");
  struct Row {
    double length_penalty, coverage_penalty;
    std::int64_t min_length;
  };
  for (const Row& row : {Row{0, 0, 0}, Row{1.5, 0, 0}, Row{0, 0.5, 0}, Row{0.7, 0.3, 0}, Row{0, 0, 2}}) {
    CAPTURE(row.length_penalty);
    CAPTURE(row.coverage_penalty);
    CAPTURE(row.min_length);
    Tokens best;
    double best_score = -HUGE_VAL, best_log = 0;
    for (const Tokens& text : all_texts(s, static_cast<std::size_t>(row.min_length), 3)) {
      const Scorer::Score found = s.score(text);
      const double score =
          found.log_probability / std::pow((6.0 + static_cast<double>(text.size())) / 6.0, row.length_penalty) +
          row.coverage_penalty * coverage_penalty(found.coverage);
      if (score <= best_score) continue;
      best = text;
      best_score = score;
      best_log = found.log_probability;
    }
    Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
    const std::string line[] = {"a q b"};
    const auto result = summarizer.predict(line, {.beam = 1000,
                                                  .length_penalty = row.length_penalty,
                                                  .min_length = row.min_length,
                                                  .coverage_penalty = row.coverage_penalty})[0];
    REQUIRE(!result.summaries.empty());
    CHECK(result.summaries[0].text == s.coder.text_of(best, s.source));
    CHECK(result.summaries[0].log_probability == doctest::Approx(best_log).epsilon(1e-4));
    CHECK(result.summaries[0].score == doctest::Approx(best_score).epsilon(1e-4));
  }
}

TEST_CASE("a beam of 4 writes what a search writes that runs every hypothesis from the beginning") {
  Scorer s(trained_summaries(tiny_options(), k_tiny, 40), "a q b");
  std::size_t exact = 0;
  const std::vector<std::string> lines{"a q b", "b q a", "a b", "q", "r q a b", "b"};
  for (const std::string& line : lines) {
    CAPTURE(line);
    s.source = s.coder.source(line, "test");
    constexpr std::size_t beam = 4, longest = 3;
    struct Path {
      Tokens text;
      double log_probability;
      bool operator<(const Path& other) const { return log_probability > other.log_probability; }  // the best first
    };
    std::vector<Path> live{{{}, 0}}, ended;
    for (std::size_t length = 0; length < longest && ended.size() < beam; ++length) {
      std::vector<Path> next;
      for (const Path& path : live)
        for (const Tokens& text : all_texts(s, 0, 2)) {  // each word, and the end as no word
          Path longer = path;
          longer.text.insert(longer.text.end(), text.begin(), text.end());
          longer.log_probability = text.empty() ? s.score(path.text).log_probability : s.prefix(longer.text);
          if (text.empty()) longer.text.push_back(s.coder.end());
          next.push_back(longer);
        }
      std::stable_sort(next.begin(), next.end());
      live.clear();
      for (std::size_t rank = 0; rank < std::min(next.size(), 2 * beam) && live.size() < beam; ++rank) {
        const bool ends = next[rank].text.back() == s.coder.end();
        if (ends && rank < beam) ended.push_back(next[rank]);
        if (!ends) live.push_back(next[rank]);
      }
    }
    const bool cut = ended.empty();  // then the texts count that reached the longest length
    for (Path& path : live) {
      path.text.push_back(s.coder.end());
      if (cut) ended.push_back(path);
    }
    std::stable_sort(ended.begin(), ended.end());
    Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
    const auto result = summarizer.predict({&line, 1}, {.beam = beam})[0];
    REQUIRE(result.summaries.size() == std::min(ended.size(), beam));
    for (std::size_t k = 0; k < result.summaries.size(); ++k) {
      ended[k].text.pop_back();
      CHECK(result.summaries[k].text == s.coder.text_of(ended[k].text, s.source));
      CHECK(result.summaries[k].log_probability == doctest::Approx(ended[k].log_probability).epsilon(1e-4));
    }
    Tokens best;
    for (const Tokens& text : all_texts(s, 0, longest))
      if (s.score(text).log_probability > s.score(best).log_probability) best = text;
    exact += cut || result.summaries[0].text == s.coder.text_of(best, s.source);
  }
  CHECK(exact == lines.size());  // on so few words a beam of 4 finds the best of all texts that end
}

TEST_CASE("a thousand texts take the memory of a few") {
  const Scorer s(trained_summaries(small_summary_options(), small_summaries(), 5), k_report);
  Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; ++i) {
    lines.push_back("the report");
    for (int k = 0; k < 1 + i * 7 % 60; ++k) lines.back() += " word" + std::to_string(i + k);
  }
  const auto peak = [&](std::span<const std::string> part) {
    held = most_held = 0;
    counting = true;
    const auto results = summarizer.predict(part, {.beam = 4});
    counting = false;
    CHECK(results.size() == part.size());
    return most_held;
  };
  const std::size_t few = peak(std::span(lines).first(200)), many = peak(lines);
  std::size_t text = 0;  // what is held of the inputs and answers themselves grows with their number
  for (const std::string& line : lines) text += line.size();
  CHECK(many < 2 * few + 40 * text);
}

TEST_CASE("the model learns to copy names that it has never seen") {
  SummarizeOptions o = small_summary_options();
  o.model.hidden = 24;
  o.embedding = 12;
  o.coverage = false;
  o.label_smoothing = 0;
  Scorer s(trained_summaries(o, small_summaries(400), 150), k_report);
  Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
  std::int64_t right = 0, n = 0;
  s.trained.task = make_summarize(o, small_summaries(400), "small", s.trained.metadata);
  const auto& task = dynamic_cast<const PairTask&>(*s.trained.task);
  task.for_each_pair(Split::test, [&](const PairTask::Pair& pair) {
    right += summarizer.summarize(pair.source) == pair.target;
    ++n;
  });
  CHECK(right * 10 >= n * 9);
  CHECK(summarizer.summarize(k_report) == "rain came");
  CHECK(summarizer.summarize(k_report, {.beam = 4}) == "rain came");

  const Summarizer::Attention a = summarizer.attention(k_report, "rain came");
  CHECK(a.source == std::vector<std::string>{" the", " rain", " of", " spain", " came"});
  CHECK(a.target == std::vector<std::string>{" rain", " came", ""});
  REQUIRE(a.weights.size() == 15);
  CHECK(a.weights[1] > 0.5);  // " rain" is copied from the second word
  CHECK(a.p_gen[0] < 0.1);

  const std::string line[] = {k_report};
  const auto result = summarizer.predict(line, {.beam = 3})[0];
  CHECK(result.tokens == 5);
  CHECK(result.unknown == 2);
  CHECK(result.summaries.size() <= 3);
  CHECK(std::is_sorted(result.summaries.begin(), result.summaries.end(),
                       [](const auto& one, const auto& next) { return one.score > next.score; }));
}

TEST_CASE("texts in a batch give what each gives alone") {
  const Scorer s(trained_summaries(small_summary_options(), small_summaries(), 20), k_report);
  Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
  const std::vector<std::string> lines{k_report, "", "the a of b left", "x", "  ",
                                       "today the c of d came today the c of d",
                                       "zzz yyy xxx www vvv uuu ttt sss"};
  for (const DecodeOptions& how : {DecodeOptions{}, DecodeOptions{.beam = 3, .no_repeat_ngram = 1, .max_length = 6}}) {
    const auto many = summarizer.predict(lines, how);
    REQUIRE(many.size() == lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(lines[i]);
      const auto one = summarizer.predict({&lines[i], 1}, how)[0];
      REQUIRE(one.summaries.size() == many[i].summaries.size());
      CHECK(one.summaries.empty() == (lines[i].find_first_not_of(' ') == std::string::npos));
      for (std::size_t k = 0; k < one.summaries.size(); ++k) {
        CHECK(one.summaries[k].text == many[i].summaries[k].text);
        CHECK(one.summaries[k].log_probability == doctest::Approx(many[i].summaries[k].log_probability).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("the unknown token is never written, and lengths are kept") {
  for (const bool pointer : {true, false}) {
    SummarizeOptions o = small_summary_options();
    o.pointer = o.coverage = pointer;
    const Scorer s(trained_summaries(o, small_summaries(), 5), k_report);
    Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
    for (const std::int64_t beam : {1, 4, 500}) {
      const std::string line[] = {k_report};
      const auto result = summarizer.predict(line, {.beam = beam, .min_length = 4, .max_length = 6})[0];
      for (const auto& summary : result.summaries) {
        CHECK(summary.text.find("\xEF\xBF\xBD") == std::string::npos);
        const std::size_t words = s.coder.source(summary.text, "test").ids.size();
        CHECK(words >= 4);
        CHECK(words <= 6);
      }
    }
  }
}

TEST_CASE("what cannot be read is refused, and what is too long is cut and counted") {
  SummarizeOptions o = small_summary_options();
  o.source_tokens = 6;
  const Scorer s(trained_summaries(o, small_summaries(), 5), k_report);
  Summarizer summarizer(s.trained.metadata, s.trained.parameters, *s.trained.backend);
  CHECK(summarizer.summarize("").empty());
  CHECK_THROWS_WITH_AS(summarizer.summarize("a\xFF"), doctest::Contains("not UTF-8 at byte 2"), Error);
  const std::string lines[] = {k_report + " today and again", k_report};
  const auto results = summarizer.predict(lines);
  CHECK(results[0].cut == 2);
  CHECK(results[0].tokens == 6);
  CHECK(results[1].cut == 0);
  CHECK_THROWS_WITH_AS(summarizer.summarize(k_report, {.min_length = 9, .max_length = 3}),
                       doctest::Contains("min_length must be between 0 and max_length = 3"), Error);
  CHECK_THROWS_WITH_AS(Summarizer({{"task", "translate"}}, {}, *s.trained.backend),
                       doctest::Contains("expected 'summarize'"), Error);
}

TEST_CASE("a text that may not go on ends before its least length") {
  // Two letters and the end (2): after both letters no new one is left.
  const std::vector<float> logs{std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  const BeamStep step = [&](std::span<const std::int32_t>, std::span<const std::size_t>) {
    return std::span<const float>(logs);
  };
  CHECK(beam_search(step, {.no_repeat_ngram = 1, .min_length = 4, .max_length = 9, .end = 2}).tokens == Tokens{0, 1});
  CHECK(beam_search(step, {.min_length = 4, .max_length = 4, .end = 2}).tokens == Tokens{0, 0, 0, 0});
  CHECK(beam_search(step, {.max_length = 2, .end = 2, .never = 0}).tokens == Tokens{1, 1});
}
