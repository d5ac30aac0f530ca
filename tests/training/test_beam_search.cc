// SPDX-License-Identifier: Apache-2.0
// Beam search against exhaustive search: random models of three tokens and the end, texts of up to five tokens.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "core/tasks/decode/beam_search.h"

using namespace unroll;

namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t k_end = 3;
constexpr std::size_t k_tokens = 4;

// Log probabilities of the next token, and what the caller adds to the score of a text that ends, at random for each
// text before it.
class RandomModel {
 public:
  RandomModel(unsigned seed, bool has_bonuses) : seed_(seed), has_bonuses_(has_bonuses) {}

  std::vector<float> logs_after(const Tokens& text) const {
    std::mt19937 random = engine(text);
    std::uniform_real_distribution<float> weight(0.01F, 1);
    std::vector<float> logs;
    float total = 0;
    for (std::size_t v = 0; v < k_tokens; ++v) total += logs.emplace_back(std::pow(weight(random), 3.0F));
    for (float& log : logs) log = std::log(log / total);
    return logs;
  }
  double bonus_after(const Tokens& text) const {
    std::mt19937 random = engine(text);
    random.discard(100);
    return has_bonuses_ ? -2 * std::uniform_real_distribution<double>(0, 1)(random) : 0;
  }

 private:
  std::mt19937 engine(const Tokens& text) const {
    std::vector<std::uint32_t> words{seed_};
    words.insert(words.end(), text.begin(), text.end());
    std::seed_seq sequence(words.begin(), words.end());
    return std::mt19937(sequence);
  }

  unsigned seed_;
  bool has_bonuses_;
};

std::vector<Hypothesis> search(const RandomModel& model, const BeamOptions& options) {
  BeamSearch beam(options);
  std::vector<Tokens> texts{{}};
  for (bool is_first = true; !beam.done(); is_first = false) {
    std::vector<Tokens> next;
    std::vector<std::vector<float>> logs;
    std::vector<double> bonuses;
    for (std::size_t i = 0; i < beam.tokens().size(); ++i) {
      next.push_back(texts[beam.parents()[i]]);
      if (!is_first) next.back().push_back(beam.tokens()[i]);
      logs.push_back(model.logs_after(next.back()));
      bonuses.push_back(model.bonus_after(next.back()));
    }
    std::vector<NextTokens> lanes;
    for (const std::vector<float>& list : logs) lanes.push_back({.logits = list});
    beam.advance(lanes, bonuses);
    texts = std::move(next);
  }
  return beam.ranked();
}

bool repeats_ngram(const Tokens& text, std::int64_t n) {
  std::set<Tokens> seen;
  for (std::size_t i = 0; n > 0 && i + static_cast<std::size_t>(n) <= text.size(); ++i) {
    const auto first = text.begin() + static_cast<std::ptrdiff_t>(i);
    if (!seen.emplace(first, first + n).second) return true;
  }
  return false;
}

// The best text that ends before max_length tokens, or the best of max_length tokens where none may end.
class Exhaustive {
 public:
  Exhaustive(const RandomModel& model, const BeamOptions& options) : model_(model), o_(options) { visit({}, 0); }
  const Hypothesis& best() const { return ended_.score > -HUGE_VAL ? ended_ : cut_; }

 private:
  void visit(const Tokens& text, double log_probability) {
    const std::vector<float> logs = model_.logs_after(text);
    const double bonus = model_.bonus_after(text);
    const auto length = static_cast<std::int64_t>(text.size());
    if (length >= o_.min_length) keep(ended_, {text, log_probability + static_cast<double>(logs[k_end]), 0, bonus}, 1);
    for (std::int32_t v = 0; v < k_end; ++v) {
      Tokens longer = text;
      longer.push_back(v);
      if (v == o_.never || repeats_ngram(longer, o_.no_repeat_ngram)) continue;
      const double next = log_probability + static_cast<double>(logs[static_cast<std::size_t>(v)]);
      if (length + 1 < o_.max_length) visit(longer, next);
      else keep(cut_, {longer, next, 0, bonus}, 0);
    }
  }
  void keep(Hypothesis& best, Hypothesis h, double end) const {
    const double length = static_cast<double>(h.tokens.size()) + end;
    h.score = h.log_probability / std::pow((5 + length) / 6, o_.length_penalty) + h.bonus;
    if (h.score > best.score) best = std::move(h);
  }

