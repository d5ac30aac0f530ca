// SPDX-License-Identifier: Apache-2.0
// Unused columns of a series file: columns that look like dates, and columns that look like names of several series,
// one below the other.
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
  // Adds a column by its first cell that is not missing.
  void add(const CsvReader& reader, std::size_t column, const std::string& cell);
  void forget(std::size_t column);
  // True if further rows may lead to a warning.
  bool wants_rows() const;
  void see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line);
  // Warns about columns that look like dates, if none are used.
  std::vector<std::string> date_warnings(const CsvReader& reader) const;
  // Warns about a column whose cells stay constant for many rows and do not recur.
  std::vector<std::string> series_warnings(const CsvReader& reader) const;
  // Returns the text column that changes at a line where the dates go back, probably a series name; "" if none.
  std::string key_at(const CsvReader& reader, std::size_t line) const;
  // The same for whole numbers, which may have another meaning.
  std::string number_at(const CsvReader& reader, std::size_t line) const;
  // Returns a column with another part of the dates, such as the hour, that changes at the line; "" if none.
  std::string part_of_dates(const CsvReader& reader, std::size_t line) const;

 private:
  // The first lines at which the cell of a column changes.
  struct Changes {
    std::string last;
    std::vector<std::size_t> lines;

    bool see(const std::string& cell, std::size_t line, bool first);
    bool at(std::size_t line) const;
  };
  struct Lookalike {
    std::size_t column;
    bool named = false;   // the name is a date name
    bool hinted = false;  // a word of the name is a date name
    bool number = false;
    bool part = false;        // a part of dates, such as a month, which recurs
    std::string first, form;  // the first cell, and its date format if it is a number
    double start = 0, last = 0, step = 0;
    bool rises = true, even = true;
    std::int64_t n = 0, n_alike = 0;  // cells, and those that look like dates
    std::size_t again = 0;            // the line at which the first cell recurs
    Changes changes = {};

    void see(const std::string& cell, std::size_t line);  // for cells that are not missing
    // Numbers that look like years are years if they lie between 1500 and 2200 with a small range per row.
    bool may_be_years() const {
      return form != "YYYY" || (start >= 1500 && last < 2200 && last - start <= 10 * static_cast<double>(n));
    }
    // "sun" may mean weather: columns of words alone must consist of date words.
    bool are_alike() const { return part && !named && !hinted ? n_alike == n : 2 * n_alike > n; }
  };
  struct Key {
    std::size_t column;
    bool is_number = false;
    Changes changes = {};
    std::unordered_set<std::string> seen = {};
    std::int64_t n = 0, n_changes = 0;
    bool returns = false;  // a name recurs after another one

    bool is_busy() const { return 2 * n_changes > n + 8; }  // changes too often for a name

    void see(const std::string& cell, std::size_t line);
  };
  std::string changing_at(const CsvReader& reader, std::size_t line, bool number) const;

  std::vector<Lookalike> lookalikes_;
  std::vector<Key> keys_;
};

}  // namespace unroll
