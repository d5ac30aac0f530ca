// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/text/json_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/data/file/lines.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_members = 1024;

// Keeps the texts of the outermost object; its parser does not recurse, however deep a line is nested.
class MemberEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<JsonMember> members;
  std::string problem;

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& text) override {
    if (depth_ != 1) return other();
    std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
    members.back().text = std::move(text);
    members.back().is_text = true;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    if (members.size() == k_most_members)
      return refuse("an object of more than " + std::to_string(k_most_members) + " members");
    members.push_back({std::move(name), {}, false});
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return refuse("not an object");
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
  bool other() { return depth_ > 0 || refuse("not an object"); }
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

}  // namespace unroll
