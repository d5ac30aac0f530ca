// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/labelled.h"

#include "frontends/data/lines.h"
#include "unroll/error.h"

namespace unroll {

std::vector<LabelledSentence> read_labelled(std::string_view text, const std::string& name,
                                            const LabelledLimits& limits) {
  std::vector<LabelledSentence> sentences;
  bool open = false;
  std::size_t n_tokens = 0;
  for_each_line(text, name, [&](std::string_view line, std::size_t number) {
    if (line.empty()) {
      open = false;
      return;
    }
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos)
      refuse_line(name, number,
                  "a token, one tab and its label are expected; got '" + std::string(line.substr(0, 40)) + "'",
                  "Leave a line empty where a sentence ends");
    if (tab == 0 || tab + 1 == line.size())
      refuse_line(name, number, tab == 0 ? "the token is empty" : "the label is empty");
    if (!open) {
      sentences.emplace_back().line = number;
      open = true;
    }
    LabelledSentence& sentence = sentences.back();
    if (sentence.tokens.size() == limits.max_length)
      refuse_line(name, number, "the sentence has more than " + std::to_string(limits.max_length) + " tokens",
                  "Leave an empty line where a sentence ends");
    if (++n_tokens > limits.max_tokens)
      refuse_line(name, number, "more than " + std::to_string(limits.max_tokens) + " tokens");
    sentence.tokens.emplace_back(line.substr(0, tab));
    sentence.labels.emplace_back(line.substr(tab + 1));
  });
  if (sentences.empty()) throw Error(ErrorKind::input_file, name, "holds no sentence");
  return sentences;
}

}  // namespace unroll
