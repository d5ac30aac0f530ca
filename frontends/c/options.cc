// SPDX-License-Identifier: Apache-2.0
#include "frontends/c/options.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "core/support/text/nearest_name.h"
#include "unroll/support/error.h"

namespace unroll::c {

Options::Options(const char* text, std::span<const std::string_view> known) {
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    const std::size_t at = word.find('=');
    if (at == std::string::npos)
      throw Error(ErrorKind::usage, "options", "'" + word + "' has no value", "Write key=value");
    const std::string key = word.substr(0, at);
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error(ErrorKind::usage, "options", "there is no option '" + key + "'",
                  known_names(key, std::vector<std::string_view>(known.begin(), known.end())));
    if (!values_.emplace(key, word.substr(at + 1)).second)
      throw Error(ErrorKind::usage, "options", "'" + key + "' is given twice");
  }
}

std::string Options::text(const std::string& key, std::string otherwise) const {
  const auto at = values_.find(key);
  return at == values_.end() ? std::move(otherwise) : at->second;
}

std::int64_t Options::number(const std::string& key, std::int64_t otherwise, std::int64_t least,
                             std::int64_t most) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return otherwise;
  const std::string& text = at->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw Error(ErrorKind::usage, "options",
                "'" + key + "' must be a number from " + std::to_string(least) + " to " + std::to_string(most) +
                    "; got '" + text + "'");
  return value;
}

}  // namespace unroll::c
