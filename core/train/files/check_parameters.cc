// SPDX-License-Identifier: Apache-2.0
#include "core/train/files/check_parameters.h"

#include <vector>

#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_named = 5;

// "; missing: a, b and 3 more"
std::string listed(const char* what, const std::vector<std::string>& entries) {
  std::string text;
  for (std::size_t i = 0; i < entries.size() && i < k_most_named; ++i) text += (i > 0 ? ", " : what) + entries[i];
  if (entries.size() > k_most_named) text += " and " + std::to_string(entries.size() - k_most_named) + " more";
  return text;
}

}  // namespace

void check_parameters(const NamedTypes& expected, const NamedTypes& got, std::string_view source) {
  std::vector<std::string> other, missing, unknown;
  for (const auto& [name, type] : expected) {
    const auto at = got.find(name);
    if (at == got.end())
      missing.push_back(name + " " + type.text());
    else if (at->second != type)
      other.push_back(name + ": expected " + type.text() + ", got " + at->second.text());
  }
  for (const auto& [name, type] : got)
    if (!expected.contains(name)) unknown.push_back(name + " " + type.text());
  std::string text;
  const std::string parts[] = {listed("", other), listed("missing: ", missing), listed("not in the model: ", unknown)};
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  if (text.empty()) return;
  throw Error(ErrorKind::input_file, source, text,
              other.empty() ? "The weights belong to a model with other layers"
                            : "The weights belong to a model with other sizes");
}

}  // namespace unroll
