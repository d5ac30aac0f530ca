// SPDX-License-Identifier: Apache-2.0
// The only place where config keys meet option fields.
#include "frontends/cli/config/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "frontends/cli/terminal/report.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

Average average_kind(const std::string& word) {
  if (word == "ema") return Average::ema;
  return word == "mean" ? Average::mean : Average::none;
}

OnBad on_bad(const std::string& word) {
  if (word == "stop") return OnBad::stop;
  return word == "rollback" ? OnBad::rollback : OnBad::skip;
}

}  // namespace

RecurrentModelOptions model_options(const Config& c) {
  return {.cell = c.text("model.cell"),
          .hidden = c.integer("model.hidden"),
          .layers = static_cast<int>(c.integer("model.layers")),
          .bidirectional = c.boolean("model.bidirectional"),
          .bias = c.boolean("model.bias"),
          .dropout = c.number("model.dropout"),
          .variational = c.boolean("model.variational"),
          .recurrent_dropout = c.number("model.recurrent_dropout"),
          .weight_drop = c.number("model.weight_drop"),
          .activation_penalty = c.number("model.activation_penalty"),
          .temporal_penalty = c.number("model.temporal_penalty"),
          .stack = c.text("model.stack"),
          .projection = c.integer("model.projection"),
          .nonlinearity = c.text("model.nonlinearity"),
          .reset_after = c.boolean("model.reset_after"),
          .peephole = c.boolean("model.peephole"),
          .init = c.text("model.init"),
          .forget_bias = c.number("model.forget_bias"),
          .cells = c.cells()};
}

namespace {

DataPlace data_place(const Config& config, const std::string& folder) {
  if (config.text("task.kind").empty()) {
    std::vector<std::string_view> words;
    for (const TaskKind& kind : task_kinds()) words.push_back(kind.word);
    config.refuse("task.kind", "nothing to learn", fmt::format("Set it to one of {}", fmt::join(words, ", ")));
  }
  config.refuse_unread();
  if (config.text("data.path").empty()) config.refuse("data.path", "no data file", "Set data.path");
  return {at_folder(config.text("data.path"), folder), folder};
}

// An error of a data file, ending with where the form of the file is described.
Error with_data_page(const Error& e, const std::string& kind) {
  std::string_view what = e.what();  // "[who] what. next"
  const std::size_t behind = std::min(what.find("] "), what.size());
  const std::string who(what.substr(std::min<std::size_t>(1, behind), behind > 0 ? behind - 1 : 0));
  what.remove_prefix(std::min(behind + 2, what.size()));
  if (!e.next().empty() && what.ends_with(e.next())) what.remove_suffix(std::min(e.next().size() + 2, what.size()));
  return {e.kind(), who, what, fmt::format("{}{}See docs/data.md#{}", e.next(), e.next().empty() ? "" : ". ", kind)};
}

const TaskRow& row_of(const Config& config) {
  const TaskKind* kind = find_task_kind(config.uses());
  if (kind) return kind->row;
  throw Error(ErrorKind::internal, "make_task", "no row for task.kind = " + config.text("task.kind"));
}

}  // namespace

std::shared_ptr<const Task> make_task(const Config& config, const std::string& folder, const Metadata& fitted) {
  const DataPlace place = data_place(config, folder);
  try {
    return row_of(config).make(config, place, fitted);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) throw;
    throw with_data_page(e, config.text("task.kind"));
  }
}

std::string data_line(const std::string& note) {
  const std::size_t slash = note.rfind('/', note.find(": "));
  return "data: " + note.substr(slash == std::string::npos ? 0 : slash + 1);
}

DataCheck check_task_data(const Config& config, const std::string& folder) {
  return row_of(config).check(config, data_place(config, folder));
}

