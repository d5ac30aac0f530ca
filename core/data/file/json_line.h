// SPDX-License-Identifier: Apache-2.0
// JSON lines: one object per line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct JsonMember {
  std::string name;
  std::string text;  // with blanks in place of line breaks, tabs and other control characters; numbers as written
  const char* kind = "a text";  // "a number"; without a text: "null", "true or false", "a list", "an object"
  bool is_text() const { return kind == std::string_view("a text"); }
};
// Returns the members of an object in order. Throws Error(input_file), which names `name` and the line, on other
// values, on repeated members, and on more than 1024 members.
std::vector<JsonMember> json_members(std::string_view line, const std::string& name, std::size_t number);
// Returns the text of a member. Numbers are accepted, because many files have numeric labels. Throws Error(input_file),
// which states the kind of the member, or lists the existing members.
std::string text_of_member(const std::vector<JsonMember>& members, const std::string& member, const std::string& name,
                           std::size_t number);

}  // namespace unroll
