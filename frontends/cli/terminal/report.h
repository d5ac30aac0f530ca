// SPDX-License-Identifier: Apache-2.0
// Results of a reporting command, in order: printed as text for people or as one JSON object (--json).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontends/cli/terminal/text_table.h"

namespace unroll::cli {

class Report;
using ReportList = std::vector<Report>;
using ReportItem =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, ReportList, Report, TextTable>;

class Report {
 public:
  Report();
  ~Report();
  Report(const Report&);
  Report(Report&&) noexcept;
  Report& operator=(Report);

  Report& add(std::string name, ReportItem item);
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  Report& add(std::string name, Integer number) {
    return add(std::move(name), ReportItem(static_cast<std::int64_t>(number)));
  }
  Report& add(std::string name, const char* text) { return add(std::move(name), ReportItem(std::string(text))); }
  const std::vector<std::pair<std::string, ReportItem>>& items() const { return *items_; }
  const ReportItem& at(const std::string& name) const;  // the item must exist

  std::string json() const;  // one line; bytes that are not UTF-8 become U+FFFD
  // Returns names in words, numbers with the units of their keys (_bytes, _ms, ...), and lists as tables with headings.
  // A report of reports becomes a table with these as columns. Fits the width of stdout.
  std::string text() const;
  void print(bool as_json) const;  // to stdout

 private:
  std::unique_ptr<std::vector<std::pair<std::string, ReportItem>>> items_;
};

// Writes files before stdout, which a reader may close early. Prints the report even if `write` fails.
void write_and_print(const std::function<void()>& write, const std::function<void()>& print);

// "1.5 MiB"
std::string bytes_text(std::size_t bytes);

}  // namespace unroll::cli
