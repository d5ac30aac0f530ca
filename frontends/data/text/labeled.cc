// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/text/labeled.h"

#include "core/support/text/in_quotes.h"
#include "unroll/error.h"

namespace unroll {

namespace {

struct Token {
  std::string_view text, label;
  const Line& line;
  bool first;  // of its sentence
};

void for_each_token(const Lines& lines, const std::string& name, const LabeledLimits& limits,
                    const std::function<void(const Token&)>& take) {
  std::size_t n_tokens = 0, length = 0;
  lines([&](const Line& line) {
    require_utf8(line, name);
    if (line.text.empty()) {
      length = 0;
      return;
    }
    const std::size_t tab = line.text.find('\t');
    if (tab == std::string_view::npos || line.text.find('\t', tab + 1) != std::string_view::npos)
      refuse_line(name, line.number,
                  "expected a token, one tab and its label; got " + in_quotes(line.text),
                  "Separate token and label by one tab, and leave out other columns");
    const bool has_label = line.text.find_first_not_of(' ', tab + 1) != std::string_view::npos;
    if (tab == 0 || !has_label)
      refuse_line(name, line.number, tab == 0 ? "the token is empty" : "the label is empty");
    if (length == limits.max_length)
      refuse_line(name, line.number, "the sentence has more than " + std::to_string(limits.max_length) + " tokens",
                  "Leave an empty line after each sentence");
    if (++n_tokens > limits.max_tokens)
      refuse_line(name, line.number, "more than " + std::to_string(limits.max_tokens) + " tokens");
    take({line.text.substr(0, tab), line.text.substr(tab + 1), line, length++ == 0});
  });
  if (n_tokens == 0) throw Error(ErrorKind::input_file, name, "has no sentences");
}

std::vector<LabeledSentence> sentences_in(const Lines& lines, const std::string& name, const LabeledLimits& limits) {
  std::vector<LabeledSentence> sentences;
  for_each_token(lines, name, limits, [&](const Token& token) {
    if (token.first) sentences.emplace_back().line = token.line.number;
    sentences.back().tokens.emplace_back(token.text);
    sentences.back().labels.emplace_back(token.label);
  });
  return sentences;
}

}  // namespace

std::vector<LabeledSentence> read_labeled(std::string_view text, const std::string& name,
                                            const LabeledLimits& limits) {
  return sentences_in(lines_of(text), name, limits);
}

void index_labeled(RecordFile& file, const LabeledLimits& limits) {
  for (std::size_t f = 0; f < file.n_files(); ++f)
    for_each_token(file.lines(f), file.name(f), limits, [&](const Token& token) {
    if (token.first) file.add(token.line.at);
  });
}

LabeledSentence sentence_in(const RecordFile& file, std::string_view record) {
  try {
    std::vector<LabeledSentence> one = sentences_in(lines_of(record, k_inside), file.name(), {});
    if (one.size() == 1) return std::move(one[0]);
  } catch (const Error&) {  // it was read before
  }
  file.refuse_changed();
}

}  // namespace unroll
