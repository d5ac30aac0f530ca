// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/lines.h"

#include <algorithm>

#include "frontends/data/text.h"
#include "unroll/error.h"

namespace unroll {

void refuse_line(const std::string& name, std::size_t number, const std::string& what, const std::string& next) {
  throw Error(ErrorKind::input_file, name, "line " + std::to_string(number) + ": " + what, next);
}

void for_each_line(std::string_view text, const std::string& name,
                   const std::function<void(std::string_view line, std::size_t number)>& take) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const std::size_t bad = first_not_utf8(line); bad != std::string_view::npos)
      refuse_line(name, number, "is not UTF-8 at byte " + std::to_string(bad + 1),
                  "Convert it, for example with iconv -f LATIN1 -t UTF-8");
    take(line, number);
  }
}

std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view k_blanks = " \t\r";
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(k_blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(k_blanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(k_blanks, end);
  }
  return words;
}

}  // namespace unroll
