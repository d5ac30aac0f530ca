// SPDX-License-Identifier: Apache-2.0
// Checks of tables: series of a forecast, rows of a classification.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/support/median.h"
#include "core/support/text/counted.h"
#include "frontends/data/file/lines.h"
#include "frontends/data/table/csv.h"
#include "frontends/tasks/common/data_rows.h"
#include "frontends/tasks/forecast/forecast_series.h"
#include "unroll/error.h"

namespace unroll {

namespace {

// Cells that must be numbers; the first ones that are not, in the reader's words.
class NumberCheck {
 public:
  explicit NumberCheck(bool gaps_allowed)
      : missing_(gaps_allowed ? CsvReader::Missing::as_nan : CsvReader::Missing::refused) {}
  // NaN where there is none.
  double see(const CsvReader& reader, const std::string& cell, std::size_t line, std::size_t column) {
    try {
      const double value = reader.number(cell, line, column, missing_);
      empty_ += std::isnan(value);
      return value;
    } catch (const Error& e) {
      if (bad_++ < k_shown) first_ += (first_.empty() ? "" : "; ") + std::string(e.what());
      return std::nan("");
    }
  }
  void report(DataChecker& c) const {
    c.figure("missing numbers", static_cast<double>(empty_));
    c.figure("invalid numbers", static_cast<double>(bad_));
    if (bad_ > 0) c.error("numbers", counted_are(bad_, "cell") + " missing, infinite or not a number: " + first_);
  }

 private:
  static constexpr std::int64_t k_shown = 5;
  CsvReader::Missing missing_;
  std::int64_t bad_ = 0, empty_ = 0;
  std::string first_;
};

// One of the columns of a forecast; `of` and `in` name it behind a figure and before a finding where there are several.
void check_series(DataChecker& c, const std::vector<double>& values, std::int64_t n_rows, const std::string& of,
                  const std::string& in) {
  constexpr double k_far = 10;  // times the median distance from the median: 6.7 deviations of a normal one
  constexpr double k_many_gaps = 0.1;
  const double gaps = 1 - static_cast<double>(values.size()) / static_cast<double>(std::max<std::int64_t>(n_rows, 1));
  if (gaps > k_many_gaps) c.warn("numbers", in + percent(gaps) + " of the values are missing");
  if (values.empty()) return;
  const double middle = median(values);
  std::vector<double> distances;
  for (const double v : values) distances.push_back(std::fabs(v - middle));
  const double spread = median(distances);
  const auto far = std::count_if(distances.begin(), distances.end(), [&](double d) { return d > k_far * spread; });
  c.figure("median" + of, middle);
  c.figure("lowest" + of, *std::min_element(values.begin(), values.end()));
  c.figure("highest" + of, *std::max_element(values.begin(), values.end()));
  if (spread == 0) c.warn("numbers", in + "most values are " + exact_text(middle) + ": there is little to learn");
  else if (far > 0)
    c.warn("numbers", in + counted(far, "outlier") + ": the distance from the median (" + exact_text(middle) +
                          ") is above 10 times the median distance (" + exact_text(spread) + ")");
}

}  // namespace

DataCheck check_data(const ForecastOptions& o, std::shared_ptr<const Vfs::Reader> from, const std::string& name) {
  return checked([&](DataChecker& c) {
    const RecordFile file(std::move(from), name, o.memory_limit);
    CsvReader reader(name, CsvLimits{}.max_columns, CsvFormat::of(o.header, o.separator));
    std::vector<std::size_t> columns;
    std::vector<std::vector<double>> values;  // the numbers of each column
    std::vector<std::string> cells;
    std::int64_t n = 0;
    NumberCheck numbers(o.missing != "error");
    csv_rows(file.lines())([&](const Line& line) {
      if (!reader.read(line, cells)) return;
      if (columns.empty())
        for (const std::string& column : columns_of(o)) columns.push_back(reader.column(column));
      values.resize(columns.size());
      ++n;
      for (std::size_t k = 0; k < columns.size(); ++k) {
        const double value = numbers.see(reader, cells[columns[k]], line.number, columns[k]);
        if (!std::isnan(value)) values[k].push_back(value);
      }
    });
    if (n == 0) throw Error(ErrorKind::input_file, name, "has no data rows");
    c.figure("rows", static_cast<double>(n));
    c.empty_lines(file, 0, /*csv=*/true);
    numbers.report(c);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::string of = columns.size() > 1 ? reader.column_name(columns[k]) : "";
      check_series(c, values[k], n, of.empty() ? "" : " of " + of, of.empty() ? "" : of + ": ");
    }
  });
}

DataCheck check_data(const ClassifyOptions& o, std::shared_ptr<const Vfs::Reader> from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_of(RecordFile(std::move(from), name, o.memory_limit), o.validation, o.test);
    c.empty_lines(file, 0, /*csv=*/true);
    CsvReader reader(name, CsvLimits{}.max_columns, CsvFormat::of(o.header, o.separator));
    NumberCheck numbers(o.missing != "error");
    std::vector<std::size_t> features;
    std::size_t label = 0;
    std::vector<std::string> first;  // the first row, until a column differs from it
    std::vector<bool> same;
    index_rows(file, reader, [&](std::span<const std::string> cells, std::size_t line) {
      if (first.empty()) {
        label = reader.column(o.label);
        for (const std::string& column : o.columns) features.push_back(reader.column(column));
        for (std::size_t k = 0; o.columns.empty() && k < cells.size(); ++k)
          if (k != label) features.push_back(k);
        first.assign(cells.begin(), cells.end());
        same.assign(cells.size(), true);
      }
      for (const std::size_t k : features) {
        numbers.see(reader, cells[k], line, k);
        same[k] = same[k] && cells[k] == first[k];
      }
    });
    numbers.report(c);
    const DataRows data(file, o.validation, o.test, o.split_seed);
    std::vector<CheckedRow> rows;
    std::map<std::string, std::array<std::int64_t, 3>> labels;
    data.for_each([&](const DataRows::Row& row) {
      const std::vector<std::string> cells = cells_in(file, reader, row.record);
      std::string content;
      for (const std::size_t k : features) content += cells[k] + ",";
      rows.push_back({content_of(content), static_cast<std::int64_t>(features.size()), row.line, row.split});
      ++labels[std::string(trimmed(cells[label]))][static_cast<std::size_t>(row.split)];
    });
    data.count(c);
    c.duplicates(rows);
    c.labels(labels);
    c.figure("columns that never change", static_cast<double>(std::count_if(features.begin(), features.end(),
                                                                            [&](std::size_t k) { return same[k]; })));
  });
}

}  // namespace unroll
