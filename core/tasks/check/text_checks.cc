// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/check/text_checks.h"

#include <optional>

namespace unroll {

RecordFile records_at(std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TextRowsOptions& o) {
  return records_of(RecordFile(std::move(file), name, o.memory_limit), o.validation, o.test);
}

void count_ids(DataChecker::Known& known, const Tokenizer& tokenizer, std::string_view text, const std::string& name) {
  for (const std::int32_t id : tokenizer.encode(text, name))
    ++(id == tokenizer.unknown() ? known.unknown : known.known);
}

bool joins_lines(const RecordFile& file, const PairsReader& reader) {
  std::optional<bool> joins;
  file.for_each_line([&](const Line& line) {
    if (!joins && !line.text.empty()) joins = reader.joins(line);
  });
  return joins.value_or(false);
}

}  // namespace unroll