TrainerOptions trainer_options(const Config& c) {
  TrainerOptions t;
  t.optimizer = {.name = c.text("train.optimizer"),
                 .lr = c.number("train.lr"),
                 .momentum = c.number("train.momentum"),
                 .nesterov = c.boolean("train.nesterov"),
                 .beta1 = c.number("train.beta1"),
                 .beta2 = c.number("train.beta2"),
                 .epsilon = c.number("train.epsilon"),
                 .alpha = c.number("train.alpha"),
                 .weight_decay = c.number("train.weight_decay"),
                 .decay_vectors = c.boolean("train.decay_vectors")};
  t.groups = c.groups();
  t.schedule = {.name = c.text("train.schedule"),
                .warmup = c.integer("train.warmup"),
                .final_fraction = c.number("train.final_fraction"),
                .cooldown = c.integer("train.cooldown"),
                .factor = c.number("train.lr_factor"),
                .step_every = c.integer("train.step_every"),
                .plateau_patience = c.integer("train.plateau_patience")};
  t.clip = {.value = c.number("train.clip_value"),
            .adaptive = c.number("train.clip_adaptive"),
            .norm = c.number("train.clip_norm")};
  t.average = {.kind = average_kind(c.text("train.average")),
               .decay = c.number("train.average_decay"),
               .start = c.integer("train.average_start")};
  t.precision = precision_from_name(c.text("train.precision"));
  t.loss_scale.initial = c.number("train.loss_scale");
  t.loss_scale.growth_every = c.integer("train.loss_scale_every");
  t.memory_limit = bytes_of("run.memory_limit", c.text("run.memory_limit"));
  t.chunk_steps = c.integer("run.chunk_steps");
  t.estimate_seconds = c.number("run.estimate_seconds");
  t.accumulate = c.integer("train.accumulate");
  t.max_updates = c.integer("train.max_updates");
  t.epochs = c.integer("train.epochs");
  t.validate_every = c.integer("train.validate_every");
  t.validation_batches = c.integer("train.validation_batches");
  t.patience = c.integer("train.patience");
  t.checkpoint_every = c.integer("train.checkpoint_every");
  t.keep = c.integer("train.keep");
  t.max_minutes = c.number("train.max_minutes");
  t.log_every = c.integer("train.log_every");
  t.watch_every = c.integer("train.watch_every");
  t.prefetch = static_cast<int>(c.integer("train.prefetch"));
  t.on_bad = on_bad(c.text("train.on_bad"));
  t.max_bad_updates = c.integer("train.max_bad_updates");
  t.max_rollbacks = c.integer("train.max_rollbacks");
  t.seed = static_cast<std::uint64_t>(c.integer("train.seed"));
  return t;
}

std::unique_ptr<Backend> open_backend(const std::string& name, std::int64_t threads, bool predict, Trace* trace) {
  BackendOptions options{.threads = static_cast<int>(threads), .trace = trace};
  for (const BackendOption& option : backend_options(name))
    if (predict && option.name == "predict") options.own["predict"] = "true";
  return make_backend(name, options);
}

std::unique_ptr<Backend> open_backend(const Config& config, bool predict, Trace* trace) {
  return open_backend(config.text("run.backend"), config.integer("run.threads"), predict, trace);
}

RecurrentSizes recurrent_sizes(const Config& config) {
  if (config.uses() == k_forecast)
    return {.steps = config.integer("data.window"),
            .batch = config.integer("train.batch"),
            .input = std::max<std::int64_t>(static_cast<std::int64_t>(config.texts("data.columns").size()), 1)};
  const bool embedded = config.uses() & k_words;
  return {.steps = std::max<std::int64_t>(config.integer("data.steps"), 1),
          .batch = config.integer("train.batch"),
          .input = config.integer(embedded ? "model.embedding" : "model.input")};
}

RecurrentJob build_recurrent(const RecurrentModelOptions& options, const RecurrentSizes& sizes) {
  RecurrentJob job;
  job.graph = std::make_shared<Graph>();
  Scope scope(*job.graph, /*training=*/false, sizes.dtype);
  job.x = job.graph->input("x", {sizes.dtype, {sizes.steps, sizes.batch, sizes.input}});
  job.state_names = recurrent_state_names(options);
  for (const Shape& shape : recurrent_state_shapes(options, sizes.batch))
    job.initial.push_back(job.graph->input(job.state_names[job.initial.size()] + "0", {sizes.dtype, shape}));
  const Value lengths = sizes.lengths ? job.graph->input("lengths", {DType::i32, {sizes.batch}}) : Value{};
  CellLayerResult result = recurrent_model(scope, job.x, options, job.initial, lengths);
  job.y = result.y;
  job.final = std::move(result.states);
  job.parameters = scope.parameters();
  return job;
}

std::string at_folder(const std::string& path, const std::string& folder) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace unroll::cli
