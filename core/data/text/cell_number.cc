// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/cell_number.h"

#include <charconv>

#include "core/support/text/digits.h"

namespace unroll {

std::string_view trimmed(std::string_view s) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

std::optional<double> number_in(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  return value;
}

std::string thousands_text(NumberMarks marks) {
  return marks.thousands == 0 ? "none" : marks.thousands == ' ' ? "space" : std::string(1, marks.thousands);
}

std::string plain_number(std::string_view cell, NumberMarks marks) {
  constexpr std::pair<std::string_view, char> k_forms[] = {
      {"\xC2\xA0", ' '}, {"\xE2\x80\xAF", ' '}, {"\xE2\x80\x89", ' '}, {"\xE2\x80\x99", '\''}};
  std::string text(trimmed(cell)), plain;
  for (const auto& [form, mark] : k_forms)
    for (std::size_t at = text.find(form); at != std::string::npos; at = text.find(form))
      text.replace(at, form.size(), 1, mark);
  std::size_t at = 0, n_digits = 0, n_groups = 0;  // of the group, behind the first
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) plain += text[at++];
  const std::size_t first = at;
  for (; at < text.size(); ++at) {
    const bool is_mark = marks.thousands != 0 && text[at] == marks.thousands;
    if (!is_mark && !is_digit(text[at])) break;
    if (is_mark && (n_groups == 0 ? n_digits == 0 || n_digits > 3 || text[first] == '0' : n_digits != 3)) return "";
    n_digits = is_mark ? 0 : n_digits + 1;
    n_groups += is_mark;
    if (!is_mark) plain += text[at];
  }
  if (n_groups > 0 && n_digits != 3) return "";
  std::string rest = text.substr(at);
  if (marks.decimal != '.' && rest.find('.') != std::string::npos) return "";
  if (!rest.empty() && rest[0] == marks.decimal) rest[0] = '.';
  plain += rest;
  return number_in(plain) ? plain : "";
}

std::optional<double> number_in(std::string_view cell, NumberMarks marks) {
  return marks == NumberMarks{} ? number_in(cell) : number_in(plain_number(cell, marks));
}

}  // namespace unroll
