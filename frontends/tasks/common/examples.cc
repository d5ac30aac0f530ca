// SPDX-License-Identifier: Apache-2.0
#include "unroll/examples.h"

#include <algorithm>
#include <cmath>

#include "frontends/data/file/lines.h"
#include "frontends/data/table/csv.h"
#include "frontends/tasks/common/split_records.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/tasks.h"

namespace unroll {
namespace {

constexpr std::size_t k_batch = 512;  // records that are predicted together

// Keeps the first right and the first wrong ones, half of each as far as there are so many.
template <class Example>
class Chosen {
 public:
  explicit Chosen(std::size_t most) : most_(most) {}
  void add(Example example, bool right) {
    auto& list = right ? right_ : wrong_;
    if (list.size() < most_) list.emplace_back(n_seen_, std::move(example));
    ++n_seen_;
  }
  std::vector<Example> take() {
    const std::size_t wrong = std::min(wrong_.size(), most_ - std::min(right_.size(), most_ / 2));
    wrong_.resize(wrong);
    right_.resize(std::min(right_.size(), most_ - wrong));
    std::move(right_.begin(), right_.end(), std::back_inserter(wrong_));
    std::sort(wrong_.begin(), wrong_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Example> list;
    for (auto& [at, example] : wrong_) list.push_back(std::move(example));
    return list;
  }

 private:
  std::size_t most_, n_seen_ = 0;
  std::vector<std::pair<std::size_t, Example>> right_, wrong_;
};

// Calls `predict` with some hundred records of the split at a time.
template <class Record, class Read, class Predict>
void for_each_batch_of(const Task& task, Split split, const Read& read, const Predict& predict) {
  const auto* records = dynamic_cast<const SplitRecords*>(&task);
  if (!records) return;
  std::vector<Record> batch;
  records->for_each_record(split, [&](std::string_view text) {
    batch.push_back(read(text));
    if (batch.size() < k_batch) return;
    predict(batch);
    batch.clear();
  });
  if (!batch.empty()) predict(batch);
}

class ConfusionCount {
 public:
  explicit ConfusionCount(std::vector<std::string> labels) {
    result.labels = std::move(labels);
    result.counts.resize(result.labels.size() * result.labels.size());
    for (std::size_t k = 0; k < result.labels.size(); ++k) index_.emplace(result.labels[k], k);
  }
  void add(const std::string& truth, const std::string& predicted) {
    const auto t = index_.find(truth), p = index_.find(predicted);
    if (t != index_.end() && p != index_.end()) ++result.counts[t->second * result.labels.size() + p->second];
  }
  Confusion result;

