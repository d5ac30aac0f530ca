// SPDX-License-Identifier: Apache-2.0
#include "core/data/file/lines.h"

#include <algorithm>

#include "core/data/text/encoding.h"
#include "core/support/interruption.h"
#include "unroll/support/error.h"

namespace unroll {

void refuse_line(const std::string& name, std::size_t number, const std::string& what, const std::string& next) {
  throw Error(ErrorKind::input_file, name, "line " + std::to_string(number) + ": " + what, next);
}

void require_utf8(const Line& line, const std::string& name) {
  if (const auto fault = fault_in(line.text)) refuse_line(name, line.number, fault->what, fault->next);
}

Lines lines_of(std::string_view text, std::size_t at, std::size_t n_before) {
  return [=](const std::function<void(const Line&)>& take) {
    std::size_t number = n_before;
    for (std::size_t i = 0; i < text.size();) {
      i = text.size() - without_marks_before(text.substr(i)).size();
      if (i == text.size()) break;
      const std::size_t end = std::min(text.find('\n', i), text.size());
      std::string_view line = text.substr(i, end - i);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      check_interruption();
      take({line, ++number, at + i});
      i = end + 1;
    }
  };
}

std::string_view first_line(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

void for_each_line(std::string_view text, const std::string& name,
                   const std::function<void(std::string_view line, std::size_t number)>& take) {
  lines_of(text)([&](const Line& line) {
    require_utf8(line, name);
    take(line.text, line.number);
  });
}

std::vector<std::string> cells_between(std::string_view line, char separator) {
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(separator, at), line.size());
    cells.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return cells;
}

std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view k_blanks = " \t\r\n";
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(k_blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(k_blanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(k_blanks, end);
  }
  return words;
}

}  // namespace unroll
