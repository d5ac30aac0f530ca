// SPDX-License-Identifier: Apache-2.0
// Columns of a series file beside the series and its dates: those that look like dates, and those that look like the
// names of several series one below the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/data/table/csv.h"

namespace unroll {

class UnreadColumns {
 public:
  // The first cell of a column that is not missing.
  void add(const CsvReader& reader, std::size_t column, const std::string& cell);
  // Whether further rows may lead to a warning.
  bool wants_rows() const;
  void see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line);
  // Of columns that look like dates, where none are used.
  std::vector<std::string> date_warnings(const CsvReader& reader) const;
  // Of a column whose cells stay the same for many rows, and do not come again.
  std::vector<std::string> series_warnings(const CsvReader& reader) const;
  // The column of texts that names the series at a line where the dates go back: it changes there; "" for none.
  std::string key_at(const CsvReader& reader, std::size_t line) const;
  // The same for whole numbers, which may mean something else.
  std::string number_at(const CsvReader& reader, std::size_t line) const;
  // A column with another part of the dates, such as the hour, which changes there; "" for none.
  std::string part_of_dates(const CsvReader& reader, std::size_t line) const;

 private:
  // The first lines in which the cell of a column changes.
  struct Changes {
    std::string last;
    std::vector<std::size_t> lines;

    bool see(const std::string& cell, std::size_t line, bool first);
    bool at(std::size_t line) const;
  };
  struct Lookalike {
    std::size_t column;
    bool named = false;   // like a date
    bool hinted = false;  // a word of its name is
    bool number = false;
    bool part = false;        // of dates, such as a month, which comes again
    std::string first, form;  // its first cell, and in what numbers are dates
    double start = 0, last = 0, step = 0;
    bool rises = true, even = true;
    std::int64_t n = 0, n_alike = 0;  // cells, and those that look like dates
    std::size_t again = 0;            // the line in which the first cell comes again
    Changes changes = {};

    void see(const std::string& cell, std::size_t line);  // of a cell that is not missing
    // Of numbers that are written like years, those of a few per row.
    bool may_be_years() const {
      return form != "YYYY" || (start >= 1500 && last < 2200 && last - start <= 10 * static_cast<double>(n));
    }
    // "sun" may be weather: words without a number must all be words of dates.
    bool are_alike() const { return part && !named && !hinted ? n_alike == n : 2 * n_alike > n; }
  };
  struct Key {
    std::size_t column;
    bool is_number = false;
    Changes changes = {};
    std::unordered_set<std::string> seen = {};
    std::int64_t n = 0, n_changes = 0;
    bool returns = false;  // a name comes again after another one

    bool is_busy() const { return 2 * n_changes > n + 8; }  // changes too often for a name

    void see(const std::string& cell, std::size_t line);
  };
  std::string changing_at(const CsvReader& reader, std::size_t line, bool number) const;

  std::vector<Lookalike> lookalikes_;
  std::vector<Key> keys_;
};

}  // namespace unroll
