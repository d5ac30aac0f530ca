// SPDX-License-Identifier: Apache-2.0
// The only place where config keys meet option fields.
#include "frontends/cli/config/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "frontends/cli/terminal/report.h"
#include "frontends/data/file/gzip.h"
#include "unroll/error.h"

namespace unroll::cli {
namespace {

std::string at_folder(const std::string& path, const std::string& folder) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}
std::shared_ptr<const Vfs::Reader> file_of(const Config& c, const std::string& path) {
  return unpacked(disk().open(path), path, bytes_of("data.memory_limit", c.text("data.memory_limit")));
}

SplitSource split_source(const Config& c, std::string_view key, const std::string& folder) {
  const auto* file = std::get_if<std::string>(&c.value(key));
  if (!file) return c.number(key);
  if (file->empty()) c.refuse(key, "no file", "Give a share, such as 0.1, or the name of a file");
  const std::string path = at_folder(*file, folder);
  return {file_of(c, path), path};
}

LanguageModelOptions language_model_options(const Config& c, const std::string& folder) {
  return {.model = model_options(c),
          .tokens = c.text("data.tokens"),
          .vocabulary = c.integer("data.vocabulary"),
          .min_count = c.integer("data.min_count"),
          .label_smoothing = c.number("train.label_smoothing"),
          .embedding = c.integer("model.embedding"),
          .tied = c.boolean("model.tied"),
          .batch = c.integer("train.batch"),
          .steps = c.integer("data.steps"),
          .validation = split_source(c, "data.validation", folder),
          .test = split_source(c, "data.test", folder),
          .evaluation_batch = c.integer("train.evaluation_batch"),
          .document_start = c.text("data.document_start"),
          .carry_state = c.boolean("data.carry_state"),
          .memory_limit = bytes_of("data.memory_limit", c.text("data.memory_limit"))};
}

ForecastOptions forecast_options(const Config& c, const std::string& folder) {
  if (!c.texts("data.columns").empty() && !c.text("data.column").empty())
    c.refuse("data.columns", "data.column is set too", "Keep one of the two");
  return {.model = model_options(c),
          .column = c.text("data.column"),
          .columns = c.texts("data.columns"),
          .date = c.text("data.date"),
          .header = c.text("data.header"),
          .separator = c.text("data.separator"),
          .missing = c.text("data.missing"),
          .window = c.integer("data.window"),
          .horizon = c.integer("data.horizon"),
          .stride = c.integer("data.stride"),
          .period = c.integer("data.period"),
          .difference = c.boolean("data.difference"),
          .batch = c.integer("train.batch"),
          .validation = split_source(c, "data.validation", folder),
          .test = split_source(c, "data.test", folder),
          .memory_limit = bytes_of("data.memory_limit", c.text("data.memory_limit"))};
}

ClassifyOptions classify_options(const Config& c, const std::string& folder) {
  return {.model = model_options(c),
          .pooling = c.text("model.pooling"),
          .label_smoothing = c.number("train.label_smoothing"),
          .label = c.text("data.label"),
          .columns = c.texts("data.columns"),
          .header = c.text("data.header"),
          .separator = c.text("data.separator"),
          .missing = c.text("data.missing"),
          .steps = c.integer("data.steps"),
          .divide = c.number("data.divide"),
          .normalize = c.boolean("data.normalize"),
          .batch = c.integer("train.batch"),
          .validation = split_source(c, "data.validation", folder),
          .test = split_source(c, "data.test", folder),
          .split_seed = static_cast<std::uint64_t>(c.integer("data.split_seed")),
          .memory_limit = bytes_of("data.memory_limit", c.text("data.memory_limit"))};
}

template <class TaskOptions>
TaskOptions text_rows_options(const Config& c, const std::string& folder) {
  TaskOptions o;
  o.model = model_options(c);
  o.embedding = c.integer("model.embedding");
  o.vocabulary = c.integer("data.vocabulary");
  o.min_count = c.integer("data.min_count");
  o.label_smoothing = c.number("train.label_smoothing");
  o.batch = c.integer("train.batch");
  o.batch_tokens = c.integer("train.batch_tokens");
  o.validation = split_source(c, "data.validation", folder);
  o.test = split_source(c, "data.test", folder);
  o.split_seed = static_cast<std::uint64_t>(c.integer("data.split_seed"));
  o.memory_limit = bytes_of("data.memory_limit", c.text("data.memory_limit"));
  return o;
}

LabelOptions label_options(const Config& c, const std::string& folder) {
  if (const std::string& tokens = c.text("data.tokens"); tokens != "words" && tokens != "characters")
    c.refuse("data.tokens", "a label is for a word or a character", "Set it to words or characters");
  auto o = text_rows_options<LabelOptions>(c, folder);
  o.tokens = c.text("data.tokens");
  o.outside = c.text("data.outside");
  o.output = c.text("model.output");
  return o;
}

TranslateOptions translate_options(const Config& c, const std::string& folder) {
  auto o = text_rows_options<TranslateOptions>(c, folder);
  o.attention = c.text("model.attention");
  o.tokens = c.text("data.tokens");
  o.tied = c.boolean("model.tied");
  o.scheduled_sampling = c.number("train.scheduled_sampling");
  o.sampling_schedule = c.text("train.sampling_schedule");
  o.sampling_batches = c.integer("train.sampling_batches");
  return o;
}

DocumentOptions document_options(const Config& c, const std::string& folder) {
  auto o = text_rows_options<DocumentOptions>(c, folder);
  o.pooling = c.text("model.pooling");
  o.label = c.text("data.label");
  o.text = c.text("data.text");
  o.header = c.text("data.header");
  o.separator = c.text("data.separator");
  return o;
}

struct DataPlace {
  std::string path;
  std::string folder;  // of the config: other files' names count from it
};
// Each kind of task with what makes it of its data, and with what checks these.
struct TaskMaker {
  unsigned kind;
  std::shared_ptr<const Task> (*make)(const Config&, const DataPlace&, const Metadata&);
  DataCheck (*check)(const Config&, const DataPlace&);
};
template <auto make_of, auto options_of>
constexpr TaskMaker maker(unsigned kind) {
  return {kind,
          [](const Config& c, const DataPlace& at, const Metadata& fitted) -> std::shared_ptr<const Task> {
            return make_of(options_of(c, at.folder), file_of(c, at.path), at.path, fitted);
          },
          [](const Config& c, const DataPlace& at) {
            return check_data(options_of(c, at.folder), file_of(c, at.path), at.path);
          }};
}
// make_X has an overload for texts too.
template <class TaskOptions, class Made>
using FromFile = std::shared_ptr<const Made> (*)(const TaskOptions&, std::shared_ptr<const Vfs::Reader>,
                                                 const std::string&, const Metadata&);
constexpr TaskMaker k_makers[] = {
    maker<FromFile<LanguageModelOptions, Task>(make_language_model), language_model_options>(k_language_model),
    maker<FromFile<ForecastOptions, Task>(make_forecast), forecast_options>(k_forecast),
    maker<FromFile<ClassifyOptions, Task>(make_classify), classify_options>(k_classify),
    maker<FromFile<LabelOptions, Task>(make_label), label_options>(k_label),
    maker<FromFile<TranslateOptions, TranslateTask>(make_translate), translate_options>(k_translate),
    maker<FromFile<DocumentOptions, Task>(make_document), document_options>(k_document),
};

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

const TaskMaker& maker_of(const Config& config) {
  for (const TaskMaker& row : k_makers) {
    if (row.kind == config.uses()) return row;
  }
  throw Error(ErrorKind::internal, "make_task", "no maker for task.kind = " + config.text("task.kind"));
}

}  // namespace

std::shared_ptr<const Task> make_task(const Config& config, const std::string& folder, const Metadata& fitted) {
  const DataPlace place = data_place(config, folder);
  try {
    return maker_of(config).make(config, place, fitted);
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
  return maker_of(config).check(config, data_place(config, folder));
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

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace unroll::cli
