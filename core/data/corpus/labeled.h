// SPDX-License-Identifier: Apache-2.0
// Labeled sequences: a line per token with its label and a blank line after each sentence (CoNLL format), or a table
// with named columns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/batch/records.h"

namespace unroll {

struct LabeledLimits {
  std::size_t max_tokens = std::size_t{1} << 40;  // per file
  std::size_t max_length = 4096;                  // per sentence
};

struct LabeledSentence {
  std::vector<std::string> tokens, labels;  // of equal size, at least 1
};

// The first line, a token or a header, determines the format:
//   columns    separated by tabs; without a tab by blanks; by commas or semicolons in a .csv file, or in a file whose
//              first line is a header
//   token      the column named by the header, otherwise the first
//   label      the column named by the header, otherwise the last. With more than two columns and no header, the last
//              column must have tags such as O and B-LOC. Blanks around a label are ignored
//   sentences  end at blank lines, at -DOCSTART-, and at a change in the sentence column
// Lines that begin with # and have another number of columns are comments.
class LabeledReader {
 public:
  explicit LabeledReader(LabeledLimits limits = {}) : limits_(limits) {}

  // Makes a record of each sentence of all files. Throws Error(input_file), with the line, on other columns than in the
  // first line, an empty token or label, invalid UTF-8, exceeded limits, and files without sentences.
  void index(RecordFile& file);
  // Reads a record of that file.
  LabeledSentence sentence_in(const RecordFile& file, std::string_view record) const;
  // "2 columns between tabs, token in column 1, label in column 2, no header; 1 comment skipped"
  std::string found() const;
  // Returns signs that a header was read as a token.
  std::vector<std::string> warnings() const;

 private:
  struct Token {
    std::string text, label, sentence;
    std::size_t at;
  };
  struct Form {
    char separator = 0;  // 0: unknown so far; ' ': any blanks
    std::size_t columns = 0, token = 0, label = 0;
    std::optional<std::size_t> sentence;
    bool has_header = false;
  };
  enum class Row : std::uint8_t { token, blank, comment, document, header };
  Row read(const Line& line, const std::string& name, Token& token);
  void begin(const Line& line, const std::string& name);
  std::optional<std::vector<std::string>> cells_of(std::string_view line) const;
  [[noreturn]] void refuse_columns(const Line& line, const std::string& name, std::size_t n) const;
  void take(RecordFile& file, std::size_t f);

  LabeledLimits limits_;
  Form form_;
  bool first_ = true;  // no row of this file was read yet
  std::size_t n_tokens_ = 0, n_comments_ = 0, n_documents_ = 0;
  std::string first_label_;  // of all the data, its number of occurrences, and its position
  std::size_t n_first_label_ = 0, first_line_ = 0;
};

}  // namespace unroll
