// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/pair_scores.h"

#include <memory>
#include <vector>

#include "unroll/data/text_scores.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_batch = 256;  // sources decoded together

using Texts = std::vector<std::string>;

const TextScoring& scoring_of(const RunFolder& run) {
  const TaskKind* kind = find_task_kind(run.config.uses());
  if (kind && kind->row.scoring) return *kind->row.scoring;
  throw Error(ErrorKind::internal, "eval", "no scores for texts of task '" + run.model.metadata.at("task") + "'");
}

}  // namespace

PairScores pair_scores(const PairTask& task, const RunFolder& run, Backend& backend, Split split,
                       const DecodeOptions& decode, std::int64_t most) {
  const TextScoring& scoring = scoring_of(run);
  const std::unique_ptr<Predictor> writer = make_predictor(run.model.metadata, run.model.tensors, backend);
  PairScores result;
  Texts sources, targets, written;
  std::vector<PredictInput> batch;
  const auto write_batch = [&] {
    for (Prediction& text : writer->predict(batch, {.decode = decode}))
      written.push_back(std::move(std::get<std::string>(text)));
    batch.clear();
  };
  task.for_each_pair(split, [&](const PairTask::Pair& pair) {
    if (result.n == most) {
      result.all = false;
      return;
    }
    ++result.n;
    sources.push_back(pair.source);
    targets.push_back(pair.target);
    batch.emplace_back(pair.source);
    if (batch.size() == k_batch) write_batch();
  });
  write_batch();
  const auto scored = [&](const Texts& texts) {
    Metrics metrics = scoring.metrics(text_scores(texts, targets, scoring.options));
    if (scoring.counts_trigrams) metrics["repeated_trigrams"] = repeated_trigrams(texts);
    return metrics;
  };
  result.model = scored(written);
  const TextScoreIntervals intervals = text_score_intervals(written, targets, scoring.options);
  const Metrics low = scoring.metrics(intervals.low), high = scoring.metrics(intervals.high);
  for (const auto& [name, value] : low) result.intervals[name] = {value, high.at(name)};
  for (const auto& [name, method] : scoring.baselines(task)) {
    Texts texts;
    for (const std::string& source : sources) texts.push_back(method(source));
    result.baselines[name] = scored(texts);
  }
  return result;
}

}  // namespace unroll::cli
