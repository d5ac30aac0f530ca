// SPDX-License-Identifier: Apache-2.0
#include "core/data/file/json_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/data/file/lines.h"
#include "core/support/text/in_quotes.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_members = 1024;

// Keeps the texts of the outermost object. The parser does not recurse, even for deeply nested lines.
class MemberEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<JsonMember> members;
  std::string problem;

  bool null() override { return is("null"); }
  bool boolean(bool) override { return is("true or false"); }
  bool number_integer(number_integer_t number) override { return is("a number", std::to_string(number)); }
  bool number_unsigned(number_unsigned_t number) override { return is("a number", std::to_string(number)); }
  bool number_float(number_float_t, const string_t& text) override { return is("a number", text); }
  bool binary(binary_t&) override { return is("binary data"); }
  bool string(string_t& text) override {
    std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return is("a text", std::move(text));
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    if (members.size() == k_most_members)
      return refuse("an object of more than " + std::to_string(k_most_members) + " members");
    if (std::ranges::count(members, name, &JsonMember::name) > 0)
      return refuse("an object with two members " + in_quotes(name));
    members.push_back({std::move(name), {}});
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0) is("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!is("a list")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse("not JSON at byte " + std::to_string(position));
  }

 private:
  bool is(const char* kind, std::string text = {}) {
    if (depth_ == 1) {
      members.back().kind = kind;
      members.back().text = std::move(text);
    }
    return depth_ > 0 || refuse("not an object");
  }
  bool refuse(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }
  std::size_t depth_ = 0;
};

}  // namespace

std::vector<JsonMember> json_members(std::string_view line, const std::string& name, std::size_t number) {
  MemberEvents events;
  nlohmann::json::sax_parse(line.begin(), line.end(), &events);
  if (!events.problem.empty())
    refuse_line(name, number, "is " + events.problem,
                "Write one JSON object per line: {\"text\": \"...\", \"summary\": \"...\"}");
  return std::move(events.members);
}

std::string text_of_member(const std::vector<JsonMember>& members, const std::string& member, const std::string& name,
                           std::size_t number) {
  const auto at = std::ranges::find(members, member, &JsonMember::name);
  if (at != members.end() && (at->is_text() || at->kind == std::string_view("a number"))) return at->text;
  if (at != members.end())
    refuse_line(name, number, "has " + std::string(at->kind) + " as " + in_quotes(member) + "; expected a text",
                "Write a text in quotes, or leave the line out");
  std::string known;
  for (const JsonMember& m : members) known += (known.empty() ? "" : ", ") + in_quotes(m.name);
  refuse_line(name, number, "has no member " + in_quotes(member),
              known.empty() ? "Give every line the same members" : "The line has " + known);
}

}  // namespace unroll
