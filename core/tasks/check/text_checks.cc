// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/check/text_checks.h"

#include <optional>

namespace unroll {

RecordFile records_at(std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TextRowsOptions& o) {
  return records_of(RecordFile(std::move(file), name, o.memory_limit), o);
}

void count_ids(DataChecker::Known& known, const Tokenizer& tokenizer, std::string_view text, const std::string& name) {
  for (const std::int32_t id : tokenizer.encode(text, name))
    ++(id == tokenizer.unknown() ? known.unknown : known.known);
}

void LabeledWords::report(DataChecker& c, const DataRows& data, const TextRowsOptions& o,
                          const std::string& unit) const {
  const Lexicon lexicon = Lexicon::of(words[Split::train], o.min_count, o.vocabulary);
  DataChecker::BySplit known;
  for (std::size_t split = 0; split < words.size(); ++split)
    for (const auto& [word, n] : words[split])
      (lexicon.id(word) == lexicon.size() ? known[split].unknown : known[split].known) += n;
  data.count(c);
  c.lengths(rows, unit);
  c.duplicates(rows);
  c.vocabulary(known, lexicon.size());
  c.labels(labels);
}

bool joins_lines(const RecordFile& file, const PairsReader& reader) {
  std::optional<bool> joins;
  file.for_each_line([&](const Line& line) {
    if (!joins && !line.text.empty()) joins = reader.joins(line);
  });
  return joins.value_or(false);
}

}  // namespace unroll
