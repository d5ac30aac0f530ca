// SPDX-License-Identifier: Apache-2.0
// Keys that have an effect only with certain values of other keys. The rows of the options contain the conditions:
// "train.cooldown > 0 or train.schedule = linear|cosine", with `and` for several.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "frontends/config/config.h"

namespace unroll::cli {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(by, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + by.size();
  }
  return parts;
}

std::string plain_text(const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : toml_text(value);
}
double number_of(std::string_view text) {  // independent of the locale
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "train.average = ema|mean" or "model.layers > 1".
bool holds(const Config& config, std::string_view clause, unsigned uses) {
  const std::vector<std::string_view> parts = split(clause, " ");
  if (!(find_key(parts[0])->uses & uses)) return true;
  const std::string value = plain_text(config.value(parts[0]));
  if (parts[1] == ">") return number_of(value) > number_of(parts[2]);
  const std::vector<std::string_view> words = split(parts[2], "|");
  return std::ranges::find(words, value) != words.end();
}

bool fulfills(const Config& config, std::string_view needs, unsigned uses) {
  return std::ranges::any_of(split(needs, " or "), [&](std::string_view all) {
    return std::ranges::all_of(split(all, " and "),
                               [&](std::string_view clause) { return holds(config, clause, uses); });
  });
}

}  // namespace

std::vector<std::string> Config::settings_without_effect(unsigned uses) const {
  std::vector<std::string> lines;
  for (const KeySpec& key : config_schema()) {
    if (!(key.uses & uses) || key.needs.empty() || value(key.path) == default_value(key, uses)) continue;
    if (fulfills(*this, key.needs, uses)) continue;
    const std::string given = toml_text(value(key.path));
    lines.push_back(fmt::format("{} = {} has no effect: it needs {}", key.path, given, key.needs));
  }
  return lines;
}

}  // namespace unroll::cli
