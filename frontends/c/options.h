// SPDX-License-Identifier: Apache-2.0
// Options as text: "key=value" separated by blanks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace unroll::c {

class Options {
 public:
  // Null is empty. Throws Error(usage) for a key outside `known`, a repeated key, or a word without '='.
  Options(const char* text, std::span<const std::string_view> known);
  std::string text(const std::string& key, std::string otherwise) const;
  // Throws Error(usage) if the value is not a number in [least, most].
  std::int64_t number(const std::string& key, std::int64_t otherwise, std::int64_t least, std::int64_t most) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace unroll::c
