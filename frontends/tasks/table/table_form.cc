// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/table/table_form.h"

#include "frontends/tasks/common/task_parts.h"

namespace unroll {

CsvFormat format_as_trained(const Metadata& m) {
  if (m.contains("data.header")) return CsvFormat::of(get_text(m, "data.header"), get_text(m, "data.separator"));
  CsvFormat format;  // of older models: a separator that is not found by itself was set
  const auto at = m.find("separator");
  if (at == m.end() || at->second.size() != 1) return format;
  constexpr std::string_view k_found = "\t;,";
  if (k_found.find(at->second[0]) == std::string_view::npos) format.separator = at->second[0];
  return format;
}

KnownTable known_table(const Metadata& m) {
  const auto header = m.find("header");
  return {header != m.end() && header->second == "1",
          m.contains("file_columns") ? get_integer(m, "file_columns") : 0};
}

}  // namespace unroll
