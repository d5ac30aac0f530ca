// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/answers/translate_scores.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>
#include <vector>

#include "unroll/text_scores.h"

namespace unroll::cli {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Each word becomes what stood in its place most often in those training pairs whose sides have as many words.
class WordByWord {
 public:
  explicit WordByWord(const TranslateTask& task) {
    task.for_each_pair(Split::train, [&](const TranslateTask::Pair& pair) {
      const std::vector<std::string> from = words_of(pair.source), to = words_of(pair.target);
      for (std::size_t i = 0; from.size() == to.size() && i < from.size(); ++i) ++seen_[from[i]][to[i]];
    });
  }
  std::string operator()(const std::string& source) const {
    std::string text;
    for (const std::string& word : words_of(source)) text += (text.empty() ? "" : " ") + of(word);
    return text;
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

}  // namespace

TranslateScores translate_scores(const TranslateTask& task, const RunFolder& run, Backend& backend, Split split,
                                 const DecodeOptions& decode, std::int64_t most) {
  const auto scores_of = [](std::span<const std::string> texts, std::span<const std::string> targets) {
    const TextScores s = text_scores(texts, targets);
    return Metrics{{"exact_match", s.exact_match}, {"bleu", s.bleu},       {"chrf", s.chrf},
                   {"rouge1", s.rouge1.f},         {"rouge2", s.rouge2.f}, {"rougeL", s.rougeL.f}};
  };
  Translator translator(run.model.metadata, run.model.tensors, backend);
  const WordByWord word_by_word(task);
  TranslateScores result;
  std::vector<std::string> sources, written, replaced, targets;
  task.for_each_pair(split, [&](const TranslateTask::Pair& pair) {
    if (result.n == most) {
      result.all = false;
      return;
    }
    ++result.n;
    sources.push_back(pair.source);
    targets.push_back(pair.target);
    replaced.push_back(word_by_word(pair.source));
    written.push_back(translator.translate(pair.source, decode));
  });
  result.model = scores_of(written, targets);
  result.baselines["source_as_it_is"] = scores_of(sources, targets);
  result.baselines["word_by_word"] = scores_of(replaced, targets);
  return result;
}

}  // namespace unroll::cli
