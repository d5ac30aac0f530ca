// SPDX-License-Identifier: Apache-2.0
#include "frontends/model/tasks/beam_search.h"

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

double penalised(double log_probability, std::size_t length, double alpha) {
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
      all.push_back({live[lane].score + log_probability, lane, token});
    }
  if (all.empty()) throw Error(ErrorKind::numeric, "beam search", "the model's output is not a number");
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
  std::partial_sort(all.begin(), end, all.end(), better);
  all.erase(end, all.end());
  return all;
}

}  // namespace

Hypothesis beam_search(const BeamStep& step, const BeamOptions& o) {
  if (o.beam < 1 || o.max_length < 1 || o.no_repeat_ngram < 0 || !std::isfinite(o.length_penalty))
    throw Error(ErrorKind::usage, "beam search",
                "beam and max_length must be at least 1, no_repeat_ngram at least 0; got " + std::to_string(o.beam) +
                    ", " + std::to_string(o.max_length) + " and " + std::to_string(o.no_repeat_ngram));
  const auto beam = static_cast<std::size_t>(o.beam);
  std::vector<Hypothesis> live(1), finished;
  std::vector<std::int32_t> tokens{o.end};
  std::vector<std::size_t> parents{0};
  const auto finish = [&](Hypothesis h, std::size_t length) {
    h.score = penalised(h.score, length, o.length_penalty);
    finished.push_back(std::move(h));
  };
  for (std::int64_t length = 0; length < o.max_length && finished.size() < beam && !live.empty(); ++length) {
    // Twice as many as are kept: at most every second one ends.
    const std::vector<Candidate> candidates = best_candidates(live, step(tokens, parents), o, 2 * beam);
    std::vector<Hypothesis> next;
    tokens.clear();
    parents.clear();
    for (std::size_t rank = 0; rank < candidates.size() && next.size() < beam; ++rank) {
      const Candidate& c = candidates[rank];
      Hypothesis h{live[c.lane].tokens, c.score};
      if (c.token == o.end) {
        if (rank < beam) finish(std::move(h), live[c.lane].tokens.size() + 1);
        continue;
      }
      h.tokens.push_back(c.token);
      next.push_back(std::move(h));
      tokens.push_back(c.token);
      parents.push_back(c.lane);
    }
    live = std::move(next);
  }
  // What is cut at max_length counts only where nothing has ended.
  if (finished.empty())
    for (const Hypothesis& h : live) finish(h, h.tokens.size());
  return *std::max_element(finished.begin(), finished.end(),
                           [](const Hypothesis& a, const Hypothesis& b) { return a.score < b.score; });
}

}  // namespace unroll
