// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/tasks/written_texts.h"

#include <algorithm>

#include "unroll/support/error.h"

namespace unroll::cli {

using Json = RowWriter::Json;

WrittenTexts::WrittenTexts(std::string one, std::string many, const PredictArguments& options)
    : one_(std::move(one)), many_(std::move(many)), nbest_(options.nbest),
      scores_(options.scores) {
  if (options.nbest > options.decode.beam)
    throw Error(ErrorKind::usage, "--nbest",
                "a beam of " + std::to_string(options.decode.beam) + " does not have " + std::to_string(options.nbest) +
                    " texts",
                "Write --beam " + std::to_string(options.nbest) + " or more");
}

std::vector<std::string> WrittenTexts::columns() const {
  std::vector<std::string> list{"source"};
  if (nbest_ > 1) list.emplace_back("rank");
  list.insert(list.end(), {one_, "log_probability"});
  if (scores_) list.emplace_back("score");
  return list;
}

Json WrittenTexts::json_of(const ScoredText& text) const {
  Json object{{one_, text.text}, {"log_probability", json_number(text.log_probability)}};
  if (scores_) object["score"] = json_number(text.score);
  return object;
}

void WrittenTexts::put(const InputLine& line, std::span<const ScoredText> texts, RowWriter& writer) const {
  texts = texts.first(std::min(texts.size(), nbest_));
  if (writer.format() == RowFormat::jsonl) {
    Json object{{"source", line.text}};
    if (texts.empty()) object.update({{one_, ""}, {"log_probability", Json()}});
    else object.update(json_of(texts[0]));
    if (nbest_ > 1) {
      object[many_] = Json::array();
      for (const ScoredText& text : texts) object[many_].push_back(json_of(text));
    }
    return put_json(std::move(object), line, writer);
  }
  for (std::size_t i = 0; i < std::max<std::size_t>(texts.size(), 1); ++i) {
    const bool answered = i < texts.size();
    const std::string text = answered ? texts[i].text : "";
    const std::string log = answered ? number_cell(texts[i].log_probability) : "",
                      score = answered ? number_cell(texts[i].score) : "";
    if (writer.is_table()) {
      std::vector<std::string> cells{line.text};
      if (nbest_ > 1) cells.push_back(answered ? std::to_string(i + 1) : "");
      cells.insert(cells.end(), {text, log});
      if (scores_) cells.push_back(score);
      writer.row(cells);
    } else {
      writer.text(scores_ && answered ? text + "\t" + score + "\t" + log + "\n" : text + "\n");
    }
  }
  if (nbest_ > 1 && writer.format() == RowFormat::text) writer.text("\n");
}

}  // namespace unroll::cli
