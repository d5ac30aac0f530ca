// SPDX-License-Identifier: Apache-2.0
// Formats a report for people: names in words, numbers with units, no line wider than the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/support/text/printable.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/terminal.h"
#include "frontends/cli/terminal/text_table.h"

namespace unroll::cli {
namespace {

// Keys with explanatory words, and key suffixes that are units.
enum class CellUnit { none, bytes, seconds, milliseconds, microseconds, share };
struct Quantity {
  std::string_view key, words;
  CellUnit unit;
};
constexpr Quantity k_quantities[] = {
    {"seconds", "time", CellUnit::seconds},
    {"milliseconds", "time", CellUnit::milliseconds},
    {"data_wait", "data wait", CellUnit::share},
    {"communication_bytes", "communication, sent", CellUnit::bytes},
    {"communication_gbps", "communication, GB/s", CellUnit::none},
    {"share", "share", CellUnit::share},
    {"spread", "spread", CellUnit::share},
    {"of_roofline", "of the roofline", CellUnit::share},
    {"bytes", "size", CellUnit::bytes},
    {"gflops", "GFLOP/s", CellUnit::none},
    {"gflops_of_roofline", "roofline, GFLOP/s", CellUnit::none},
    {"gbps_of_roofline", "roofline, GB/s", CellUnit::none},
};
constexpr std::pair<std::string_view, CellUnit> k_key_endings[] = {
    {"_bytes", CellUnit::bytes},
    {"_seconds", CellUnit::seconds},
    {"_ms", CellUnit::milliseconds},
    {"_us", CellUnit::microseconds}};

std::string report_share(double share) {
  constexpr double k_whole = 0.1;  // above it the first decimal is insignificant
  return share >= k_whole ? fmt::format("{:.0f} %", 100 * share) : fmt::format("{:.2g} %", 100 * share);
}

std::string with_spaces(std::string_view key) {
  std::string words(key);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

struct Label {
  std::string words;
  CellUnit unit = CellUnit::none;
};
Label label_of(const std::string& raw) {
  const std::string key = printable(raw);
  for (const Quantity& q : k_quantities)
    if (key == q.key) return {std::string(q.words), q.unit};
  for (const auto& [end, unit] : k_key_endings)
    if (key.size() > end.size() && key.ends_with(end))
      return {with_spaces(std::string_view(key).substr(0, key.size() - end.size())), unit};
  return {with_spaces(key), CellUnit::none};
}

std::string quantity_text(double value, CellUnit unit) {
  switch (unit) {
    case CellUnit::none: return figure_text(value);
    case CellUnit::bytes: return bytes_text(static_cast<std::size_t>(std::max(value, 0.0)));
    case CellUnit::seconds: return fmt::format("{:.3g} s", value);
    case CellUnit::milliseconds: return fmt::format("{:.4g} ms", value);
    case CellUnit::microseconds: return fmt::format("{:.4g} us", value);
    case CellUnit::share: return report_share(value);
  }
  return {};
}

std::string scalar_text(const ReportItem& item, CellUnit unit) {
  if (const auto* b = std::get_if<bool>(&item)) return *b ? "yes" : "no";
  if (const auto* i = std::get_if<std::int64_t>(&item))
    return unit == CellUnit::none ? count_text(*i) : quantity_text(static_cast<double>(*i), unit);
  if (const auto* d = std::get_if<double>(&item)) return quantity_text(*d, unit);
  if (const auto* words = std::get_if<std::vector<std::string>>(&item))
    return fmt::format("{}", fmt::join(*words, ", "));
  if (const auto* text = std::get_if<std::string>(&item)) return *text;
  return "";
}

// Rows may lack columns.
TextTable table_of(const ReportList& rows) {
  std::vector<std::string> keys;
  for (const Report& row : rows)
    for (const auto& item : row.items())
      if (std::find(keys.begin(), keys.end(), item.first) == keys.end()) keys.push_back(item.first);
  TextTable table;
  for (const std::string& key : keys) table.head.push_back(label_of(key).words);
  for (const Report& row : rows) {
    auto& cells = table.rows.emplace_back(keys.size());
    for (const auto& [key, item] : row.items())
      cells[std::find(keys.begin(), keys.end(), key) - keys.begin()] =
          scalar_text(item, label_of(key).unit);
  }
  return table;
}

// Methods as columns, metrics as rows.
TextTable table_of_methods(const Report& methods) {
  ReportList rows;
  for (const auto& [method, metrics] : methods.items())
    for (const auto& [metric, value] : std::get<Report>(metrics).items()) {
      auto row = std::find_if(rows.begin(), rows.end(), [&, name = metric](const Report& r) {
        return std::get<std::string>(r.at("metric")) == name; });
      if (row == rows.end()) row = rows.insert(rows.end(), std::move(Report().add("metric", metric)));
      row->add(method, scalar_text(value, CellUnit::none));
    }
  return table_of(rows);
}

TextTable table_of_items(const Report& report) {
  TextTable table;
  for (const auto& [key, item] : report.items()) table.rows.push_back({key, scalar_text(item, CellUnit::none)});
  return table;
}

bool holds_methods(const Report& report) {
  const auto is_report = [](const auto& item) { return std::holds_alternative<Report>(item.second); };
  return !report.items().empty() && std::all_of(report.items().begin(), report.items().end(), is_report);
}

}  // namespace

std::string Report::text() const {
  constexpr std::size_t k_indent = 2, k_widest_label = 30;
  constexpr std::string_view k_command = "next";  // stays on one line, for copying
  const std::size_t width = output_width();
  std::size_t labels = 0;
  for (const auto& [key, item] : *items_)
    if (!std::holds_alternative<ReportList>(item) && !std::holds_alternative<Report>(item) &&
        !std::holds_alternative<TextTable>(item))
      labels = std::max(labels, std::min(columns_of(label_of(key).words), k_widest_label));
  std::string text;
  bool after_table = false;
  for (const auto& [key, item] : *items_) {
    const auto* list = std::get_if<ReportList>(&item);
    const auto* inner = std::get_if<Report>(&item);
    const auto* cells = std::get_if<TextTable>(&item);
    const Label label = label_of(key);
    if (cells || (list && !list->empty()) || (inner && !inner->items().empty())) {
      const TextTable table = cells                  ? *cells
                              : list                 ? table_of(*list)
                              : holds_methods(*inner) ? table_of_methods(*inner)
                                                      : table_of_items(*inner);
      text += (text.empty() ? "" : "\n") + wrapped(label.words, width, k_indent) + "\n";
      text += table_text(table, width, k_indent);
      after_table = true;
      continue;
    }
    if (after_table) text += "\n";
    after_table = false;
    const std::size_t pad = std::max(labels, columns_of(label.words)) + k_indent;
    const std::string value = list || inner ? "none" : printable(scalar_text(item, label.unit), "\n");
    text += label.words + std::string(pad - columns_of(label.words), ' ') +
            wrapped(value, key == k_command ? SIZE_MAX : width > pad + k_indent ? width - pad : width, 0, pad) + "\n";
  }
  return text;
}

}  // namespace unroll::cli
