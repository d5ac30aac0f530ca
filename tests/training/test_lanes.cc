// SPDX-License-Identifier: Apache-2.0
// Beam searches side by side: each finds what it finds alone, and a row is never idle while a source waits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/tasks/decode/lanes.h"
#include "unroll/support/error.h"

namespace test_lanes {

using namespace unroll;

namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t k_end = 6;

// Log probabilities of k_end + 1 tokens after `text`, at random for each source and text.
std::vector<float> logs_after(std::size_t source, const Tokens& text) {
  std::seed_seq seed(text.begin(), text.end());
  std::vector<std::uint32_t> mixed(1);
  seed.generate(mixed.begin(), mixed.end());
  std::mt19937 random(mixed[0] + static_cast<std::uint32_t>(source));
  std::vector<float> logs;
  for (std::int32_t v = 0; v <= k_end; ++v) logs.push_back(-static_cast<float>(random() % 1000) / 100 - 0.01F);
  return logs;
}

BeamOptions options_of(std::size_t source) {
  return {.beam = 3, .max_length = 1 + static_cast<std::int64_t>(source * 7 % 11), .end = k_end};
}

// The state of a lane is its text. What it must be follows from what the lane was told.
class TextsOfLanes final : public LaneModel {
 public:
  explicit TextsOfLanes(const Lanes& lanes)
      : per_row_(static_cast<std::size_t>(lanes.per_row)), texts_(static_cast<std::size_t>(lanes.count())) {}
  BeamSearch start(std::size_t source, std::size_t row) override {
    started.push_back(source);
    texts_[row * per_row_].clear();
    return BeamSearch(options_of(source));
  }
  void run(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) override {
    ++runs;
    std::vector<Tokens> next;
    for (std::size_t lane = 0; lane < tokens.size(); ++lane) {
      next.push_back(texts_[parents[lane]]);
      if (tokens[lane] != k_end) next.back().push_back(tokens[lane]);
    }
    texts_ = std::move(next);
  }
  void advance(std::size_t source, std::size_t row, BeamSearch& search) override {
    std::vector<std::vector<float>> logs;
    for (std::size_t i = 0; i < search.tokens().size(); ++i)
      logs.push_back(logs_after(source, texts_[row * per_row_ + i]));
    std::vector<NextTokens> lanes;
    for (const std::vector<float>& list : logs) lanes.push_back({.logits = list});
    search.advance(lanes);
    ++steps;
  }

  std::vector<std::size_t> started;
  std::size_t runs = 0, steps = 0;

 private:
  std::size_t per_row_;
  std::vector<Tokens> texts_;
};

Hypothesis alone(std::size_t source) {
  std::vector<Tokens> texts{{}};
  std::vector<float> logs;
  const BeamStep step = [&](std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) {
    std::vector<Tokens> next;
    logs.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      next.push_back(texts[parents[i]]);
      if (tokens[i] != k_end) next.back().push_back(tokens[i]);
      for (const float log : logs_after(source, next.back())) logs.push_back(log);
    }
    texts = std::move(next);
    return std::span<const float>(logs);
  };
  return beam_search(step, options_of(source));
}

}  // namespace

TEST_CASE("searches in rows find what each finds alone, in the order of the sources") {
  constexpr std::size_t k_sources = 40;
  for (const std::int64_t rows : {1, 3, 8, 64}) {
    CAPTURE(rows);
    const Lanes lanes{rows, 3};
    TextsOfLanes model(lanes);
    const auto found = search_lanes(model, k_sources, lanes, k_end);
    REQUIRE(found.size() == k_sources);
    for (std::size_t s = 0; s < k_sources; ++s) {
      CAPTURE(s);
      const Hypothesis expected = alone(s);
      REQUIRE(!found[s].empty());
      CHECK(found[s][0].tokens == expected.tokens);
      CHECK(found[s][0].score == expected.score);
    }
    CHECK(std::is_sorted(model.started.begin(), model.started.end()));
    CHECK(model.started.size() == k_sources);
    // Until the last source has started, every row works in every run; after that a search takes at most 11 steps.
    CHECK(model.runs <= model.steps / static_cast<std::size_t>(rows) + 11);
  }
}

TEST_CASE("no source at all needs no run") {
  TextsOfLanes model({2, 3});
  CHECK(search_lanes(model, 0, {2, 3}, k_end).empty());
  CHECK(model.runs == 0);
}

TEST_CASE("the best tokens are found wherever they stand, beside numbers that are none") {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    const std::size_t V = 1 + random() % 700;
    const auto end = static_cast<std::int32_t>(random() % V);
    std::vector<float> logits;
    for (std::size_t v = 0; v < V; ++v)
      logits.push_back(random() % 9 == 0   ? std::numeric_limits<float>::quiet_NaN()
                       : random() % 9 == 1 ? -HUGE_VALF
                                           : -static_cast<float>(random() % 50) / 4);
    std::vector<NextTokens::Other> others;
    for (std::int32_t k = 0; k < 5; ++k)
      others.push_back({static_cast<std::int32_t>(V) + k, -static_cast<double>(random() % 100) / 8 - 1.5});
    const double shift = -1.5;
    std::vector<std::pair<double, std::int32_t>> wanted;  // by falling score, then by token
    for (std::size_t v = 0; v < V; ++v)
      if (static_cast<std::int32_t>(v) != end && logits[v] > -HUGE_VALF)
        wanted.emplace_back(-(static_cast<double>(logits[v]) + shift), static_cast<std::int32_t>(v));
    for (const NextTokens::Other& other : others) wanted.emplace_back(-other.log_probability, other.token);
    std::sort(wanted.begin(), wanted.end());
    logits[static_cast<std::size_t>(end)] = -HUGE_VALF;
    BeamSearch search({.beam = 4, .max_length = 5, .end = end});
    const NextTokens lane[] = {{logits, shift, others}};
    search.advance(lane);
    REQUIRE(search.tokens().size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(search.tokens()[i] == wanted[i].second);
  }
}

TEST_CASE("a model whose output is not a number ends the search with an error") {
  const std::vector<float> logits(100, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> numbers(100, -4.6F);
  BeamSearch search({.beam = 2, .end = 3});
  const NextTokens bad[] = {{.logits = logits}}, shifted[] = {{.logits = numbers, .shift = std::nan("")}};
  CHECK_THROWS_WITH_AS(search.advance(bad), doctest::Contains("not a number"), Error);
  CHECK_THROWS_WITH_AS(search.advance(shifted), doctest::Contains("not a number"), Error);
}

}  // namespace test_lanes
