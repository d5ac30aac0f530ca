// SPDX-License-Identifier: Apache-2.0
// Reports as JSON, and files.
#include "frontends/cli/terminal/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

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
        } else if constexpr (std::is_same_v<T, TextTable>) {
          return value.rows;
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

void Report::print(bool as_json) const {
  const std::string text = as_json ? json() + "\n" : this->text();
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
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

}  // namespace unroll::cli
