// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/table_form.h"

#include "core/tasks/common/task_parts.h"

namespace unroll {

CsvFormat format_as_trained(const Metadata& m, const std::vector<std::string>& columns) {
  const std::vector<std::string> missing =
      m.contains("missing_values") ? get_list(m, "missing_values") : default_missing_values();
  CsvFormat format;
  if (m.contains("data.header")) {
    const auto or_usual = [&](const char* key, const char* usual) {
      return m.contains(key) ? get_text(m, key) : usual;
    };
    format = CsvFormat::of(get_text(m, "data.header"), get_text(m, "data.separator"), missing,
                           or_usual("data.decimal", "."), or_usual("data.thousands", "none"));
  } else {  // an older model: it used a separator that detection does not find
    format.missing = missing;
    const auto at = m.find("separator");
    constexpr std::string_view k_found = "\t;,";
    if (at != m.end() && at->second.size() == 1 && k_found.find(at->second[0]) == std::string_view::npos)
      format.separator = at->second[0];
  }
  if (known_table(m).has_header) format.names = columns;
  return format;
}

KnownTable known_table(const Metadata& m) {
  const auto header = m.find("header");
  return {header != m.end() && header->second == "1",
          m.contains("file_columns") ? get_integer(m, "file_columns") : 0};
}

}  // namespace unroll
