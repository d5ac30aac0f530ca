// SPDX-License-Identifier: Apache-2.0
// Predictions of `predict`: one class for each kind of task. Lines are added, predicted together, and written in order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/options/command_options.h"
#include "frontends/cli/predict/line_reader.h"
#include "frontends/cli/predict/row_writer.h"
#include "frontends/cli/report/panel.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/passes/backend.h"
#include "unroll/support/error.h"
#include "unroll/tasks/predict.h"

namespace unroll::cli {

// A line of input. With an `error` its answer is that of an empty line, and the error is printed.
struct InputLine {
  std::string text;
  std::int64_t number = 0;
  std::string error;
};

struct UnknownCount {
  std::int64_t tokens = 0, unknown = 0;
  std::string unit = "words";
};

// Arguments of `unroll predict`.
struct PredictArguments : RunArguments, OutputArguments {
  std::string input;   // empty or "-": stdin
  std::string column;  // column of a table, whose cells are the lines; empty: lines are texts
  std::string output;  // empty or "-": stdout
  std::string format;  // csv, tsv, jsonl, text; empty: by output or task
  std::string svg;
  std::int64_t top_k = 0;
  std::optional<std::int64_t> horizon;  // of a forecast task, like the next
  std::vector<std::string> levels;      // of prediction intervals, in percent
  std::int64_t n_paths = 0;             // drawn from the distribution of a forecast
  std::string baseline;                 // forecasts in place of the model; empty: the model
  DecodeOptions decode;                 // of a translate or summarize task, like the two below
  std::int64_t nbest = 1;               // texts written for each line
  bool scores = false;                  // written beside the texts
  std::string attention;                // file for a page of attention maps

  bool reads_stdin() const { return input.empty() || input == "-"; }
  std::string input_name() const { return reads_stdin() ? "stdin" : input; }  // in messages
};

class Answers {
 public:
  virtual ~Answers() = default;
  virtual RowFormat usual_format() const = 0;
  virtual LineReader::Unit unit() const { return LineReader::Unit::line; }
  virtual std::vector<std::string> columns() const = 0;  // for csv and tsv
  // Returns false for a line without an answer, such as a header. Throws for a line that the model cannot read.
  virtual bool accepts(const InputLine& line) = 0;
  // True if the error concerns this line only, so that the other lines are answered.
  virtual bool is_about_a_line(const Error& error) const {
    return error.kind() == ErrorKind::usage || error.kind() == ErrorKind::input_file;
  }
  // Replaces the predictions of the previous call. Throws Error(numeric) if an output is not finite; lines may be
  // passed again.
  virtual void predict(const std::vector<InputLine>& lines) = 0;
  // Adds the predictions of the last call to the totals of the functions below.
  virtual void count(const std::vector<InputLine>&) {}
  // Writes the answer to line i in the writer's format.
  virtual void put(std::size_t i, const InputLine& line, RowWriter& writer) const = 0;
  virtual UnknownCount unknown() const { return {}; }
  virtual std::string summary() const { return {}; }  // a line for stderr at the end
  virtual std::vector<Panel> panels() { return {}; }  // pictures of the first answers
  // True if attention maps of the first answers exist; a page shows them.
  virtual bool explains_attention() const { return false; }
  virtual std::vector<WrittenAttention> attentions() { return {}; }
};

inline constexpr std::size_t k_most_drawn = 12;  // maximum number of drawn answers per file

}  // namespace unroll::cli
