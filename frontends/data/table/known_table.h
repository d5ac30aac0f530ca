// SPDX-License-Identifier: Apache-2.0
// Finding the columns of a table that was read before, such as a training file, in another file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "frontends/data/table/csv.h"

namespace unroll {

struct KnownTable {
  bool has_header = false;     // its columns have names; otherwise numbers from 1
  std::int64_t n_columns = 0;  // 0: not known
  static KnownTable of(const CsvReader& reader) {
    return {!reader.header().empty(), static_cast<std::int64_t>(reader.n_columns())};
  }
};

// The index of each of these columns of `known` in the file of `reader`. Where both have a header, columns have the
// same names. Otherwise columns have the same places, and the file has as many columns as `known`, or these alone: in
// the order of `columns` if they have names, in the order of `known` if they have numbers. Throws Error(usage) on a
// file that fits in none of these ways.
std::vector<std::size_t> places_in(const CsvReader& reader, std::span<const std::string> columns,
                                   const KnownTable& known);

}  // namespace unroll
