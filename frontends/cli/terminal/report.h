// SPDX-License-Identifier: Apache-2.0
// What a reporting command found, in order: printed as text for people or as one JSON object (--json).
#pragma once

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
  Report& add(std::string name, const char* text) { return add(std::move(name), ReportItem(std::string(text))); }
  const std::vector<std::pair<std::string, ReportItem>>& items() const { return *items_; }
  const ReportItem& at(const std::string& name) const;  // of an item that is there

  std::string json() const;  // one line; bytes that are not UTF-8 become U+FFFD
  // Names in words, numbers with the units that their keys end in (_bytes, _ms, ...), lists as tables with headings, a
  // report of reports as a table with these as columns. Fits the width of standard output.
  std::string text() const;
  void print(bool as_json) const;  // to stdout

 private:
  std::unique_ptr<std::vector<std::pair<std::string, ReportItem>>> items_;
};

// Files before stdout, which somebody may close early; where `write` fails what was measured is printed all the same.
void write_and_print(const std::function<void()>& write, const std::function<void()>& print);

// "1.5 MiB"
std::string bytes_text(std::size_t bytes);

}  // namespace unroll::cli
