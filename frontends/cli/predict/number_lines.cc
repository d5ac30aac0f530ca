// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/number_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

constexpr std::string_view k_no_gaps = "A stream cannot skip a value: repeat the last one, or fill the gap in the file";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_comma(char c) { return c == ',' || c == ';'; }

[[noreturn]] void refuse(const std::string& file, std::int64_t line, std::size_t column, const std::string& what,
                         std::string_view next = {}) {
  throw Error(ErrorKind::input_file, fmt::format("{}:{}:{}", file, line, column + 1), what, next);
}

std::string numbers(std::size_t n) { return counted(n, "number"); }

}  // namespace

void parse_numbers(std::string_view line, std::span<float> values, const std::string& file, std::int64_t number) {
  std::size_t at = 0, n = 0;
  const auto skip_blanks = [&] {
    while (at < line.size() && is_blank(line[at])) ++at;
  };
  bool after_comma = false;
  for (skip_blanks(); at < line.size() || after_comma; skip_blanks()) {
    const std::size_t start = at;
    while (at < line.size() && !is_blank(line[at]) && !is_comma(line[at])) ++at;
    const std::string_view cell = line.substr(start, at - start);
    if (cell.empty()) refuse(file, number, start, fmt::format("cell {} of the line is empty", n + 1), k_no_gaps);
    double value = 0;
    const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || stop != cell.data() + cell.size())
      refuse(file, number, start, in_quotes(cell) + " is not a number", k_no_gaps);
    if (!std::isfinite(static_cast<float>(value)))
      refuse(file, number, start, in_quotes(cell) + " is not a finite number", k_no_gaps);
    if (n == values.size())
      refuse(file, number, start, fmt::format("a step takes {}; the line has more", numbers(values.size())));
    values[n++] = static_cast<float>(value);
    skip_blanks();
    after_comma = at < line.size() && is_comma(line[at]);
    at += after_comma;
  }
  if (n < values.size())
    refuse(file, number, at, fmt::format("a step takes {}; the line has {}", numbers(values.size()), n));
}

}  // namespace unroll::cli
