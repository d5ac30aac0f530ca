// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/translate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "unroll/error.h"

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

// Whether `token` after `tokens` makes n in a row that were there before.
bool repeats(const std::vector<std::int32_t>& tokens, std::int32_t token, std::int64_t n) {
  const auto before = static_cast<std::size_t>(n - 1);
  if (n < 1 || tokens.size() < before) return false;
  const auto* last = tokens.data() + tokens.size() - before;
  for (std::size_t i = 0; i + before < tokens.size(); ++i)
    if (tokens[i + before] == token && std::equal(last, last + before, tokens.data() + i)) return true;
  return false;
}

// The `count` best ways to go on from any hypothesis.
std::vector<Candidate> best_candidates(const std::vector<Hypothesis>& live, std::span<const float> logs,
                                       const BeamOptions& o, std::size_t count) {
  const std::size_t V = logs.size() / live.size();
  std::vector<Candidate> all;
  for (std::size_t lane = 0; lane < live.size(); ++lane)
    for (std::size_t v = 0; v < V; ++v) {
      const auto token = static_cast<std::int32_t>(v);
      const double log_probability = static_cast<double>(logs[lane * V + v]);
      if (std::isnan(log_probability)) continue;
      if (token != o.end && repeats(live[lane].tokens, token, o.no_repeat_ngram)) continue;
      all.push_back({live[lane].log_probability + log_probability, lane, token});
    }
  if (all.empty()) throw Error(ErrorKind::numeric, "beam search", "the model's output is not a number");
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
  std::partial_sort(all.begin(), end, all.end(), better);
  all.erase(end, all.end());
  return all;
}

}  // namespace

BeamSearch::BeamSearch(const BeamOptions& options)
    : options_(options), live_(1), tokens_{options.end}, parents_{0} {
  if (options.beam < 1 || options.max_length < 1 || options.no_repeat_ngram < 0 ||
      !std::isfinite(options.length_penalty))
    throw Error(ErrorKind::usage, "beam search",
                "beam and max_length must be at least 1, no_repeat_ngram at least 0; got " +
                    std::to_string(options.beam) + ", " + std::to_string(options.max_length) + " and " +
                    std::to_string(options.no_repeat_ngram));
}

bool BeamSearch::done() const {
  return length_ >= options_.max_length || finished_.size() >= static_cast<std::size_t>(options_.beam) ||
         live_.empty();
}

void BeamSearch::finish(Hypothesis hypothesis, std::size_t length) {
  hypothesis.score = penalized(hypothesis.log_probability, length, options_.length_penalty);
  finished_.push_back(std::move(hypothesis));
}

void BeamSearch::advance(std::span<const float> logs) {
  const auto beam = static_cast<std::size_t>(options_.beam);
  // Twice as many as are kept: at most every second one ends.
  const std::vector<Candidate> candidates = best_candidates(live_, logs, options_, 2 * beam);
  std::vector<Hypothesis> next;
  tokens_.clear();
  parents_.clear();
  for (std::size_t rank = 0; rank < candidates.size() && next.size() < beam; ++rank) {
    const Candidate& c = candidates[rank];
    Hypothesis h{live_[c.lane].tokens, c.score, 0};
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

Hypothesis BeamSearch::best() const {
  BeamSearch all = *this;
  // What is cut at max_length counts only where nothing has ended.
  if (finished_.empty())
    for (const Hypothesis& h : live_) all.finish(h, h.tokens.size());
  return *std::max_element(all.finished_.begin(), all.finished_.end(),
                           [](const Hypothesis& a, const Hypothesis& b) { return a.score < b.score; });
}

Hypothesis beam_search(const BeamStep& step, const BeamOptions& options) {
  BeamSearch search(options);
  while (!search.done()) search.advance(step(search.tokens(), search.parents()));
  return search.best();
}

}  // namespace unroll
