// SPDX-License-Identifier: Apache-2.0
// What `predict` makes of lines: one class for each kind of task. Lines are added, predicted together, and written in
// their order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/answers/line_reader.h"
#include "frontends/cli/answers/row_writer.h"
#include "frontends/cli/options/command_options.h"
#include "frontends/cli/page/panel.h"
#include "frontends/cli/run/run_folder.h"
#include "unroll/backend.h"
#include "unroll/error.h"
#include "unroll/predict.h"

namespace unroll::cli {

// A line of input; with an `error` it is answered as an empty line is, and the error said.
struct InputLine {
  std::string text;
  std::int64_t number = 0;
  std::string error;
};

struct UnknownCount {
  std::int64_t tokens = 0, unknown = 0;
  std::string unit = "words";
};

// What `unroll predict` is asked for.
struct PredictArguments : RunArguments {
  std::string input;   // empty or "-": stdin
  std::string column;  // of a table, whose cells are the lines; empty: lines are texts
  std::string output;  // empty or "-": stdout
  std::string format;  // csv, tsv, jsonl, text; empty: by output or task
  std::string svg;
  std::int64_t top_k = 0;
  std::optional<std::int64_t> horizon;  // of a forecast task
  DecodeOptions decode;                 // of a translate or summarize task, as the two below
  std::int64_t nbest = 1;               // texts written for each line
  bool scores = false;                  // written beside them
  std::string attention;                // a page of attention maps
  bool explain = false;
  bool json = false;

  bool reads_stdin() const { return input.empty() || input == "-"; }
  std::string input_name() const { return reads_stdin() ? "stdin" : input; }  // in messages
};

class Answers {
 public:
  virtual ~Answers() = default;
  virtual RowFormat usual_format() const = 0;
  virtual LineReader::Unit unit() const { return LineReader::Unit::line; }
  virtual std::vector<std::string> columns() const = 0;  // of csv and tsv
  // False for a line that gets no answer, such as a header. Throws on a line that the model cannot read.
  virtual bool accepts(const InputLine& line) = 0;
  // Whether that was about this line alone, so that the others are answered.
  virtual bool is_about_a_line(const Error& error) const {
    return error.kind() == ErrorKind::usage || error.kind() == ErrorKind::input_file;
  }
  // Replaces the predictions of the call before. Throws Error(numeric) where an output is not finite; lines may be
  // given again.
  virtual void predict(const std::vector<InputLine>& lines) = 0;
  // Adds the predictions of the last call, for these lines, to what the functions below tell.
  virtual void count(const std::vector<InputLine>&) {}
  // The answer to line i of these, in the writer's format.
  virtual void put(std::size_t i, const InputLine& line, RowWriter& writer) const = 0;
  virtual UnknownCount unknown() const { return {}; }
  virtual std::string summary() const { return {}; }  // a line for stderr at the end
  virtual std::vector<Panel> panels() { return {}; }  // pictures of the first answers
  // Whether there are attention maps of the first answers, which a page shows.
  virtual bool explains_attention() const { return false; }
  virtual std::vector<WrittenAttention> attentions() { return {}; }
};

inline constexpr std::size_t k_most_drawn = 12;  // lines of a file whose answers are drawn

}  // namespace unroll::cli
