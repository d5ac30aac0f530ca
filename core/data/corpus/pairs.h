// SPDX-License-Identifier: Apache-2.0
// Pairs of texts: a `source<TAB>target` line each, two columns of a CSV, or two members of JSON objects.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/file/lines.h"
#include "core/data/table/csv.h"

namespace unroll {

struct PairsLimits {
  std::size_t max_pairs = std::size_t{1} << 32;
  std::size_t max_side = std::size_t{1} << 14;  // bytes of a source or a target
};
// Limits for documents and for texts with summaries.
inline constexpr PairsLimits k_long_texts{.max_side = std::size_t{1} << 20};

// Format of the rows, with the columns of the two sides. The default separator is a tab, without quoted cells. Files
// that end in .csv (or .csv.gz), or whose first line names the columns, have the cells of CsvReader. In files that end
// in .jsonl (or .jsonl.gz), or whose first line begins with { and has no tab, a row is a JSON object. Its columns are
// the members with texts in the first line.
struct PairsFormat {
  CsvFormat csv;
  // A column name of the header, a number, "first" or "last". Empty: the column named by one of the words below,
  // otherwise the first column for the source and the second for the target.
  std::string source, target;
  // A column, given as above, with the cells train, validation or test; empty: none.
  std::string split;
  std::vector<std::string_view> source_words = {"source", "src", "input"};
  std::vector<std::string_view> target_words = {"target", "tgt", "output"};
  std::string_view expected = "expected a source, one tab and its target";
  const char* naming = "Keep these two columns";  // advice for a file with more columns and no such header
  bool trims_source = false;  // true: ignore blanks around a source
  bool target_lines = false;  // true: a target may have line breaks; a source may not
  bool joins_lines = false;   // true: read line breaks as blanks, in both sides
};
// Labels and texts of documents.
PairsFormat document_format();
// Texts and their summaries.
PairsFormat summary_format();

struct TextPair {
  std::string source, target;
  std::string split = {};  // the cell of PairsFormat::split
  std::size_t line = 0;  // from 1
};

class PairsReader {
 public:
  PairsReader(std::string name, PairsFormat format, PairsLimits limits = {});
  void begin_file(std::string name);
  // Returns a pair; nothing for an empty row or the header. Throws Error(input_file), with the line, when a side is
  // missing or empty, the text is not UTF-8, or a limit is exceeded. Throws Error(usage) on columns that do not exist.
  std::optional<TextPair> read(const Line& row);
  // True if a line may end inside a quoted cell: rows are then those of CsvRows. Decided by the first line.
  bool joins(const Line& line) const;
  // Reads the pair of a record again.
  TextPair pair_in(const RecordFile& file, std::string_view record) const;
  // "900 rows, header found, columns label, text"
  std::string found(std::int64_t n_rows) const;

 private:
  void begin(const Line& line);
  std::vector<std::string> first_members(const Line& line) const;
  void place_columns();
  bool names_sides(const std::vector<std::string>& cells) const;
  bool repeats_header(const Line& line) const;
  bool is_json(std::string_view first) const;
  char separator_in(std::string_view first) const;
  std::optional<std::vector<std::string>> cells_of(std::string_view line) const;
  std::vector<std::string> cells_in(const Line& line) const;
  [[noreturn]] void refuse_row(const Line& line, std::size_t n) const;
  std::vector<std::string> members_in(const Line& line) const;
  std::size_t place_of(const std::string& column, std::size_t otherwise) const;
  TextPair pair_of(std::vector<std::string>& cells, std::size_t line) const;

  std::string name_;
  PairsFormat format_;
  PairsLimits limits_;
  bool first_ = true;  // the next line is the first of its file
  bool quoted_ = false, has_header_ = false, json_ = false, begun_ = false;
  std::vector<std::string> columns_;  // of the first line
  std::size_t source_ = 0, target_ = 1, split_ = 0;
  std::size_t n_ = 0;
};

// Throws like PairsReader, and on a file without a pair.
std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits = {},
                                 const PairsFormat& format = {});
// Reads the pairs of all files and makes each one a record.
void index_pairs(RecordFile& file, PairsReader& reader);

}  // namespace unroll
