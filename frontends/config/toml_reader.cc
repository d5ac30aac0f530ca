// SPDX-License-Identifier: Apache-2.0
// The pre-scan knows only strings, comments, brackets and dots, which bounds the nesting of any text that the parser
// accepts.
#include "frontends/config/toml_reader.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <sstream>

#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

[[noreturn]] void refuse_toml(const std::string& name, std::uint32_t line, std::uint32_t column, std::string_view what,
                         std::string_view next = {}) {
  throw Error(ErrorKind::input_file, fmt::format("{}:{}:{}", name, line, column), what, next);
}

class BudgetScan {
 public:
  BudgetScan(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        skip_comment();
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        count(c);
        advance();
      }
    }
  }

 private:
  void count(char c) {
    switch (c) {
      case '[':
      case '{':
        ++depth_;
        dots_ = 0;
        break;
      case ']':
      case '}':
        depth_ = depth_ > 0 ? depth_ - 1 : 0;
        dots_ = 0;
        break;
      case '.':
        ++dots_;
        break;
      case '=':
      case ',':
      case '\n':
        dots_ = 0;
        break;
      default:
        return;
    }
    if (depth_ > k_max_toml_depth || dots_ >= k_max_toml_depth) {
      refuse_toml(name_, line_, column_, fmt::format("nesting deeper than {} levels", k_max_toml_depth),
             "A config is two levels deep: [section] and key");
    }
  }
  void advance() {
    const bool newline = text_[at_++] == '\n';
    line_ += newline;
    column_ = newline ? 1 : column_ + 1;
  }
  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') advance();
  }
  // Single-line strings end at the newline too: the parser reports an error there.
  void skip_string(char quote) {
    const std::string fence(3, quote);
    const bool multi_line = text_.substr(at_, 3) == fence;
    for (int i = 0; i < (multi_line ? 3 : 1); ++i) advance();
    while (at_ < text_.size()) {
      if (quote == '"' && text_[at_] == '\\') {
        advance();
        if (at_ < text_.size()) advance();
        continue;
      }
      if (multi_line && text_.substr(at_, 3) == fence) {
        while (at_ < text_.size() && text_[at_] == quote) advance();  // up to two quotes may precede the fence
        return;
      }
      const char c = text_[at_];
      if (!multi_line && c == '\n') return;
      advance();
      if (!multi_line && c == quote) return;
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::uint32_t column_ = 1;
  int depth_ = 0;
  int dots_ = 0;
};

TomlValue value_of(const toml::node& node) {
  if (const auto* b = node.as_boolean()) return b->get();
  if (const auto* i = node.as_integer()) return i->get();
  if (const auto* f = node.as_floating_point()) return f->get();
  if (const auto* s = node.as_string()) return s->get();
  const auto* array = node.as_array();
  if (!array) return std::monostate{};
  std::vector<std::string> texts;
  for (const auto& element : *array) {
    const auto* s = element.as_string();
    if (!s) return std::monostate{};
    texts.push_back(s->get());
  }
  return texts;
}

// The lines of the document, to find the start of a text after its quotes.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text), starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
  }

  void place_text(const toml::source_position& at, const std::string& value, TomlEntry& entry) const {
    if (at.line < 1 || at.line > starts_.size()) return;
    const std::string_view here = text_.substr(std::min(starts_[at.line - 1] + at.column - 1, text_.size()));
    const bool fence = here.starts_with("\"\"\"") || here.starts_with("'''");
    const std::string_view behind = here.substr(std::min<std::size_t>(fence ? 3 : 1, here.size()));
    // A newline right after the fence is not part of the text.
    const std::size_t newline = !fence ? 0 : behind.starts_with("\n") ? 1 : behind.starts_with("\r\n") ? 2 : 0;
    if (!holds(behind.substr(newline), value)) return;
    entry.text_line = at.line + (newline > 0);
    entry.text_column = newline > 0 ? 1 : at.column + (fence ? 3 : 1);
  }

 private:
  // The parser converts \r\n to \n.
  static bool holds(std::string_view raw, std::string_view value) {
    std::size_t at = 0;
    for (const char c : value) {
      if (c == '\n' && raw.substr(at).starts_with("\r\n")) ++at;
      if (at == raw.size() || raw[at++] != c) return false;
    }
    return true;
  }

  std::string_view text_;
  std::vector<std::size_t> starts_;
};

std::string type_of(const toml::node& node) {
  std::ostringstream text;
  text << node.type();
  return text.str();
}

// The pre-scan bounds the depth: at most the levels of a table header and a dotted key plus the brackets.
void flatten(const toml::table& table, const std::string& prefix, const std::string& name, const Lines& lines,
             std::vector<TomlEntry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const auto where = key.source().begin;
    if (const auto* inner = node.as_table()) {
      if (inner->empty() && prefix.empty()) continue;
      flatten(*inner, path, name, lines, entries);
      continue;
    }
    if (entries.size() == k_max_toml_entries) {
      refuse_toml(name, where.line, where.column, fmt::format("more than {} keys", k_max_toml_entries));
    }
    entries.push_back({path, value_of(node), type_of(node), where.line, where.column});
    if (const auto* s = node.as_string()) lines.place_text(node.source().begin, s->get(), entries.back());
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name) {
  if (text.size() > k_max_toml_bytes) {
    refuse_toml(name, 1, 1, fmt::format("a config of {} bytes; at most {} are read", text.size(), k_max_toml_bytes));
  }
  BudgetScan(text, name).run();
  std::vector<TomlEntry> entries;
  try {
    flatten(toml::parse(text, name), "", name, Lines(text), entries);
  } catch (const toml::parse_error& e) {
    refuse_toml(name, e.source().begin.line, e.source().begin.column, fmt::format("not TOML: {}", e.description()),
           "Write [section] lines and key = value lines, as `unroll new KIND PATH` does");
  }
  return entries;
}

}  // namespace unroll::cli
