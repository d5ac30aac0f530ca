// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/covariates_read.h"

#include <algorithm>

#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

CovariatesRead::CovariatesRead(std::vector<CovariateColumn> columns, bool is_found)
    : columns_(std::move(columns)), is_found_(is_found), n_missing_(columns_.size()), n_unknown_(columns_.size()),
      index_(columns_.size()) {
  for (std::size_t k = 0; k < columns_.size() && is_found_; ++k)
    for (const std::string& category : columns_[k].categories) index_[k].emplace(category, index_[k].size());
}

void CovariatesRead::see(const CsvReader& reader, std::span<const std::string> cells,
                         std::span<const std::size_t> places) {
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const std::string& cell = cells[places[k]];
    const bool is_missing = reader.is_missing(cell);
    n_missing_[k] += is_missing;
    n_unknown_[k] += is_found_ && columns_[k].is_category && !is_missing && !index_[k].contains(cell);
    if (is_missing || is_found_) continue;
    columns_[k].is_category = columns_[k].is_category || !reader.number_of(cell);
    if (index_[k].size() <= k_most_categories) index_[k].emplace(cell, 0);
  }
}

void CovariatesRead::finish(const std::string& file) {
  for (std::size_t k = 0; k < columns_.size() && !is_found_; ++k) {
    CovariateColumn& column = columns_[k];
    if (column.is_category && index_[k].size() > k_most_categories)
      throw Error(ErrorKind::usage, file,
                  "covariate " + in_quotes(column.name) + " is a text with more than " +
                      counted(k_most_categories, "category"),
                  "Leave it out, or give numbers");
    column.categories.clear();
    for (const auto& [category, at] : index_[k])
      if (column.is_category) column.categories.push_back(category);
    std::ranges::sort(column.categories);
    index_[k].clear();
    for (const std::string& category : column.categories) index_[k].emplace(category, index_[k].size());
  }
  is_found_ = true;
}

std::vector<std::string> CovariatesRead::notes() const {
  std::vector<std::string> all;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const CovariateColumn& column = columns_[k];
    const std::string of = "covariate " + in_quotes(column.name) + ": ";
    if (column.is_category) all.push_back(of + counted(column.categories.size(), "category"));
    const char* const filled =
        column.is_category ? "no category" : "filled in with the previous value, or with the mean before the first one";
    if (n_missing_[k] > 0) all.push_back(of + counted_are(n_missing_[k], "cell") + " empty: " + filled);
    if (n_unknown_[k] > 0)
      all.push_back(of + counted(n_unknown_[k], "cell") + " with a category that training lacked: no category");
  }
  return all;
}

double CovariatesRead::value(const CsvReader& reader, const std::string& cell, std::size_t line, std::size_t place,
                             std::size_t k, CsvReader::Missing missing) const {
  if (!columns_[k].is_category) return reader.number(cell, line, place, missing);
  const auto found = index_[k].find(cell);
  return static_cast<double>(found == index_[k].end() ? columns_[k].categories.size() : found->second);
}

}  // namespace unroll
