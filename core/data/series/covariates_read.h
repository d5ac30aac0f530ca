// SPDX-License-Identifier: Apache-2.0
// The covariates in a table of series: columns of numbers or of categories that are read beside the series.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/data/table/csv.h"

namespace unroll {

struct CovariateColumn {
  std::string name;
  bool is_category = false;                  // finding: the user says so; found: it is one
  std::vector<std::string> categories = {};  // sorted
  bool is_ahead = false;                     // its values are also known in rows that are to be forecast
};

// Reads the cells of covariates. A category is read as its index; an empty cell and a category that training lacked are
// read as the number of categories.
class CovariatesRead {
 public:
  // `is_found`: the columns come from a trained model and are not determined again.
  CovariatesRead(std::vector<CovariateColumn> columns, bool is_found);

  const std::vector<CovariateColumn>& columns() const { return columns_; }
  // Shows the cells of a row, in a first pass. A column with a cell that is no number is one of categories.
  void see(const CsvReader& reader, std::span<const std::string> cells, std::span<const std::size_t> places);
  // Counts categories, empty cells, and cells of categories that training lacked, with what stands for them.
  std::vector<std::string> notes() const;
  // Call after the first pass. Throws Error(usage) on a column with too many categories.
  void finish(const std::string& file);
  // Returns the value of column k in its cell. Throws Error(input_file) as CsvReader::number.
  double value(const CsvReader& reader, const std::string& cell, std::size_t line, std::size_t place, std::size_t k,
               CsvReader::Missing missing) const;

 private:
  static constexpr std::size_t k_most_categories = 1000;

  std::vector<CovariateColumn> columns_;
  bool is_found_;
  std::vector<std::int64_t> n_missing_, n_unknown_;  // by column
  std::vector<std::unordered_map<std::string, std::size_t>> index_;  // of the categories
};

}  // namespace unroll
