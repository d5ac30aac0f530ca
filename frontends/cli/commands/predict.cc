// SPDX-License-Identifier: Apache-2.0
// `unroll predict`: predicts new data with a run's model, in batches, in the order of the input.
#include <fmt/format.h>

#include <unistd.h>

#include <optional>

#include "core/data/corpus/text_column.h"
#include "core/support/text/counted.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/predict/answers.h"
#include "frontends/cli/predict/line_reader.h"
#include "frontends/cli/predict/predict_picture.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::cli {
namespace {

void add_options(CLI::App& app, PredictArguments& o) {
  add_run(app, o);
  group(app, "Data");
  add_text(app, "--input", o.input, "FILE", "File to predict from.", "-, standard input");
  add_text(app, "--column", o.column, "NAME",
           "Column of a TSV, CSV or JSON lines file whose cells are the texts: a name of its header, or a number from "
           "1. For tasks that read texts.", "whole lines");
  add_decoding(app, o.decode);
  show_default(add_integer(app, "--nbest", o.nbest, "Texts to write for each line, the best first; at most --beam.",
                           {.lowest = 1, .highest = 1000, .example = 3}), "1");
  add_flag(app, "--scores", o.scores, "Write the score and log probability of each text.");
  group(app, "Output");
  add_text(app, "--output", o.output, "FILE", "File to write; replaced when complete.", "-, standard output");
  allow_only(add_text(app, "--format", o.format, "NAME", "Format of the output.",
                      "by the name of --output, else by task"), {"csv", "tsv", "jsonl", "text"});
  add_text(app, "--svg", o.svg, "FILE",
           "Draw to this SVG file. forecast: the series and its forecast; classify, document: class probabilities of "
           "the first lines; translate, summarize: attention for the first line.");
  add_text(app, "--explain-attention", o.attention, "FILE",
           "Write an HTML page with the attention of each written word, and p_gen; for the first lines of translate "
           "and summarize.");
  show_default(add_integer(app, "--top-k", o.top_k,
                           "Labels to print with their probabilities; for classify and document.",
                           {1, 65536, 3}), "1");
  add_integer(app, "--horizon", o.horizon, "the model's", "Time steps to predict; for forecast.", {1, 1000000, 12});
  add_texts(app, "--level", o.levels, "PERCENT",
            "Prediction intervals to write beside a forecast, such as 80,95: the columns NAME-lo-80 and NAME-hi-80.",
            "the forecast alone");
  show_default(add_integer(app, "--paths", o.n_paths,
                           "Paths to draw from model.distribution and to write beside a forecast: the columns "
                           "NAME-path-1, NAME-path-2, ...",
                           {1, 10000, 100}), "0");
  allow_only(add_text(app, "--baseline", o.baseline, "NAME", "Forecast with a baseline in place of the model.",
                      "the model"), {"persistence", "seasonal_naive", "theta", "linear_ar"});
  add_output(app, o, "Print one JSON object per line, as --format jsonl.");
  add_config_device(app, o);
  add_examples(app,
               "  unroll predict runs/reviews --input new.txt --output labels.csv --top-k 3\n"
               "  echo \"in the beginning god created\" | unroll predict runs/restore");
}

constexpr std::size_t k_lines = 1024, k_bytes = std::size_t{4} << 20;  // maximum of a batch
constexpr int k_wait = 5;          // ms to wait for the next line of a pipe
constexpr std::int64_t k_said = 5;  // number of printed reasons for lines without an answer

class Session {
 public:
  Session(LineReader& reader, std::optional<TextColumn> column, Answers& answers, RowWriter& writer,
          bool shows_progress)
      : reader_(reader), column_(std::move(column)), answers_(answers), writer_(writer),
        total_(reader.count_lines()) {
    if (shows_progress) whole_.emplace("predicting", total_);
  }

  void run() {
    if (writer_.is_table()) writer_.row(answers_.columns());
    const int wait = reader_.is_terminal() ? 0 : k_wait;
    while (!ended_) {
      read_batch(wait);
      if (lines_.empty()) break;
      {
        // Ends before answers are written, because both may go to one terminal.
        std::optional<Activity> busy;
        if (!whole_ && !reader_.is_terminal()) busy.emplace("predicting", total_);
        if (busy) busy->at(answered_);
        predict();
        answers_.count(lines_);
      }
      for (std::size_t i = 0; i < lines_.size(); ++i) answers_.put(i, lines_[i], writer_);
      writer_.flush();
      answered_ += static_cast<std::int64_t>(lines_.size());
      if (whole_) whole_->at(answered_);
    }
    if (whole_) whole_->finish();
  }

  // Prints counts on stderr. Throws Error(input_file | numeric) if a line has an empty answer because of an error.
  void conclude(const std::string& output) const {
    if (!output.empty()) print_progress(fmt::format("{} written to {}", counted(answered_, "answer"), output));
    const UnknownCount count = answers_.unknown();
    if (count.unknown > 0)
      print_line(fmt::format("{} of {} {} unknown ({:.1f} %)", count.unknown, count.tokens, count.unit,
                             100.0 * static_cast<double>(count.unknown) / static_cast<double>(count.tokens)));
    if (empty_ > 0) print_line(counted(empty_, "empty line"));
    if (const std::string summary = answers_.summary(); !summary.empty()) print_progress(summary);
    if (failed_ == 0) return;
    const std::string rest =
        failed_ == 1 ? "" : fmt::format(" ({} lines have an empty answer for such a reason)", failed_);
    throw Error(kind_, first_failure_place_, first_failure_ + rest);
  }

