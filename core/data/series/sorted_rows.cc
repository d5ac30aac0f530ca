// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/sorted_rows.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_sorted = UINT32_MAX;

}  // namespace

SortedRows::SortedRows(RecordFile file, const CsvFormat& format) : file_(std::move(file)), format_(format) {}

void SortedRows::sort(std::optional<std::size_t> column, bool reversed) {
  CsvReader reader(file_.name(), CsvLimits{}.max_columns, format_);
  std::unordered_map<std::string, std::uint32_t> places;
  std::vector<std::uint32_t> place_of;  // by record; 0: the header
  std::vector<std::string> cells;
  records_.emplace(file_);
  line_numbers_.clear();
  reader.look_at(file_.head());
  csv_rows(file_.lines())([&](const Line& line) {
    const bool is_row = reader.read(line, cells);
    if (!is_row && (reader.header().empty() || !place_of.empty())) return;  // a blank line
    if (line.number >= k_most_sorted)
      throw Error(ErrorKind::input_file, file_.name(), "has too many rows to sort them here", "Sort the file");
    const auto next = static_cast<std::uint32_t>(places.size() + 1);
    place_of.push_back(is_row ? places.emplace(column ? cells[*column] : "", next).first->second : 0);
    records_->add(line.at);
    line_numbers_.push_back(static_cast<std::uint32_t>(line.number));
  });
  order_.resize(place_of.size());
  std::iota(order_.begin(), order_.end(), 0U);
  if (reversed) std::ranges::reverse(order_);
  std::ranges::stable_sort(order_, {}, [&](std::uint32_t record) { return place_of[record]; });
}

void SortedRows::for_each(CsvReader& reader, const Take& take) const {
  std::vector<std::string> cells;
  const auto show = [&](const Line& line) {
    if (reader.read(line, cells)) take(line, cells);
  };
  reader.look_at(file_.head());
  if (!is_reordered()) return csv_rows(file_.lines())(show);
  for (const std::uint32_t record : order_) {
    const std::string text = records_->text(record);
    csv_rows(lines_of(text))([&](const Line& line) {
      show({line.text, line_numbers_[record], 0});
    });
  }
}

}  // namespace unroll
