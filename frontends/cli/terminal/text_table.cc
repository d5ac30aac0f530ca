// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/terminal/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/support/text/printable.h"
#include "frontends/cli/terminal/terminal.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_gap = 2;
constexpr std::size_t k_least_wrapped = 24;  // minimum columns for wrapping text

// "12", "-0.5", "3.2 ms", "41 %", "-"
bool is_number(const std::string& cell) {
  if (cell == "-" || cell.empty()) return true;
  const std::size_t at = cell.find_first_not_of("+-");
  if (at == std::string::npos || !std::isdigit(static_cast<unsigned char>(cell[at]))) return false;
  const std::size_t end = std::min(cell.find(' '), cell.size());
  const bool digits = cell.find_first_not_of("+-.,0123456789eE", 0) >= end;
  constexpr std::size_t k_longest_unit = 8;
  return digits && cell.size() - end <= k_longest_unit && cell.find(' ', end + 1) == std::string::npos;
}

struct Column {
  std::size_t width = 0;
  bool right = true;
};

class Layout {
 public:
  Layout(const TextTable& table, std::size_t width, std::size_t indent) : t_(table), width_(width), indent_(indent) {
    for (std::string& name : t_.head) name = printable(name);
    for (auto& row : t_.rows)
      for (std::string& cell : row) cell = printable(cell);
    columns_.resize(t_.head.size());
    for (std::size_t i = 0; i < t_.head.size(); ++i) columns_[i].width = columns_of(t_.head[i]);
    for (const auto& row : t_.rows) {
      columns_.resize(std::max(columns_.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) {
        columns_[i].width = std::max(columns_[i].width, columns_of(row[i]));
        columns_[i].right &= is_number(row[i]);
      }
    }
    if (!columns_.empty()) columns_[0].right &= t_.head.empty();
  }

  std::string text() {
    if (columns_.empty()) return "";
    std::vector<std::size_t> all(columns_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    if (fits(all)) return block(all);
    std::string text;
    for (const auto& chosen : folded()) {
      if (chosen.empty()) return lists();
      text += (text.empty() ? "" : "\n") + block(chosen);
    }
    return text;
  }

 private:
  // Returns the width before the last chosen column.
  std::size_t before_last(const std::vector<std::size_t>& chosen) const {
    std::size_t sum = indent_;
    for (std::size_t i = 0; i + 1 < chosen.size(); ++i) sum += columns_[chosen[i]].width + k_gap;
    return sum;
  }
  // True if the columns fit unchanged, or with the last one wrapped.
  bool fits(const std::vector<std::size_t>& chosen) const {
    const Column& last = columns_[chosen.back()];
    const std::size_t before = before_last(chosen);
    if (before + last.width <= width_) return true;
    return chosen.back() + 1 == columns_.size() && !last.right && before + k_least_wrapped <= width_;
  }
  // Returns the columns of each table, or {{}} if a column does not fit beside the first.
  std::vector<std::vector<std::size_t>> folded() const {
    std::vector<std::vector<std::size_t>> blocks{{0}};
    for (std::size_t i = 1; i < columns_.size(); ++i) {
      blocks.back().push_back(i);
      if (fits(blocks.back())) continue;
      blocks.back().pop_back();
      blocks.push_back({0, i});
      if (!fits(blocks.back())) return {{}};
    }
    if (blocks.front().size() == 1 && !fits(blocks.front())) return {{}};
    return blocks;
  }

  std::string block(const std::vector<std::size_t>& chosen) const {
    std::string text;
    if (std::any_of(t_.head.begin(), t_.head.end(), [](const auto& name) { return !name.empty(); }))
      text += line(t_.head, chosen);
    for (const auto& row : t_.rows) text += line(row, chosen);
    return text;
  }
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& chosen) const {
    std::string line(indent_, ' ');
    const std::size_t before = before_last(chosen);
    for (const std::size_t i : chosen) {
      const std::string cell = i < cells.size() ? cells[i] : "";
      const std::string pad(columns_[i].width - columns_of(cell), ' ');
      if (columns_[i].right) line += pad + cell;
      else if (i == chosen.back()) line += wrapped(cell, width_ - before, 0);
      else line += cell + pad;
      if (i != chosen.back()) line += std::string(k_gap, ' ');
    }
    for (std::size_t at = line.find('\n'); at != std::string::npos; at = line.find('\n', at + 1))
      line.insert(at + 1, std::string(before, ' '));
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }

  std::string lists() const {
    std::string text;
    for (const auto& row : t_.rows) {
      TextTable list;
      for (std::size_t i = 0; i < row.size(); ++i)
        if (!row[i].empty()) list.rows.push_back({i < t_.head.size() ? t_.head[i] : "", row[i]});
      std::size_t label = 0;
      for (const auto& item : list.rows) label = std::max(label, columns_of(item[0]));
      if (!text.empty()) text += "\n";
      for (const auto& item : list.rows) {
        const std::size_t at = indent_ + label + k_gap;
        text += std::string(indent_, ' ') + item[0] + std::string(label + k_gap - columns_of(item[0]), ' ') +
                wrapped(item[1], width_ > at ? width_ - at : 1, 0, at) + "\n";
      }
    }
    return text;
  }

  TextTable t_;
  std::size_t width_, indent_;
  std::vector<Column> columns_;
};

}  // namespace

std::string table_text(const TextTable& table, std::size_t width, std::size_t indent) {
  return Layout(table, width, indent).text();
}

std::string with_commas(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = std::min(digits.find('.'), digits.size()); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string count_text(long long value) {
  constexpr long long k_large = 10000;
  const std::string digits = fmt::format("{}", value);
  return value >= k_large || value <= -k_large ? with_commas(digits) : digits;
}

std::string figure_text(double value) {
  constexpr double k_large = 10000, k_huge = 1e15;
  const double size = std::fabs(value);
  if (std::isfinite(value) && size >= k_large && size < k_huge) return with_commas(fmt::format("{:.0f}", value));
  return fmt::format("{:.5g}", value);
}

}  // namespace unroll::cli
