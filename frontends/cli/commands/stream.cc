// SPDX-License-Identifier: Apache-2.0
// `unroll stream`: runs a model step by step on lines of numbers, carrying the state.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/cli/bench/stream_job.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/import/stream_onnx.h"
#include "frontends/cli/predict/line_reader.h"
#include "frontends/cli/predict/number_lines.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/standard_files.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll::cli {
namespace {

struct StreamArguments : RunArguments, StepArguments, OutputArguments, OnnxStreamArguments {
  std::string input;
  bool bench = false;
};

void add_options(CLI::App& app, StreamArguments& o) {
  add_run(app, o);
  group(app, "Data");
  add_text(app, "--input", o.input, "FILE", "Input vectors, one time step per line.", "-, standard input");
  add_lanes(app, o);
  add_onnx_stream(app, o);
  group(app, "Measurement");
  add_flag(app, "--bench", o.bench, "Time calls with random input instead.");
  add_number(app, "--seconds", o.seconds, "Seconds that --bench measures.", {0, 3600, 3});
  add_seed(app, o);
  group(app, "Output");
  add_output(app, o, "Print one JSON array per line.");
  add_device(app, o, "the config's run.backend", "1");
  add_examples(app,
               "  unroll stream model.onnx --input frames.txt --delay 2\n"
               "  seq 10 | unroll stream runs/co2\n"
               "  unroll stream lstm.toml --weights w.safetensors --weights-dtype int8 --bench");
}

constexpr std::int64_t k_compared_steps = 1000;  // with weights in fewer bits, this many steps also run in f32

void print_values(std::span<const float> values, bool json, fmt::memory_buffer& text) {
  text.clear();
  const auto out = fmt::appender(text);
  if (json) text.push_back('[');
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text.push_back(',');
    if (json && !std::isfinite(values[i])) fmt::format_to(out, "null");  // JSON cannot represent it
    else fmt::format_to(out, "{}", values[i]);
  }
  if (json) text.push_back(']');
  text.push_back('\n');
  write_output({text.data(), text.size()});
}

// The states are lost too, so no later step has an output.
void require_finite(std::span<const float> values, std::int64_t step) {
  const auto bad = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return;
  flush_output();
  throw Error(ErrorKind::numeric, "stream",
              fmt::format("the output of step {} is not finite: element {} is {}", step, bad - values.begin(), *bad),
              "The parameters or the input may be too large: `unroll inspect` shows tensors that are not finite");
}

// Runs T steps at a time; the remainder of an input runs step by step, or block by block.
class LineStream {
 public:
  LineStream(Backend& backend, const StreamModel& model, const TensorMap& parameters, const StreamArguments& options)
      : options_(options),
        ids_(model.input == DType::i32),
        stream_(backend, model, parameters, stream_options(options, options.threads)),
        skipped_(stream_.delay()) {
    StreamOptions exact = stream_options(options, options.threads);
    if (exact.weights != WeightFormat::f32) {
      exact.weights = WeightFormat::f32;
      exact_ = std::make_unique<Stream>(backend, model, parameters, exact);
    }
    n_x_ = (stream_.lanes() * stream_.inputs());
    n_y_ = (stream_.lanes() * stream_.outputs());
    x_.resize(n_x_ * stream_.chunk());
    y_.resize(n_y_ * rows_of(stream_.chunk()));
    wanted_.resize(y_.size());
  }

  void run(LineReader& lines) {
    std::string line;
    std::int64_t waiting = 0;
    while (lines.next(line)) {
      const auto step = std::span(x_).subspan(waiting * n_x_, n_x_);
      parse_numbers(line, step, lines.name(), lines.number());
      if (ids_) check_ids(step, lines);
      if (++waiting < stream_.chunk()) continue;
      take(0, waiting);
      waiting = 0;
    }
    const std::int64_t block = stream_.block();
    std::int64_t first = 0;
    for (; first + block <= waiting; first += block) take(first, block);
    finish(first, waiting - first);
    if (exact_ && n_rows_ > 0)
      fmt::print(stderr, "unroll: weights={} steps={} max_abs_difference={:.3g} relative_l2_difference={:.3g}\n",
                 options_.weights_dtype, std::min(n_rows_, k_compared_steps), difference_.largest(),
                 difference_.relative());
  }

