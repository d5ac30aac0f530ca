// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/decode/beam_search.h"

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

bool allows(const BeamOptions& o, const std::vector<std::int32_t>& tokens, std::int32_t token) {
  if (token == o.end) return static_cast<std::int64_t>(tokens.size()) >= o.min_length;
  return token != o.never && !repeats(tokens, token, o.no_repeat_ngram);
}

// The `count` best candidates that were added: a heap with the worst of them on top.
class BestCandidates {
 public:
  explicit BestCandidates(std::size_t count) : count_(count) {}
  double least() const { return heap_.size() < count_ ? -HUGE_VAL : heap_.front().score; }  // of one that is taken
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

// The `count` best ways to go on from any hypothesis. Where every one is forbidden, the hypotheses end.
std::vector<Candidate> best_candidates(const std::vector<Hypothesis>& live, std::span<const float> logs,
                                       const BeamOptions& o, std::size_t count) {
  const std::size_t V = logs.size() / live.size();
  BestCandidates best(count), ends(count);
  bool any_number = false;
  for (std::size_t lane = 0; lane < live.size(); ++lane)
    for (std::size_t v = 0; v < V; ++v) {
      const auto token = static_cast<std::int32_t>(v);
      const Candidate c{live[lane].log_probability + static_cast<double>(logs[lane * V + v]), lane, token};
      any_number |= !std::isnan(c.score);
      if (!(c.score >= best.least()) && token != o.end) continue;  // NaN, too; most words are passed over here
      if (std::isnan(c.score)) continue;
      if (token == o.end) ends.add(c);
      if (best.takes(c) && allows(o, live[lane].tokens, token)) best.add(c);
    }
  if (!any_number) throw Error(ErrorKind::numeric, "beam search", "the model's output is not a number");
  std::vector<Candidate> list = std::move(best).sorted();
  return list.empty() ? std::move(ends).sorted() : list;
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
  if (options.min_length < 0 || options.min_length > options.max_length)
    throw Error(ErrorKind::usage, "beam search",
                "min_length must be between 0 and max_length = " + std::to_string(options.max_length) + "; got " +
                    std::to_string(options.min_length));
}

bool BeamSearch::done() const {
  return length_ >= options_.max_length || finished_.size() >= static_cast<std::size_t>(options_.beam) ||
         live_.empty();
}

void BeamSearch::finish(Hypothesis hypothesis, std::size_t length) {
  hypothesis.score = penalized(hypothesis.log_probability, length, options_.length_penalty) + hypothesis.bonus;
  finished_.push_back(std::move(hypothesis));
}

void BeamSearch::advance(std::span<const float> logs, std::span<const double> bonuses) {
  const auto beam = static_cast<std::size_t>(options_.beam);
  // Twice as many as are kept: at most every second one ends.
  const std::vector<Candidate> candidates = best_candidates(live_, logs, options_, 2 * beam);
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
  if (all.finished_.size() > static_cast<std::size_t>(options_.beam))
    all.finished_.resize(static_cast<std::size_t>(options_.beam));
  return all.finished_;
}

Hypothesis beam_search(const BeamStep& step, const BeamOptions& options) {
  BeamSearch search(options);
  while (!search.done()) search.advance(step(search.tokens(), search.parents()));
  return search.best();
}

}  // namespace unroll
