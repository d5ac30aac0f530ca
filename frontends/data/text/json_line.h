// SPDX-License-Identifier: Apache-2.0
// Lines of JSON: one object each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct JsonMember {
  std::string name;
  std::string text;      // with blanks for line breaks, tabs and other control characters
  bool is_text = false;  // false for numbers, lists, objects and so on, which are skipped
};
// The members of an object, in their order. Throws Error(input_file) naming `name` and the line on anything else, and
// on more than 1024 members.
std::vector<JsonMember> json_members(std::string_view line, const std::string& name, std::size_t number);

}  // namespace unroll
