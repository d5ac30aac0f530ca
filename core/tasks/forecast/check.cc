// SPDX-License-Identifier: Apache-2.0
// Checks of series data.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/data/file/lines.h"
#include "core/support/median.h"
#include "core/support/text/counted.h"
#include "core/tasks/check/data_rows.h"
#include "core/tasks/forecast/forecast_series.h"
#include "core/tasks/table/table_check.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Checks one column of a forecast. `gaps` is the share of missing cells. With several columns `of` and `in` name it in
// figures and findings. Several series (not `is_one`) have levels of their own.
void check_series(DataChecker& c, const std::vector<double>& values, double gaps, const std::string& of,
                  const std::string& in, bool is_one) {
  constexpr double k_far = 10;  // times the median absolute deviation; 6.7 standard deviations of a normal distribution
  constexpr double k_many_gaps = 0.1;
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
  else if (far > 0 && is_one)
    c.warn("numbers", in + counted(far, "outlier") + ": the distance from the median (" + exact_text(middle) +
                          ") is above 10 times the median distance (" + exact_text(spread) + ")");
}

}  // namespace

DataCheck check_data(const ForecastOptions& o, DataSource from, const std::string& name) {
  return checked([&](DataChecker& c) {
    const RecordFile file(from.file, name, o.memory_limit);
    const SeriesFormat format = series_format(o);
    CsvReader reader(name, CsvLimits{}.max_columns, format.csv);
    std::vector<std::size_t> columns;
    std::vector<std::vector<double>> values;  // the numbers of each column
    std::vector<std::int64_t> missing;        // missing cells of each column
    std::vector<std::string> cells;
    std::int64_t n = 0;
    NumberCheck numbers(o.missing != "error");
    reader.look_at(file.head());
    csv_rows(file.lines())([&](const Line& line) {
      if (!reader.read(line, cells)) return;
      if (columns.empty()) columns = series_columns(reader, format, cells);
      values.resize(columns.size());
      missing.resize(columns.size());
      ++n;
      for (std::size_t k = 0; k < columns.size(); ++k) {
        const double value = numbers.see(reader, cells[columns[k]], line.number, columns[k]);
        if (!std::isnan(value)) values[k].push_back(value);
        missing[k] += reader.is_missing(cells[columns[k]]);
      }
    });
    if (n == 0) throw Error(ErrorKind::input_file, name, "has no data rows");
    c.figure("rows", static_cast<double>(n));
    c.empty_lines(file, 0, /*csv=*/true);
    numbers.report(c);
    std::optional<SeriesOfSplits> read;
    if (numbers.all_read()) read = read_series(o, from, name);
    c.format(read ? lines_of(*read, &SeriesRows::warnings) : reader.warnings());
    const bool is_one = !read || (*read)[0]->id_column() == "none";
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::string of = columns.size() > 1 ? reader.column_name(columns[k]) : "";
      const double gaps = static_cast<double>(missing[k]) / static_cast<double>(n);
      check_series(c, values[k], gaps, of.empty() ? "" : " of " + of, of.empty() ? "" : of + ": ", is_one);
    }
  });
}

}  // namespace unroll