 private:
  std::map<std::string, std::size_t> index_;
};

struct Request {
  const Task& task;
  const Metadata& metadata;
  const TensorMap& parameters;
  Backend& backend;
  std::size_t most;
};

void of_documents(const Request& r, Examples& examples) {
  DocumentReader reader(r.metadata, r.parameters, r.backend);
  ConfusionCount confusion(reader.labels());
  Chosen<ClassExample> chosen(r.most);
  struct Record {
    std::string label, text;
  };
  const auto read = [](std::string_view record) {
    const std::size_t tab = std::min(record.find('\t'), record.size());
    return Record{std::string(record.substr(0, tab)), std::string(record.substr(std::min(tab + 1, record.size())))};
  };
  for_each_batch_of<Record>(r.task, examples.split, read, [&](const std::vector<Record>& batch) {
    std::vector<std::string> texts;
    for (const Record& record : batch) texts.push_back(record.text);
    const std::vector<DocumentReader::Result> results = reader.predict(texts);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (results[i].labels.empty()) continue;
      const ScoredLabel& best = results[i].labels[0];
      confusion.add(batch[i].label, best.label);
      chosen.add({batch[i].text, batch[i].label, best.label, best.probability, {}}, best.label == batch[i].label);
    }
  });
  examples.classes = chosen.take();
  for (ClassExample& e : examples.classes) e.attention = reader.attention(e.input);
  examples.confusion = std::move(confusion.result);
}

void of_sentences(const Request& r, Examples& examples) {
  Labeller labeller(r.metadata, r.parameters, r.backend);
  ConfusionCount confusion(labeller.labels());
  Chosen<SentenceExample> chosen(r.most);
  const auto read = [](std::string_view record) {
    SentenceExample s;
    lines_of(record, k_inside)([&](const Line& line) {
      const std::size_t tab = line.text.find('\t');
      if (tab == std::string_view::npos) return;
      s.tokens.emplace_back(line.text.substr(0, tab));
      s.truth.emplace_back(line.text.substr(tab + 1));
    });
    return s;
  };
  for_each_batch_of<SentenceExample>(r.task, examples.split, read, [&](std::vector<SentenceExample>& batch) {
    std::vector<Labeller::Sentence> sentences;
    for (const SentenceExample& s : batch) sentences.push_back(s.tokens);
    const std::vector<Labeller::Result> results = labeller.predict(sentences);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      SentenceExample& s = batch[i];
      s.predicted = results[i].labels;
      s.probabilities = results[i].probabilities;
      for (std::size_t t = 0; t < s.truth.size(); ++t) confusion.add(s.truth[t], s.predicted[t]);
      const bool right = s.predicted == s.truth;
      chosen.add(std::move(s), right);
    }
  });
  examples.sentences = chosen.take();
  examples.confusion = std::move(confusion.result);
}

void of_table_rows(const Request& r, Examples& examples) {
  const auto* task = dynamic_cast<const SplitTableRows*>(&r.task);
  if (!task) return;
  Classifier classifier(r.metadata, r.parameters, r.backend);
  ConfusionCount confusion(classifier.labels());
  Chosen<ClassExample> chosen(r.most);
  std::vector<Classifier::Row> rows;
  std::vector<ClassExample> batch;
  const auto predict = [&] {
    const auto results = classifier.predict(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ClassExample& e = batch[i];
      e.predicted = results[i][0].label;
      e.probability = results[i][0].probability;
      confusion.add(e.truth, e.predicted);
      const bool right = e.truth == e.predicted;
      chosen.add(std::move(e), right);
    }
    rows.clear();
    batch.clear();
  };
  task->for_each_row(examples.split, [&](std::span<const double> values, const std::string& label,
                                         std::string_view record) {
    rows.emplace_back(values.begin(), values.end());
    batch.push_back({first_csv_row(record), label, "", 0, {}});
    if (rows.size() == k_batch) predict();
  });
  predict();
  examples.classes = chosen.take();
  examples.confusion = std::move(confusion.result);
}

// The last windows that follow each other without overlap.
std::vector<std::int64_t> last_windows(const Runs& windows, std::int64_t horizon, std::size_t most) {
  std::vector<std::int64_t> starts;
  for (std::int64_t i = windows.size() - 1; i >= 0 && starts.size() * static_cast<std::size_t>(horizon) < most; --i)
    if (starts.empty() || windows[i] + horizon <= starts.back()) starts.push_back(windows[i]);
  std::reverse(starts.begin(), starts.end());
  return starts;
}

void of_series(const Request& r, Examples& examples) {
  const auto* task = dynamic_cast<const SplitSeries*>(&r.task);
  if (!task) return;
  Forecaster forecaster(r.metadata, r.parameters, r.backend);
  const SeriesRows& rows = task->series(examples.split);
  const std::int64_t H = forecaster.horizon(), period = task->period();
  const std::vector<std::int64_t> starts = last_windows(task->windows(examples.split), H, r.most);
  const std::size_t S = rows.n_series();
  for (std::size_t s = 0; s < S; ++s) examples.forecasts.emplace_back().series = rows.column_name(s);
  SeriesPiece piece;
  for (const std::int64_t t : starts) {
    rows.read(t - forecaster.history(), t, piece);
    if (task->interpolates()) piece.interpolate(t);
    const Forecaster::Values values = forecaster.predict({&piece.levels, 1})[0];
    rows.read(std::max<std::int64_t>(t - std::max<std::int64_t>(period, 1), 0), t + H, piece);
    for (std::int64_t h = 0; h < H; ++h)
      for (std::size_t s = 0; s < S; ++s) {
        ForecastExample& e = examples.forecasts[s];
        e.at.push_back(rows.place(t + h));
        e.actual.push_back(piece.is_observed(t + h, s) ? piece.level(t + h, s) : std::nan(""));
        e.predicted.push_back(values[static_cast<std::size_t>(h) * S + s]);
        e.ahead.push_back(h + 1);
        e.baselines["persistence"].push_back(piece.level(t - 1, s));
        const std::int64_t before = t + h - (h / period + 1) * period;
        e.baselines["seasonal_naive"].push_back(before >= piece.begin ? piece.level(before, s) : std::nan(""));
      }
  }
}

// Decoding takes far longer than reading: only so many sources are decoded as may be shown.
void first_pairs(const PairTask& task, Split split, std::size_t most, std::vector<std::string>& sources,
                 std::vector<std::string>& targets) {
  task.for_each_pair(split, [&](const PairTask::Pair& pair) {
    if (sources.size() >= most) return;
    sources.push_back(pair.source);
    targets.push_back(pair.target);
  });
}

void of_translations(const Request& r, Examples& examples) {
  const auto* task = dynamic_cast<const PairTask*>(&r.task);
  if (!task) return;
  std::vector<std::string> sources, targets;
  first_pairs(*task, examples.split, 4 * r.most, sources, targets);
  Translator translator(r.metadata, r.parameters, r.backend);
  const std::vector<Translator::Result> results = translator.predict(sources);
  Chosen<TranslationExample> chosen(r.most);
  for (std::size_t i = 0; i < sources.size(); ++i)
    chosen.add({sources[i], targets[i], results[i].text, results[i].log_probability, {}},
               results[i].text == targets[i]);
  examples.translations = chosen.take();
  for (TranslationExample& e : examples.translations) e.attention = translator.attention(e.source, e.written);
}

void of_summaries(const Request& r, Examples& examples) {
  const auto* task = dynamic_cast<const PairTask*>(&r.task);
  if (!task) return;
  std::vector<std::string> sources, targets;
  first_pairs(*task, examples.split, r.most, sources, targets);
  Summarizer summarizer(r.metadata, r.parameters, r.backend);
  const auto results = summarizer.predict(sources);
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (const auto& summaries = results[i].summaries; !summaries.empty())
      examples.translations.push_back({sources[i], targets[i], summaries[0].text, summaries[0].log_probability,
                                       summarizer.attention(sources[i], summaries[0].text)});
}

void of_text(const Request& r, Examples& examples) {
  examples.prompt = "\n";
  generate(r.metadata, r.parameters, r.backend,
           {.prompt = examples.prompt, .length = static_cast<std::int64_t>(r.most), .temperature = 0.8},
           [&](std::string_view text) { examples.text += text; });
}

struct Row {
  std::string_view task;
  void (*fill)(const Request&, Examples&);
};
constexpr Row k_rows[] = {{"document", of_documents},
                          {"label", of_sentences},
                          {"classify", of_table_rows},
                          {"forecast", of_series},
                          {"translate", of_translations},
                          {"summarize", of_summaries},
                          {"language_model", of_text}};

}  // namespace

Examples examples_of(const Task& task, const Metadata& metadata, const TensorMap& parameters, Backend& backend,
                     Split split, std::size_t most) {
  Examples examples;
  examples.task = get_text(metadata, "task");
  examples.split = split;
  for (const Row& row : k_rows)
    if (row.task == examples.task) row.fill({task, metadata, parameters, backend, most}, examples);
  return examples;
}

}  // namespace unroll
