// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/answers/pair_scores.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <sstream>
#include <vector>

#include "unroll/error.h"
#include "unroll/text_scores.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_batch = 256;  // sources that are decoded together

using Texts = std::vector<std::string>;

Texts separate_words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string joined(const Texts& words, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < std::min(n, words.size()); ++i) text += (i == 0 ? "" : " ") + words[i];
  return text;
}

// Each word becomes what stood in its place most often in those training pairs whose sides have as many words.
class WordByWord {
 public:
  explicit WordByWord(const PairTask& task) {
    task.for_each_pair(Split::train, [&](const PairTask::Pair& pair) {
      const Texts from = separate_words(pair.source), to = separate_words(pair.target);
      for (std::size_t i = 0; from.size() == to.size() && i < from.size(); ++i) ++seen_[from[i]][to[i]];
    });
  }
  std::string operator()(const std::string& source) const {
    Texts words = separate_words(source);
    for (std::string& word : words) word = of(word);
    return joined(words, words.size());
  }

 private:
  std::string of(const std::string& word) const {
    const auto at = seen_.find(word);
    if (at == seen_.end()) return word;
    const auto rarer = [](const auto& a, const auto& b) { return a.second < b.second; };
    return std::max_element(at->second.begin(), at->second.end(), rarer)->first;
  }
  std::map<std::string, std::map<std::string, int>> seen_;
};

// Up to the first word that ends in . ! or ?
std::string first_sentence(const std::string& text) {
  const Texts words = separate_words(text);
  const auto end = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.ends_with('.') || word.ends_with('!') || word.ends_with('?');
  });
  return joined(words, static_cast<std::size_t>(end - words.begin()) + 1);
}

// The first words, as many as targets of the training set have on average.
class FirstWords {
 public:
  explicit FirstWords(const PairTask& task) {
    std::size_t words = 0, targets = 0;
    task.for_each_pair(Split::train, [&](const PairTask::Pair& pair) {
      words += separate_words(pair.target).size();
      ++targets;
    });
    n_ = (words + targets / 2) / std::max<std::size_t>(targets, 1);
  }
  std::string operator()(const std::string& text) const { return joined(separate_words(text), n_); }

 private:
  std::size_t n_ = 0;
};

using Guess = std::function<std::string(const std::string& source)>;
using Writer = std::function<Texts(const Texts& sources)>;

// What is scored of a kind of task, and how.
struct ScoredRow {
  std::string_view task;
  Writer (*writer)(const RunFolder&, Backend&, const DecodeOptions&);
  std::map<std::string, Guess> (*baselines)(const PairTask&);
  Metrics (*scores)(const Texts& texts, const Texts& targets);
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
     [](const PairTask& task) -> std::map<std::string, Guess> {
       return {{"source_as_it_is", [](const std::string& source) { return source; }},
               {"word_by_word", WordByWord(task)}};
     },
     [](const Texts& texts, const Texts& targets) {
       const TextScores s = text_scores(texts, targets);
       return Metrics{{"exact_match", s.exact_match}, {"bleu", s.bleu},       {"chrf", s.chrf},
                      {"rouge1", s.rouge1.f},         {"rouge2", s.rouge2.f}, {"rougeL", s.rougeL.f}};
     }},
    {"summarize", summarizer,
     [](const PairTask& task) -> std::map<std::string, Guess> {
       return {{"first_sentence", first_sentence}, {"first_words", FirstWords(task)}};
     },
     [](const Texts& texts, const Texts& targets) {
       const TextScores s = text_scores(texts, targets, {.stem = true});
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
  result.model = row.scores(written, targets);
  for (const auto& [name, method] : row.baselines(task)) {
    Texts texts;
    for (const std::string& source : sources) texts.push_back(method(source));
    result.baselines[name] = row.scores(texts, targets);
  }
  return result;
}

}  // namespace unroll::cli