 private:
  void read_batch(int wait) {
    lines_.clear();
    std::size_t bytes = 0;
    while (lines_.size() < k_lines && bytes < k_bytes && (lines_.empty() || reader_.ready(wait))) {
      InputLine line;
      try {
        if (!reader_.next(line.text)) {
          ended_ = true;
          return;
        }
        line.number = reader_.number();
        if (column_) {
          std::optional<std::string> cell = column_->cell(line.text, line.number);
          if (!cell) continue;  // the header
          line.text = std::move(*cell);
        }
        const bool is_blank = line.text.find_first_not_of(" \t") == std::string::npos;
        if (is_blank && answers_.unit() == LineReader::Unit::line) line.text.clear();  // its answer is empty
        if (!answers_.accepts(line)) continue;
        empty_ += is_blank;
      } catch (const Error& e) {
        if (!reader_.can_go_on() || (column_ && !column_->begun()) || !answers_.is_about_a_line(e)) throw;
        line.number = reader_.number();
        line.error = std::string(e.what()).substr(where_of(e).size() + 3);  // without "[who] "
        fail(line);
      }
      bytes += line.text.size();
      lines_.push_back(std::move(line));
    }
  }

  // A line whose output is not finite gets an empty answer; the others are answered.
  void predict() {
    if (!not_finite(lines_)) return;
    for (InputLine& line : lines_) {
      if (!line.error.empty()) continue;
      const std::optional<Error> error = not_finite({line});
      if (!error) continue;
      line.error = fmt::format("the model's output is not finite. {}", error->next());
      kind_ = ErrorKind::numeric;
      fail(line);
    }
    answers_.predict(lines_);
  }
  std::optional<Error> not_finite(const std::vector<InputLine>& lines) {
    try {
      answers_.predict(lines);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::numeric) throw;
      return e;
    }
    return std::nullopt;
  }

  void fail(const InputLine& line) {
    const std::string place = fmt::format("{}:{}", reader_.name(), line.number);
    if (failed_ == 0) {
      first_failure_place_ = place;
      first_failure_ = line.error;
    } else if (failed_ < k_said) {
      print_line(fmt::format("{}: {}", place, line.error));
    }
    ++failed_;
  }

  LineReader& reader_;
  std::optional<TextColumn> column_;
  Answers& answers_;
  RowWriter& writer_;
  std::int64_t total_;
  std::optional<Activity> whole_;
  bool ended_ = false;
  std::vector<InputLine> lines_;
  std::int64_t answered_ = 0, empty_ = 0, failed_ = 0;
  std::string first_failure_, first_failure_place_;
  ErrorKind kind_ = ErrorKind::input_file;  // numeric if an output was not finite
};

int execute(const PredictArguments& options) {
  refuse_data_settings(options, "predict");
  const RunFolder run = open_run(options);
  check_picture(run, options);
  const ExplainedBackend backend(options.explain, open_backend(run.config, options.explain));
  const std::string word = options.json ? "jsonl" : options.format;
  const TaskKind* kind = find_task_kind(run.config.uses());
  if (!kind)
    run.config.refuse("task.kind", "the run has no task to predict with",
                      "Name the run folder of a trained task; `unroll run` runs other models on tensors");
  if (kind->row.answer_file) {
    OutputFile file(options.output);
    RowWriter writer(row_format(word, options.output, RowFormat::csv), file);
    const FileAnswer answer = kind->row.answer_file(run, *backend, options, writer);
    file.finish();
    if (answer.failure) throw_error(*answer.failure);
    write_picture(run, options, answer.panels);
    backend.print_after(writer.format() == RowFormat::jsonl);
    return 0;
  }
  for (const auto& [option, is_given] : {std::pair("--baseline", !options.baseline.empty()),
                                         std::pair("--level", !options.levels.empty()),
                                         std::pair("--paths", options.n_paths > 0),
                                         std::pair("--horizon", options.horizon.has_value())})
    if (is_given)
      throw Error(ErrorKind::usage, option, fmt::format("is for forecasts; the model is of the task {}", kind->word),
                  "Leave it out");
  const std::unique_ptr<Answers> answers = kind->row.answers(run, *backend, options);
  check_attention(*answers, options);
  LineReader reader(options.input, /*skips_blank=*/false, answers->unit());
  OutputFile file(options.output);
  RowWriter writer(row_format(word, options.output, answers->usual_format()), file);
  if (reader.is_terminal()) print_line("reading lines from the terminal; end with Ctrl-D");
  std::optional<TextColumn> column;
  if (!options.column.empty()) {
    if (answers->unit() != LineReader::Unit::line)
      throw Error(ErrorKind::usage, "--column", "the model reads all columns of a row", "Leave it out");
    column.emplace(options.column, reader.name());
  }
  const bool shows_progress = !reader.is_terminal() && !(file.is_stdout() && ::isatty(STDOUT_FILENO));
  Session session(reader, std::move(column), *answers, writer, shows_progress);
  session.run();
  file.finish();
  if (!options.svg.empty()) write_picture(run, options, answers->panels());
  write_attention(run, options, *answers);
  backend.print_after(writer.format() == RowFormat::jsonl);
  session.conclude(file.is_stdout() ? "" : options.output);
  return 0;
}

}  // namespace

const Command predict_command =
    command<PredictArguments>(k_begin, "predict", "Predict outputs for new inputs.", add_options, execute);

}  // namespace unroll::cli
