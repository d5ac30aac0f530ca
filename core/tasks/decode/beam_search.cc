// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/beam_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "unroll/support/error.h"

namespace unroll {

namespace {

struct Candidate {
  double score;
  std::size_t lane;
  std::int32_t token;
};
bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.lane != b.lane ? a.lane < b.lane : a.token < b.token;
}

double penalized(double log_probability, std::size_t length, double alpha) {
  return log_probability / std::pow((5.0 + static_cast<double>(length)) / 6.0, alpha);
}

// True if `token` after `tokens` repeats an n-gram.
bool repeats(const std::vector<std::int32_t>& tokens, std::int32_t token, std::int64_t n) {
  const std::size_t before = n - 1;
  if (n < 1 || tokens.size() < before) return false;
  const auto* last = tokens.data() + tokens.size() - before;
  for (std::size_t i = 0; i + before < tokens.size(); ++i)
    if (tokens[i + before] == token && std::equal(last, last + before, tokens.data() + i)) return true;
  return false;
}

bool allows(const BeamOptions& o, const std::vector<std::int32_t>& tokens, std::int32_t token) {
  if (token == o.end) return std::ssize(tokens) >= o.min_length;
  return token != o.never && !repeats(tokens, token, o.no_repeat_ngram);
}

// Returns the largest number among these; -infinity if there is none. Uses four accumulators, because a compiler may
// not reorder a single maximum.
float largest(std::span<const float> values) {
  std::array<float, 4> most;
  most.fill(-HUGE_VALF);
  std::size_t i = 0;
  for (; i + most.size() <= values.size(); i += most.size())
    for (std::size_t k = 0; k < most.size(); ++k) most[k] = values[i + k] > most[k] ? values[i + k] : most[k];
  for (; i < values.size(); ++i) most[0] = values[i] > most[0] ? values[i] : most[0];
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

// Keeps the `count` best added candidates in a heap with the worst on top.
class BestCandidates {
 public:
  explicit BestCandidates(std::size_t count) : count_(count) {}
  double least() const { return heap_.size() < count_ ? -HUGE_VAL : heap_.front().score; }  // minimum score to be kept
  bool takes(const Candidate& c) const { return heap_.size() < count_ || better(c, heap_.front()); }
  void add(const Candidate& c) {
    heap_.push_back(c);
    std::push_heap(heap_.begin(), heap_.end(), better);
    if (heap_.size() <= count_) return;
    std::pop_heap(heap_.begin(), heap_.end(), better);
    heap_.pop_back();
  }
  std::vector<Candidate> sorted() && {
    std::sort_heap(heap_.begin(), heap_.end(), better);
    return std::move(heap_);
  }

 private:
  std::size_t count_;
  std::vector<Candidate> heap_;
};

// The `count` best continuations of all hypotheses. Tokens with zero probability are excluded.
class Candidates {
 public:
  Candidates(const std::vector<Hypothesis>& live, const BeamOptions& options, std::size_t count)
      : live_(live), options_(options), best_(count), ends_(count) {}

  void add(std::size_t lane, const NextTokens& next) {
    const double before = live_[lane].log_probability + next.shift;
    const auto score_of = [&](float logit) { return before + static_cast<double>(logit); };
    constexpr std::size_t k_block = 64;  // most blocks have no sufficient score
    for (std::size_t at = 0; at < next.logits.size(); at += k_block) {
      const auto block = next.logits.subspan(at, std::min(k_block, next.logits.size() - at));
      if (!is_good(score_of(largest(block)))) continue;
      for (std::size_t i = 0; i < block.size(); ++i)
        offer({score_of(block[i]), lane, static_cast<std::int32_t>(at + i)});
    }
    if (const std::size_t end = options_.end; end < next.logits.size())
      if (const double score = score_of(next.logits[end]); score > -HUGE_VAL)
        ends_.add({score, lane, options_.end});
    for (const NextTokens::Other& other : next.others)
      offer({live_[lane].log_probability + other.log_probability, lane, other.token});
  }
  // Returns the candidates, best first. If every token is forbidden, the hypotheses end.
  std::vector<Candidate> sorted() && {
    std::vector<Candidate> list = std::move(best_).sorted();
    return list.empty() ? std::move(ends_).sorted() : list;
  }

 private:
  bool is_good(double score) const { return score >= best_.least() && score > -HUGE_VAL; }  // false for NaN
  void offer(const Candidate& c) {
    if (is_good(c.score) && best_.takes(c) && allows(options_, live_[c.lane].tokens, c.token)) best_.add(c);
  }

  const std::vector<Hypothesis>& live_;
  const BeamOptions& options_;
  BestCandidates best_, ends_;
};

}  // namespace

BeamSearch::BeamSearch(const BeamOptions& options)
    : options_(options), live_(1), tokens_{options.end}, parents_{0} {
  if (options.beam < 1 || options.max_length < 1 || options.no_repeat_ngram < 0 ||
      !std::isfinite(options.length_penalty))
    throw Error(ErrorKind::usage, "beam search",
                "beam and max_length must be at least 1, no_repeat_ngram at least 0; got " +
                    std::to_string(options.beam) + ", " + std::to_string(options.max_length) + " and " +
                    std::to_string(options.no_repeat_ngram));
  if (options.min_length < 0 || options.min_length > options.max_length)
    throw Error(ErrorKind::usage, "beam search",
                "min_length must be between 0 and max_length = " + std::to_string(options.max_length) + "; got " +
                    std::to_string(options.min_length));
}

bool BeamSearch::done() const {
  if (length_ >= options_.max_length || live_.empty()) return true;
  if (std::ssize(finished_) < options_.beam) return false;
  if (options_.beam == 1) return true;  // greedy, for any length penalty
  // An upper bound: the likeliest hypothesis if it ended now with certainty. With a small vocabulary the end token is
  // soon among the first `beam` candidates, even if it is unlikely.
  const Hypothesis& likeliest = live_.front();
  return best_finished_ >= penalized(likeliest.log_probability, likeliest.tokens.size() + 1, options_.length_penalty) +
                               likeliest.bonus;
}

void BeamSearch::finish(Hypothesis hypothesis, std::size_t length) {
  hypothesis.score = penalized(hypothesis.log_probability, length, options_.length_penalty) + hypothesis.bonus;
  best_finished_ = std::max(best_finished_, hypothesis.score);
  finished_.push_back(std::move(hypothesis));
}

void BeamSearch::advance(std::span<const NextTokens> lanes, std::span<const double> bonuses) {
  const std::size_t beam = options_.beam;
  // Twice the beam, because at most every second candidate ends.
  Candidates found(live_, options_, 2 * beam);
  for (std::size_t lane = 0; lane < live_.size(); ++lane) found.add(lane, lanes[lane]);
  const std::vector<Candidate> candidates = std::move(found).sorted();
  if (candidates.empty()) throw Error(ErrorKind::numeric, "beam search", "the model's output is not a number");
  std::vector<Hypothesis> next;
  tokens_.clear();
  parents_.clear();
  for (std::size_t rank = 0; rank < candidates.size() && next.size() < beam; ++rank) {
    const Candidate& c = candidates[rank];
    Hypothesis h{live_[c.lane].tokens, c.score, 0, bonuses.empty() ? 0 : bonuses[c.lane]};
    if (c.token == options_.end) {
      if (rank < beam) finish(std::move(h), live_[c.lane].tokens.size() + 1);
      continue;
    }
    h.tokens.push_back(c.token);
    next.push_back(std::move(h));
    tokens_.push_back(c.token);
    parents_.push_back(c.lane);
  }
  live_ = std::move(next);
  ++length_;
}

std::vector<Hypothesis> BeamSearch::ranked() const {
  BeamSearch all = *this;
  if (finished_.empty())
    for (const Hypothesis& h : live_) all.finish(h, h.tokens.size());
  std::stable_sort(all.finished_.begin(), all.finished_.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (std::ssize(all.finished_) > options_.beam) all.finished_.resize(options_.beam);
  return all.finished_;
}

Hypothesis beam_search(const BeamStep& step, const BeamOptions& options) {
  BeamSearch search(options);
  std::vector<NextTokens> next;
  while (!search.done()) {
    const std::span<const float> logs = step(search.tokens(), search.parents());
    const std::size_t lanes = search.tokens().size(), V = logs.size() / lanes;
    next.clear();
    for (std::size_t lane = 0; lane < lanes; ++lane) next.push_back({.logits = logs.subspan(lane * V, V)});
    search.advance(next);
  }
  return search.best();
}

}  // namespace unroll