  const RandomModel& model_;
  const BeamOptions& o_;
  Hypothesis ended_{{}, 0, -HUGE_VAL}, cut_{{}, 0, -HUGE_VAL};
};

// Greedy decoding, written once more: the likeliest token that is allowed, until it is the end.
Tokens greedy(const RandomModel& model, const BeamOptions& o) {
  Tokens text;
  while (static_cast<std::int64_t>(text.size()) < o.max_length) {
    const std::vector<float> logs = model.logs_after(text);
    std::int32_t best = -1;
    for (std::int32_t v = 0; v <= k_end; ++v) {
      Tokens longer = text;
      longer.push_back(v);
      const bool is_allowed = v == k_end ? static_cast<std::int64_t>(text.size()) >= o.min_length
                                         : v != o.never && !repeats_ngram(longer, o.no_repeat_ngram);
      const auto log_of = [&](std::int32_t token) { return logs[static_cast<std::size_t>(token)]; };
      if (is_allowed && (best < 0 || log_of(v) > log_of(best))) best = v;
    }
    if (best == k_end || best < 0) break;
    text.push_back(best);
  }
  return text;
}

std::vector<BeamOptions> many_options() {
  std::vector<BeamOptions> list;
  for (const double penalty : {0.0, 0.6, 1.0, 2.5, -0.5})
    for (const std::int64_t longest : {1, 2, 5}) {
      const BeamOptions plain{.length_penalty = penalty, .max_length = longest, .end = k_end};
      list.push_back(plain);
      for (const std::int64_t ngram : {1, 2}) list.push_back(plain), list.back().no_repeat_ngram = ngram;
      for (std::int64_t shortest = 1; shortest <= longest; shortest += 2)
        list.push_back(plain), list.back().min_length = shortest;
      list.push_back(plain), list.back().never = 1;
    }
  return list;
}

}  // namespace

TEST_CASE("a beam as wide as all texts finds what exhaustive search finds") {
  for (unsigned seed = 0; seed < 20; ++seed)
    for (const bool has_bonuses : {false, true})
      for (BeamOptions options : many_options()) {
        CAPTURE(seed);
        CAPTURE(has_bonuses);
        CAPTURE(options.length_penalty);
        CAPTURE(options.max_length);
        CAPTURE(options.min_length);
        CAPTURE(options.no_repeat_ngram);
        CAPTURE(options.never);
        options.beam = 1024;  // 3^5 texts of five tokens, and 121 shorter ones
        const RandomModel model(seed, has_bonuses);
        const Hypothesis found = search(model, options).front(), wanted = Exhaustive(model, options).best();
        CHECK(found.tokens == wanted.tokens);
        CHECK(found.log_probability == wanted.log_probability);  // the same sum in the same order
        CHECK(found.score == doctest::Approx(wanted.score).epsilon(1e-12));
      }
}

TEST_CASE("a narrow beam ends with no live text that scores better than the best that ended") {
  // The end is unlikely, but soon among the first three candidates: the likeliest text has five tokens.
  const std::vector<float> logs{std::log(0.97F), std::log(0.01F), std::log(0.005F), std::log(0.015F)};
  const std::vector<float> end{std::log(0.01F), std::log(0.01F), std::log(0.01F), std::log(0.97F)};
  std::vector<float> all;
  std::size_t length = 0;
  const BeamStep step = [&](std::span<const std::int32_t> tokens, std::span<const std::size_t>) {
    const std::vector<float>& each = length++ < 5 ? logs : end;
    all.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) all.insert(all.end(), each.begin(), each.end());
    return std::span<const float>(all);
  };
  CHECK(beam_search(step, {.beam = 3, .max_length = 9, .end = k_end}).tokens == Tokens{0, 0, 0, 0, 0});
}

TEST_CASE("a beam of one finds what greedy decoding finds") {
  for (unsigned seed = 0; seed < 200; ++seed)
    for (const BeamOptions& options : many_options()) {
      CAPTURE(seed);
      CAPTURE(options.min_length);
      CAPTURE(options.no_repeat_ngram);
      const RandomModel model(seed, false);
      CHECK(search(model, options).front().tokens == greedy(model, options));
    }
}
