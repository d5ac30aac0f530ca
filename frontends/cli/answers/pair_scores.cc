// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/answers/pair_scores.h"

#include <functional>
#include <memory>
#include <vector>

#include "frontends/cli/answers/text_baselines.h"
#include "unroll/error.h"
#include "unroll/text_scores.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_batch = 256;  // sources that are decoded together

using Texts = std::vector<std::string>;
using Writer = std::function<Texts(const Texts& sources)>;

// What is scored of a kind of task, and how.
struct ScoredRow {
  std::string_view task;
  Writer (*writer)(const RunFolder&, Backend&, const DecodeOptions&);
  TextScoreOptions options;
  Metrics (*metrics)(const TextScores& scores);
};

Writer translator(const RunFolder& run, Backend& backend, const DecodeOptions& decode) {
  const auto model = std::make_shared<Translator>(run.model.metadata, run.model.tensors, backend);
  return [=](const Texts& sources) {
    Texts written;
    for (auto& result : model->predict(sources, decode)) written.push_back(std::move(result.text));
    return written;
  };
}

Writer summarizer(const RunFolder& run, Backend& backend, const DecodeOptions& decode) {
  const auto model = std::make_shared<Summarizer>(run.model.metadata, run.model.tensors, backend);
  return [=](const Texts& sources) {
    Texts written;
    for (auto& result : model->predict(sources, decode))
      written.push_back(result.summaries.empty() ? "" : std::move(result.summaries[0].text));
    return written;
  };
}

const ScoredRow k_rows[] = {
    {"translate", translator,
     {},
     [](const TextScores& s) {
       return Metrics{{"exact_match", s.exact_match}, {"bleu", s.bleu},       {"chrf", s.chrf},
                      {"rouge1", s.rouge1.f},         {"rouge2", s.rouge2.f}, {"rougeL", s.rougeL.f}};
     }},
    {"summarize", summarizer,
     {.stem = true},
     [](const TextScores& s) {
       return Metrics{{"exact_match", s.exact_match},
                      {"rouge1", s.rouge1.f},
                      {"rouge2", s.rouge2.f},
                      {"rougeL", s.rougeL.f}};
     }},
};

const ScoredRow& scored_row(const RunFolder& run) {
  const std::string& task = run.model.metadata.at("task");
  for (const ScoredRow& row : k_rows)
    if (row.task == task) return row;
  throw Error(ErrorKind::internal, "eval", "no scores for texts of task '" + task + "'");
}

}  // namespace

PairScores pair_scores(const PairTask& task, const RunFolder& run, Backend& backend, Split split,
                       const DecodeOptions& decode, std::int64_t most) {
  const ScoredRow& row = scored_row(run);
  const Writer write = row.writer(run, backend, decode);
  PairScores result;
  Texts sources, targets, written, batch;
  const auto write_batch = [&] {
    for (std::string& text : write(batch)) written.push_back(std::move(text));
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
    batch.push_back(pair.source);
    if (batch.size() == k_batch) write_batch();
  });
  write_batch();
  const auto scored = [&](const Texts& texts) {
    Metrics metrics = row.metrics(text_scores(texts, targets, row.options));
    if (row.task == "summarize") metrics["repeated_trigrams"] = repeated_trigrams(texts);
    return metrics;
  };
  result.model = scored(written);
  const TextScoreIntervals intervals = text_score_intervals(written, targets, row.options);
  const Metrics low = row.metrics(intervals.low), high = row.metrics(intervals.high);
  for (const auto& [name, value] : low) result.intervals[name] = {value, high.at(name)};
  for (const auto& [name, method] : text_baselines(row.task, task)) {
    Texts texts;
    for (const std::string& source : sources) texts.push_back(method(source));
    result.baselines[name] = scored(texts);
  }
  return result;
}

}  // namespace unroll::cli
