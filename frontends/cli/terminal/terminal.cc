// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/support/text/utf8.h"

namespace unroll::cli {
namespace {

constexpr int k_usual_width = 80, k_least_width = 20, k_most_width = 1000;

// Returns the character at `at` and advances `at`. An invalid byte counts as a character.
char32_t take_character(std::string_view text, std::size_t& at) {
  char32_t code = 0;
  if (!next_character(text, at, code)) code = static_cast<unsigned char>(text[at++]);
  return code;
}

// East Asian wide characters and emoji take two columns, combining marks none.
std::size_t columns_of_character(char32_t code) {
  if (code >= 0x300 && code <= 0x36f) return 0;
  const bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
                    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
                    (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
                    (code >= 0x1f300 && code <= 0x1faff) || (code >= 0x20000 && code <= 0x3fffd);
  return wide ? 2 : 1;
}

// Returns the longest prefix of at most `width` columns.
std::string_view beginning(std::string_view text, std::size_t width) {
  std::size_t end = 0, columns = 0;
  for (std::size_t next = 0; next < text.size(); end = next) {
    columns += columns_of_character(take_character(text, next));
    if (columns > width) break;
  }
  return text.substr(0, end);
}

}  // namespace

int terminal_width(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<int>(size.ws_col, k_least_width);
  const char* columns = std::getenv("COLUMNS");
  const int given = columns ? std::atoi(columns) : 0;
  return given > 0 ? std::clamp(given, k_least_width, k_most_width) : k_usual_width;
}

int output_width() { return terminal_width(STDOUT_FILENO); }

bool can_redraw() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

bool can_color() {
  const char* no_color = std::getenv("NO_COLOR");
  return can_redraw() && (no_color == nullptr || *no_color == '\0');
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) columns += columns_of_character(take_character(text, at));
  return columns;
}

std::string fitted(std::string_view text, std::size_t width) {
  if (columns_of(text) <= width) return std::string(text);
  if (width < 4) return std::string(beginning(text, width));
  return std::string(beginning(text, width - 3)) + "...";
}

namespace {

// Returns the end of the next word. A command is one word, so that it can be copied: between back quotes, or after a
// colon up to the end of the text.
std::size_t word_end(std::string_view text, bool behind_colon) {
  if (behind_colon)
    for (const std::string_view program : {"unroll ", "iconv ", "tr ", "awk ", "env "})
      if (text.starts_with(program)) return text.size();
  const std::size_t closed = text.starts_with('`') ? text.find('`', 1) : std::string_view::npos;
  return std::min(text.find(' ', closed == std::string_view::npos ? 0 : closed), text.size());
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent, std::size_t margin) {
  width = std::max(width, indent + 2);
  const std::size_t lead = std::min(text.find_first_not_of(' '), text.size());
  std::string all(lead, ' ');
  text.remove_prefix(lead);
  std::size_t column = lead, start = lead;  // `start`: column of the first word of this line
  const auto next_line = [&] {
    all += "\n" + std::string(margin + indent, ' ');
    column = start = indent;
  };
  while (!text.empty()) {
    const std::size_t end = word_end(text, all.ends_with(':'));
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > start && column + 1 + columns_of(word) > width) next_line();
    if (column > start) {
      all += ' ';
      ++column;
    }
    const bool is_whole = word.find_first_of("/ ") != std::string_view::npos;  // a path or a command
    while (!is_whole && column < width && column + columns_of(word) > width) {
      const std::string_view part = beginning(word, width - column);
      all += part;
      word.remove_prefix(part.size());
      next_line();
    }
    all += word;
    column += columns_of(word);
  }
  return all;
}

}  // namespace unroll::cli
