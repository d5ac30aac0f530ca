// SPDX-License-Identifier: Apache-2.0
// docs/config.md, from the table of keys.
#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "frontends/cli/config_schema.h"

namespace unroll::cli {
namespace {

// What the tables of a kind are for, in docs/config.md.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> k_table_docs = {{
    {"cells",
     "A cell as a few lines of text, which `model.cell = \"NAME\"` then chooses. Any number of them, read by all;\n"
     "[adding-a-cell.md](adding-a-cell.md) has the language.\n"},
    {"groups",
     "Parameters that are trained in another way, read by all tasks. Of several tables the first in the file that "
     "matches\n"
     "a name counts; one that matches none is refused, with the names that there are.\n"},
}};

std::string_view leaf(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string uses_text(unsigned uses) {
  if (uses == k_every) return "all";
  std::vector<std::string_view> words;
  for (const TaskKind& row : task_kinds()) {
    if (uses & row.bit) words.push_back(row.word);
  }
  if ((uses & k_trained) == k_trained) words = {"all tasks"};
  if (uses & k_tensors) words.push_back("`run`");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string range_text(const KeySpec& key) {
  if (!key.allowed.choices.empty()) {
    std::string words = "`";
    for (const char c : key.allowed.choices) words += c == '|' ? std::string("`, `") : std::string(1, c);
    words += "`";
    return words.ends_with(", ``") ? words.substr(0, words.size() - 4) + " or empty" : words;
  }
  if (key.type == KeyType::boolean) return "`true`, `false`";
  if (key.type == KeyType::text || key.type == KeyType::texts) return "text";
  if (key.allowed.highest == k_unbounded) return fmt::format("from {}", key.allowed.lowest);
  return fmt::format("{} … {}", key.allowed.lowest, key.allowed.highest);
}

std::string default_text(const KeySpec& key) {
  std::string text = fmt::format("`{}`", key.fallback);
  for (const KindDefault& row : kind_defaults()) {
    if (row.path == key.path) text += fmt::format("; {}: `{}`", uses_text(row.uses), row.fallback);
  }
  return text;
}

}  // namespace

std::string config_reference() {
  std::string text =
      "# Config keys\n\n"
      "Written by `unroll new --reference`; a test compares this page with the program's table.\n"
      "A config is TOML. Unknown keys, wrong types and values out of range are refused with line and column;\n"
      "`--set section.key=value` overrides a key on the command line.\n"
      "A run folder's `config.toml` holds every key with the value used.\n";
  std::string_view section;
  for (const KeySpec& key : config_schema()) {
    const std::string_view of = key.path.substr(0, key.path.find('.'));
    if (of != section) {
      text += fmt::format("\n## [{}]\n\n| key | type | default | allowed | read by | meaning |\n", of);
      text += "|---|---|---|---|---|---|\n";
      section = of;
    }
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", leaf(key.path), key_type_name(key.type),
                        default_text(key), range_text(key), uses_text(key.uses), key.doc);
  }
  for (const auto& [table, doc] : k_table_docs) {
    text += fmt::format("\n## [{}.NAME]\n\n{}\n| key | type | meaning |\n|---|---|---|\n", table, doc);
    for (const TableKeySpec& row : table_schema()) {
      if (row.table == table)
        text += fmt::format("| `{}` | {} | {} |\n", row.key, table_key_type_name(row.type), row.doc);
    }
  }
  return text;
}

}  // namespace unroll::cli
