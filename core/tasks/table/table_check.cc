// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/table_check.h"

#include <algorithm>
#include <cmath>

#include "core/support/text/counted.h"
#include "core/tasks/check/data_rows.h"
#include "core/tasks/table/table_form.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll {

double NumberCheck::see(const CsvReader& reader, const std::string& cell, std::size_t line, std::size_t column) {
  constexpr std::size_t k_shown = 5;
  try {
    const double value = reader.number(cell, line, column, missing_);
    empty_ += std::isnan(value);
    return value;
  } catch (const Error& e) {
    ++bad_;
    const auto is_alike = [&](const Fault& f) { return f.column == column && f.next == e.next(); };
    auto fault = std::ranges::find_if(faults_, is_alike);
    if (fault == faults_.end() && faults_.size() < k_shown)
      fault = faults_.insert(fault, {column, e.next(), std::string(message_of(e))});
    if (fault != faults_.end()) ++fault->n;
    return std::nan("");
  }
}

void NumberCheck::report(DataChecker& c) const {
  c.figure("missing numbers", static_cast<double>(empty_));
  c.figure("invalid numbers", static_cast<double>(bad_));
  if (bad_ == 0) return;
  std::string text, next;
  for (const Fault& f : faults_) {
    text += (text.empty() ? "" : "; ") + f.first;
    if (f.n > 1) text += " (and " + counted(f.n - 1, "more cell") + " of this column)";
    if (next.find(f.next) == std::string::npos) next += ". " + f.next;
  }
  c.error("numbers", counted_are(bad_, "cell") + " missing, infinite or not a number: " + text + next);
}

namespace {

// The columns of a table with targets, and its constant features.
struct Columns {
  std::vector<std::size_t> targets, features;
  std::vector<std::string> first;  // the first row
  std::vector<bool> same;          // by column: equals the first row so far

  Columns(const TableRowsOptions& o, std::span<const std::string> names, const CsvReader& reader,
          std::span<const std::string> cells)
      : first(cells.begin(), cells.end()), same(cells.size(), true) {
    for (const std::string& target : names) targets.push_back(reader.column(target));
    for (const std::string& column : o.columns) features.push_back(reader.column(column));
    for (std::size_t k = 0; o.columns.empty() && k < cells.size(); ++k)
      if (std::find(targets.begin(), targets.end(), k) == targets.end()) features.push_back(k);
    reader.refuse_repeated(targets);
    reader.refuse_repeated(features);
  }
};

}  // namespace

DataCheck check_table_rows(const TableRowsOptions& o, std::span<const std::string> names,
                           std::shared_ptr<const Vfs::Reader> from, const std::string& name, const TakeTargets& take,
                           const std::function<void(DataChecker&)>& finish) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_of(RecordFile(std::move(from), name, o.memory_limit), o);
    c.empty_lines(file, 0, /*csv=*/true);
    CsvReader reader(name, CsvLimits{}.max_columns, csv_format(o));
    NumberCheck numbers(o.missing != "error");
    std::optional<Columns> columns;
    index_rows(file, reader, [&](std::span<const std::string> cells, std::size_t line) {
      if (!columns) columns.emplace(o, names, reader, cells);
      for (const std::size_t k : columns->features) {
        numbers.see(reader, cells[k], line, k);
        columns->same[k] = columns->same[k] && cells[k] == columns->first[k];
      }
    });
    numbers.report(c);
    c.format(reader.warnings());
    const DataRows data(file, split_rows(file, o));
    std::vector<CheckedRow> rows;
    data.for_each([&](const DataRows::Row& row) {
      const std::vector<std::string> cells = cells_in(file, reader, row.record);
      std::string content;
      for (const std::size_t k : columns->features) content += cells[k] + ",";
      rows.push_back({content_of(content), std::ssize(columns->features), row.line, row.split});
      std::vector<std::string> targets;
      for (const std::size_t k : columns->targets) targets.push_back(reader.plain(cells[k]));
      take(targets, row.split);
    });
    data.count(c);
    c.duplicates(rows);
    finish(c);
    c.figure("columns that never change",
             static_cast<double>(std::ranges::count_if(columns->features, [&](std::size_t k) {
               return columns->same[k];
             })));
  });
}

}  // namespace unroll
