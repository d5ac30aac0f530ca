// SPDX-License-Identifier: Apache-2.0
// Lines of JSON: one object each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct JsonMember {
  std::string name;
  std::string text;  // with blanks for line breaks, tabs and other control characters; a number as it is written
  const char* kind = "a text";  // "a number"; without a text: "null", "true or false", "a list", "an object"
  bool is_text() const { return kind == std::string_view("a text"); }
};
// The members of an object, in their order. Throws Error(input_file) naming `name` and the line on anything else, on a
// member that is there twice, and on more than 1024 members.
std::vector<JsonMember> json_members(std::string_view line, const std::string& name, std::size_t number);
// The text of a member; numbers are labels in many files. Throws Error(input_file), which says what the member is
// instead, or which ones there are.
std::string text_of_member(const std::vector<JsonMember>& members, const std::string& member, const std::string& name,
                           std::size_t number);

}  // namespace unroll
