// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/file/lines.h"

#include <algorithm>

#include "core/support/interruption.h"
#include "frontends/data/text/text.h"
#include "unroll/error.h"

namespace unroll {

void refuse_line(const std::string& name, std::size_t number, const std::string& what, const std::string& next) {
  throw Error(ErrorKind::input_file, name, "line " + std::to_string(number) + ": " + what, next);
}

void require_utf8(const Line& line, const std::string& name) {
  if (const std::size_t bad = first_not_utf8(line.text); bad != std::string_view::npos)
    refuse_line(name, line.number, "is not UTF-8 at byte " + std::to_string(bad + 1),
                std::string(how_to_convert(line.number == 1 ? line.text : "")));
}

Lines lines_of(std::string_view text, std::size_t at, std::size_t n_before) {
  return [=](const std::function<void(const Line&)>& take) {
    constexpr std::string_view k_mark = "\xEF\xBB\xBF";
    std::size_t number = n_before;
    for (std::size_t i = at == 0 && text.starts_with(k_mark) ? k_mark.size() : 0; i < text.size();) {
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
