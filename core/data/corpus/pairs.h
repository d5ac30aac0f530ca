// SPDX-License-Identifier: Apache-2.0
// Pairs of texts: a line `source<TAB>target` each, two columns of a CSV, or two members of JSON objects.
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
  std::size_t max_side = std::size_t{1} << 14;  // bytes of a source, and of a target
};

// Where the two sides stand in a row. Without a separator it is a tab, and cells are never quoted; in a file that ends
// in .csv (or .csv.gz), or whose first line names the columns, cells are those of CsvReader. In a file that ends in
// .jsonl (or .jsonl.gz), or whose first line begins with { and has no tab, a row is a JSON object, and its columns are
// the members with texts that the first line has.
struct PairsFormat {
  CsvFormat csv;
  // A column name of the header, a number, "first" or "last". Empty: the column whose name is one of the words below,
  // else the first column for the source and the second one for the target.
  std::string source, target;
  // A column, written as above, whose cells are train, validation or test; empty: there is none.
  std::string split;
  std::vector<std::string_view> source_words = {"source", "src", "input"};
  std::vector<std::string_view> target_words = {"target", "tgt", "output"};
  std::string_view expected = "expected a source, one tab and its target";
  const char* naming = "Keep these two columns";  // what to do about a file with more columns and no such header
  bool trims_source = false;  // whether blanks around a source are no part of it
  bool target_lines = false;  // whether a target may have line breaks; a source may not
  bool joins_lines = false;   // whether line breaks are read as blanks, in both sides
};
// label and text of documents.
PairsFormat document_format();
// texts and their summaries.
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
  // Nothing for an empty row or the header. Throws Error(input_file) with the line on other lines without the two
  // sides, an empty side, what is not UTF-8, and anything above the limits; Error(usage) on columns that do not exist.
  std::optional<TextPair> read(const Line& row);
  // Whether a line may end inside a quoted cell, so that rows are those of CsvRows. The first line decides.
  bool joins(const Line& line) const;
  // The pair of a record that was read before.
  TextPair pair_in(const RecordFile& file, std::string_view record) const;
  // "900 rows, header found, columns label, text"
  std::string found(std::int64_t n_rows) const;

 private:
  void begin(const Line& line);
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

// Throws as PairsReader, and on a file without a pair.
std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits = {},
                                 const PairsFormat& format = {});
// The same of all files, of which each pair becomes a record.
void index_pairs(RecordFile& file, PairsReader& reader);

}  // namespace unroll
