// SPDX-License-Identifier: Apache-2.0
// Text and JSON forms of a report.
#include "frontends/cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "unroll/error.h"
#include "unroll/vfs.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Report& report);

Json to_json(const ReportItem& item) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Report>) {
          return to_json(value);
        } else if constexpr (std::is_same_v<T, ReportList>) {
          Json list = Json::array();
          for (const Report& row : value) list.push_back(to_json(row));
          return list;
        } else {
          return value;
        }
      },
      item);
}

Json to_json(const Report& report) {
  Json object = Json::object();
  for (const auto& [name, item] : report.items()) object[name] = to_json(item);
  return object;
}

std::string scalar_text(const ReportItem& item) {
  if (const auto* b = std::get_if<bool>(&item)) return *b ? "yes" : "no";
  if (const auto* i = std::get_if<std::int64_t>(&item)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&item)) return fmt::format("{:.6g}", *d);
  if (const auto* words = std::get_if<std::vector<std::string>>(&item))
    return fmt::format("{}", fmt::join(*words, " "));
  return std::get<std::string>(item);
}

// Columns as wide as their widest cell; the last one is left ragged.
std::string table_text(const ReportList& rows) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::size_t> widths;
  for (const Report& row : rows) {
    auto& line = cells.emplace_back();
    for (const auto& item : row.items()) line.push_back(scalar_text(item.second));
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : cells) {
    std::string row = " ";
    for (std::size_t i = 0; i < line.size(); ++i) row += fmt::format(" {:<{}}", line[i], widths[i]);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

Report::Report() : items_(std::make_unique<std::vector<std::pair<std::string, ReportItem>>>()) {}
Report::~Report() = default;
Report::Report(const Report& other)
    : items_(std::make_unique<std::vector<std::pair<std::string, ReportItem>>>(*other.items_)) {}
Report::Report(Report&&) noexcept = default;
Report& Report::operator=(Report other) {
  items_ = std::move(other.items_);
  return *this;
}

Report& Report::add(std::string name, ReportItem item) {
  items_->emplace_back(std::move(name), std::move(item));
  return *this;
}

const ReportItem& Report::at(const std::string& name) const {
  return std::find_if(items_->begin(), items_->end(), [&](const auto& item) { return item.first == name; })->second;
}

std::string Report::json() const { return to_json(*this).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string Report::text() const {
  std::size_t width = 0;
  for (const auto& item : *items_) width = std::max(width, item.first.size());
  std::string text;
  for (const auto& [name, item] : *items_) {
    if (const auto* list = std::get_if<ReportList>(&item)) {
      text += fmt::format("{}\n{}", name, table_text(*list));
    } else if (const auto* inner = std::get_if<Report>(&item)) {
      ReportList rows;
      for (const auto& [key, value] : inner->items()) rows.push_back(std::move(Report().add("", key).add("", value)));
      text += fmt::format("{}\n{}", name, table_text(rows));
    } else {
      text += fmt::format("{:<{}}  {}\n", name, width, scalar_text(item));
    }
  }
  return text;
}

void Report::print(bool as_json) const {
  const std::string text = as_json ? json() + "\n" : this->text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void write_file(const std::string& path, const std::string& text) {
  write_atomically(disk(), path, std::array{std::as_bytes(std::span(text))});
}

void write_and_print(const std::function<void()>& write, const std::function<void()>& print) {
  try {
    write();
  } catch (const Error&) {
    print();
    throw;
  }
  print();
}

std::string bytes_text(std::size_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::size_t bytes_of(const std::string& who, const std::string& text) {
  constexpr std::pair<std::string_view, double> units[] = {
      {"", 1}, {"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  if (text.empty()) return 0;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  while (*end == ' ') ++end;
  for (const auto& [unit, factor] : units)
    if (end != text.c_str() && unit == end && number > 0 && number * factor >= 1 && number * factor <= 1e18)
      return static_cast<std::size_t>(number * factor);
  throw Error(ErrorKind::usage, who, "must be a positive number of bytes; got '" + text + "'", "Write 800MiB or 2GiB");
}

}  // namespace unroll::cli
