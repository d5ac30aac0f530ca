// SPDX-License-Identifier: Apache-2.0
// Labeled sequences: a line for each token with its label, and a blank line after each sentence (CoNLL's form), or a
// table whose header names the columns.
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
  std::size_t max_tokens = std::size_t{1} << 40;  // of the file
  std::size_t max_length = 4096;                  // of a sentence
};

struct LabeledSentence {
  std::vector<std::string> tokens, labels;  // of one size, at least 1
};

// The first line of a token, or a header, says how all are read:
//   columns    between tabs; without a tab between blanks; between commas or semicolons in a file that ends in .csv, or
//              whose first line is a header
//   token      the column that the header names, else the first
//   label      the column that the header names, else the last. Of more than two columns without a header, the last one
//              must have tags such as O and B-LOC. Blanks around a label are no part of it
//   sentences  end at blank lines, at -DOCSTART-, and where the column of sentences has another text
// Lines that begin with # and have other columns than the rest are comments.
class LabeledReader {
 public:
  explicit LabeledReader(LabeledLimits limits = {}) : limits_(limits) {}

  // Makes a record of each sentence of all files. Throws Error(input_file) with the line on other columns than those of
  // the first line, an empty token or label, what is not UTF-8, anything above the limits, and files without sentences.
  void index(RecordFile& file);
  // A record of that file.
  LabeledSentence sentence_in(const RecordFile& file, std::string_view record) const;
  // "2 columns between tabs, token in column 1, label in column 2, no header; 1 comment skipped"
  std::string found() const;
  // What suggests that a header was read as a token.
  std::vector<std::string> warnings() const;

 private:
  struct Token {
    std::string text, label, sentence;
    std::size_t at;
  };
  struct Form {
    char separator = 0;  // 0: nothing was read yet; ' ': any blanks
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
  std::string first_label_;  // of the whole data, how often it occurs, and where it stands
  std::size_t n_first_label_ = 0, first_line_ = 0;
};

}  // namespace unroll