 private:
  std::int64_t rows_of(std::int64_t steps) const { return steps / stream_.block() * stream_.rows(); }
  void check_ids(std::span<const float> ids, const LineReader& lines) const {
    // f32 represents every integer up to 2^24 exactly; ids() is 0 if a model takes any.
    const auto end = stream_.ids() > 0 ? static_cast<float>(stream_.ids()) : 0x1p24F;
    for (const float id : ids)
      if (!(std::trunc(id) == id && id >= 0 && id < end))
        throw Error(ErrorKind::input_file, fmt::format("{}:{}", lines.name(), lines.number()),
                    fmt::format("this model reads token indices from 0 to {}; got {}", end - 1, id));
  }
  void take(std::int64_t first, std::int64_t steps) {
    const auto x = std::span<const float>(x_).subspan(first * n_x_, steps * n_x_);
    const auto y = std::span(y_).first(rows_of(steps) * n_y_);
    step(stream_, x, y);
    if (exact_ && n_rows_ < k_compared_steps) {
      step(*exact_, x, std::span(wanted_).first(y.size()));
      difference_.add(y, wanted_);
    }
    const std::int64_t skipped = std::min(skipped_, rows_of(steps));  // they come before the first output
    skipped_ -= skipped;
    print(y.subspan(skipped * n_y_));
  }
  // The outputs that waited for the end of the sequence.
  void finish(std::int64_t first, std::int64_t steps) {
    if (stream_.block() == 1 && stream_.look_ahead() == 0) return;
    std::vector<float> y;
    if (!stream_.finish(std::span<const float>(x_).subspan(first * n_x_, steps * n_x_), y))
      throw Error(ErrorKind::device, "stream", "the last step failed on the device");
    print(y);
  }
  void print(std::span<const float> y) {
    for (std::size_t at = 0; at < y.size(); at += n_y_) {
      print_values(y.subspan(at, n_y_), options_.json, text_);
      require_finite(y.subspan(at, n_y_), ++n_rows_);
    }
    flush_output();
  }
  void step(Stream& stream, std::span<const float> x, std::span<float> y) {
    bool done = false;
    if (ids_) {
      ids_buffer_.clear();
      for (const float id : x) ids_buffer_.push_back(static_cast<std::int32_t>(id));
      done = stream.step(ids_buffer_, y);
    } else {
      done = stream.step(x, y);
    }
    if (!done) throw Error(ErrorKind::device, "stream", "a step failed on the device");
  }

  const StreamArguments& options_;
  bool ids_;
  Stream stream_;
  std::unique_ptr<Stream> exact_;
  Difference difference_;
  std::int64_t skipped_;
  std::int64_t n_rows_ = 0;  // printed
  std::size_t n_x_ = 0, n_y_ = 0;
  std::vector<float> x_, y_, wanted_;
  std::vector<std::int32_t> ids_buffer_;
  fmt::memory_buffer text_;
};

// Returns a trained task, or the bare stack of [model] for weights without a task.
StreamModel model_of(const RunFolder& run) {
  if (run.model.metadata.contains("task")) return task_stream(run.model.metadata);
  return recurrent_stream(model_options(run.config), run.config.integer("model.input"));
}

struct Source {
  StreamModel model;
  TensorMap parameters;
  std::string backend;
};

// Decisions made for the user go to standard error, beside the outputs.
Source source_of_onnx(const StreamArguments& options) {
  if (!options.weights.empty() || !options.settings.empty())
    throw Error(ErrorKind::usage, "stream", "--weights and --set do not apply to an ONNX model",
                "It has its own parameters");
  Report decided;
  Source source{onnx_stream(options.config, options, decided), {}, backend_or(options, "cpu")};
  fmt::print(stderr, "{}", decided.text());
  return source;
}

Source source_of(const StreamArguments& options) {
  if (options.config.ends_with(".onnx")) return source_of_onnx(options);
  if (options.any())
    throw Error(ErrorKind::usage, "stream", "--time, --size, --value, --tensor and --delay apply to ONNX models only");
  RunFolder run = open_run(options);
  return {model_of(run), std::move(run.model.tensors), run.config.text("run.backend")};
}

int execute(const StreamArguments& options) {
  refuse_data_settings(options, "stream");
  Activity busy("loading the model");
  const Source source = source_of(options);
  const ExplainedBackend backend(options.explain,
                                 open_backend(source.backend, options.threads.value_or(1), options.explain));
  if (options.bench) {
    busy.say("timing");
    Report timed = time_stream(*backend, source.model, source.parameters, options, options);
    busy.finish();
    backend.print(std::move(timed), options.json);
    return 0;
  }
  LineStream stream(*backend, source.model, source.parameters, options);
  busy.finish();
  LineReader lines(options.input, /*skips_blank=*/false);  // each line is a step and has an answer
  stream.run(lines);
  backend.print_after(options.json);
  return 0;
}

}  // namespace

const Command stream_command = command<StreamArguments>(
    k_deploy, "stream", "Run a model step by step on a stream of input vectors.", add_options, execute);

}  // namespace unroll::cli
