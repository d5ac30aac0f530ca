// SPDX-License-Identifier: Apache-2.0
// The config schema: every key with its default, range and meaning. Other keys are refused.
#include "frontends/cli/config/config_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "core/support/nearest_name.h"

namespace unroll::cli {
namespace {

constexpr double k_int_max = 2147483646;
constexpr Allowed between(double lowest, double highest) { return {lowest, highest, {}}; }
constexpr Allowed from(double lowest) { return {lowest, k_unbounded, {}}; }
constexpr Allowed one_of(std::string_view words) { return {0, 0, words}; }
constexpr Allowed any{};
constexpr auto k_bool = KeyType::boolean;
constexpr auto k_int = KeyType::integer;
constexpr auto k_num = KeyType::number;
constexpr auto k_text = KeyType::text;
constexpr auto k_texts = KeyType::texts;
constexpr auto k_source = KeyType::number_or_text;
constexpr auto k_free = AtResume::free;
constexpr auto k_free_file = AtResume::free_file;

// "language-model|forecast|...|"
constexpr std::string_view k_task_words =
#define UNROLL_TASK(name, word) word "|"
#include "frontends/cli/config/tasks.def"
#undef UNROLL_TASK
    ;

// path, type, default, allowed values, read by,
// meaning, whether a resumed run may change it
constexpr KeySpec k_schema[] = {
    {"task.kind", k_text, "\"\"", one_of(k_task_words), k_every,
     "task; empty for `unroll run`, which needs only [model]"},

    {"data.path", k_text, "\"\"", any, k_trained,
     "data file; a relative path starts at the folder of this config", k_free},
    {"data.tokens", k_text, "\"characters\"", one_of("bytes|characters|words|bpe"), k_tokens,
     "tokenizer; label: words or characters, for lines given to `predict`"},
    {"data.vocabulary", k_int, "10000", between(1, 1048576), k_words, "words, bpe: maximum vocabulary size"},
    {"data.min_count", k_int, "2", from(1), k_words,
     "words, bpe: minimum count in the training set; rarer words become the unknown token"},
    {"data.document_start", k_text, "\"\"", any, k_language_model,
     "token that starts each document: the carried state is reset before it; empty: one document"},
    {"data.carry_state", k_bool, "true", any, k_language_model,
     "start each window from the final state of the previous one; false: from zeros, also in evaluation"},
    {"data.memory_limit", k_text, "\"1GiB\"", any, k_trained,
     "maximum memory for the data; a larger file is streamed; empty: no limit", k_free},
    {"data.outside", k_text, "\"\"", any, k_label, "label that F1 excludes, such as O; empty: none"},
    {"data.steps", k_int, "64", between(0, 1e5), k_language_model | k_classify,
     "language-model: T, tokens per window of truncated backpropagation; classify: time steps per row, 0: one per "
     "feature"},
    {"data.label", k_text, "\"\"", any, k_classify | k_document,
     "label column: its name or number; document: also first or last; empty: classify: the last one, document: the "
     "one whose header is label or similar, else the first"},
    {"data.text", k_text, "\"\"", any, k_document,
     "text column: its name or number, first or last; empty: the one whose header is text or similar, else the "
     "second"},
    {"data.date", k_text, "\"\"", any, k_forecast,
     "date column: its name or number; empty: the first one with a date in its first row; none: no dates, rows are "
     "one step apart"},
    {"data.divide", k_num, "1.0", between(1e-30, 1e30), k_classify, "divide all features by this number"},
    {"data.normalize", k_bool, "false", any, k_classify,
     "standardize each feature: subtract its mean in the training set, divide by its standard deviation"},
    {"data.header", k_text, "\"auto\"", one_of("auto|yes|no"), k_table | k_document,
     "whether the first line has column names; auto: yes if no cell is a number, a date or missing; document: yes "
     "if it names a label and a text column"},
    {"data.separator", k_text, "\"\"", any, k_table | k_document,
     "cell separator: one character or tab; empty: the first of tab, semicolon and comma that the first line "
     "contains; document: tab, unless the file is a CSV"},
    {"data.missing", k_text, "\"error\"", one_of("error|previous|interpolate|mean"), k_table,
     "missing values: refuse them (error), repeat the previous value, interpolate between the neighbors, or "
     "(classify) use the training mean; forecast fills inputs only, never targets"},
    {"data.split_seed", k_int, "0", from(0), k_classify | k_drawn,
     "seed of the random assignment of rows to the splits"},
    {"data.column", k_text, "\"\"", any, k_forecast,
     "column of the series; empty: the last one. Columns of a file without a header are \"1\", \"2\", ..."},
    {"data.columns", k_texts, "[]", any, k_forecast | k_classify,
     "forecast: columns of several series, instead of data.column; classify: feature columns, empty: all but the "
     "label"},
    {"data.window", k_int, "52", between(1, 1e6), k_forecast, "number of past values that a forecast reads"},
    {"data.horizon", k_int, "1", between(1, 1e5), k_forecast, "number of future values that are predicted at once"},
    {"data.stride", k_int, "1", between(1, 1e6), k_forecast, "distance between training windows, in values"},
    {"data.period", k_int, "52", between(1, 1e6), k_forecast,
     "length of the season for the seasonal-naive baseline, in values"},
    {"data.difference", k_bool, "false", any, k_forecast,
     "read changes between values, and predict the change from the last value of the window"},
    {"data.validation", k_source, "0.1", between(0, 0.9), k_trained,
     "validation set: a share of the data, or a file; a text or series is cut in order: training, validation, test",
     k_free_file},
    {"data.test", k_source, "0.2", between(0, 0.9), k_trained,
     "test set: a share of the data, or a file; of a text or series the last part", k_free_file},

    {"model.cell", k_text, "\"lstm\"", any, k_every,
     "rnn, gru, lstm, another built-in cell (see `unroll doctor`), or the NAME of a table [cells.NAME]"},
    {"model.input", k_int, "1", between(1, 1e6), k_tensors, "width I of the input x [T,B,I]"},
    {"model.embedding", k_int, "64", between(1, 1e6), k_words, "width of the token embedding"},
    {"model.tied", k_bool, "false", any, k_language_model | k_translate,
     "share the weight of the embedding with the output layer, whose input must have the same width"},
    {"model.attention", k_text, "\"additive\"", one_of("dot|additive"), k_translate,
     "attention of the decoder over the source"},
    {"model.pooling", k_text, "\"final\"", one_of("final|mean|max|attention"), k_classify | k_document,
     "pooling over time: last output, mean, maximum, or attention-weighted mean"},
    {"model.output", k_text, "\"softmax\"", one_of("softmax|crf"), k_label,
     "softmax: independent labels; crf: a conditional random field over the sentence"},
    {"model.hidden", k_int, "128", between(1, 1e6), k_every, "width H of the state"},
    {"model.layers", k_int, "1", between(1, 64), k_every, "number of stacked layers L"},
    {"model.stack", k_text, "\"plain\"", one_of("plain|residual|highway"), k_every,
     "skip connections between layers of equal width: none, residual, or highway"},
    {"model.bidirectional", k_bool, "false", any, k_every & ~k_language_model,
     "add a second direction that reads the sequence in reverse"},
    {"model.projection", k_int, "0", between(0, 1e6), k_every,
     "lstm: width P of the projected output; 0: no projection"},
    {"model.nonlinearity", k_text, "\"tanh\"", one_of("tanh|relu"), k_every, "rnn: activation function of the state"},
    {"model.bias", k_bool, "true", any, k_every, "rnn, gru, lstm: use bias_ih and bias_hh"},
    {"model.reset_after", k_bool, "true", any, k_every,
     "gru: apply the reset gate after the recurrent product, as in PyTorch and cuDNN"},
    {"model.peephole", k_bool, "false", any, k_every, "lstm: peephole connections from the cell state to the gates"},
    {"model.dropout", k_num, "0.0", between(0, 0.95), k_trained,
     "dropout between layers and before the output layer; label, translate: also on the embedding", k_free},
    {"model.variational", k_bool, "false", any, k_trained,
     "variational dropout: one mask for all steps of a sequence", k_free},
    {"model.recurrent_dropout", k_num, "0.0", between(0, 0.95), k_trained,
     "rnn, gru, lstm: recurrent dropout on the candidate state (gru, lstm); variational: on the previous hidden state",
     k_free},
    {"model.weight_drop", k_num, "0.0", between(0, 0.95), k_trained,
     "rnn, gru, lstm: DropConnect on weight_hh, one mask per update", k_free},
    {"model.activation_penalty", k_num, "0.0", between(0, 1e3), k_trained,
     "AR: penalty on the mean square of the layer outputs, in training; typical 2", k_free},
    {"model.temporal_penalty", k_num, "0.0", between(0, 1e3), k_trained,
     "TAR: penalty on the mean square of the change of the layer outputs between steps, in training; typical 1",
     k_free},
    {"model.init", k_text, "\"pytorch\"", one_of("pytorch|xavier|orthogonal"), k_trained,
     "initialization of the recurrent layers"},
    {"model.forget_bias", k_num, "0.0", between(-10, 10), k_trained,
     "lstm: added to the initial bias of the forget gate"},

    {"train.batch", k_int, "32", between(1, 1e5), k_trained, "sequences per batch (B)"},
    {"train.batch_tokens", k_int, "0", from(0), k_drawn, "maximum tokens per batch, padding included; 0: no limit"},
    {"train.evaluation_batch", k_int, "8", between(1, 1e5), k_language_model,
     "streams into which the evaluation text is divided"},
    {"train.scheduled_sampling", k_num, "0.0", between(0, 1), k_translate,
     "share of decoder inputs that are its own predictions instead of the target", k_free},
    {"train.sampling_schedule", k_text, "\"constant\"", one_of("constant|linear|exponential|inverse-sigmoid"),
     k_translate, "how scheduled_sampling grows from 0 to its full share", k_free},
    {"train.sampling_batches", k_int, "1000", between(1, k_int_max), k_translate,
     "linear: batches until the full share; exponential, inverse-sigmoid: n in e^(-batch / n)", k_free},
    {"train.label_smoothing", k_num, "0.0", between(0, 0.99), k_trained & ~k_forecast,
     "share of each target that is distributed over all classes, in training", k_free},
    {"train.optimizer", k_text, "\"adam\"", one_of("sgd|adam|adamw|rmsprop|adagrad|lion"), k_trained, "optimizer"},
    {"train.lr", k_num, "0.001", between(0, 1e3), k_trained, "learning rate", k_free},
    {"train.momentum", k_num, "0.0", between(0, 1), k_trained, "sgd, rmsprop: momentum"},
    {"train.nesterov", k_bool, "false", any, k_trained, "sgd: Nesterov momentum"},
    {"train.beta1", k_num, "0.9", between(0, 0.999999), k_trained,
     "adam, adamw, lion: decay of the first moment", k_free},
    {"train.beta2", k_num, "0.999", between(0, 0.999999999), k_trained,
     "adam, adamw, lion: decay of the second moment", k_free},
    {"train.epsilon", k_num, "1e-08", between(0, 1), k_trained,
     "adaptive optimizers: added to the denominator", k_free},
    {"train.alpha", k_num, "0.99", between(0, 1), k_trained, "rmsprop: decay of the squared gradient", k_free},
    {"train.weight_decay", k_num, "0.0", between(0, 10), k_trained,
     "L2 penalty; decoupled for adamw and lion; not applied to biases and norm gains", k_free},
    {"train.decay_vectors", k_bool, "false", any, k_trained, "apply weight decay to biases and norm gains too", k_free},
    {"train.schedule", k_text, "\"constant\"", one_of("constant|linear|cosine|step|plateau|one-cycle"), k_trained,
     "learning rate schedule between warm-up and cool-down", k_free},
    {"train.warmup", k_int, "0", from(0), k_trained,
     "updates in which the learning rate rises linearly from 0", k_free},
    {"train.final_fraction", k_num, "0.0", between(0, 1), k_trained,
     "linear, cosine, one-cycle, cool-down: final learning rate / initial one", k_free},
    {"train.cooldown", k_int, "0", from(0), k_trained,
     "last updates, in which the learning rate falls linearly", k_free},
    {"train.lr_factor", k_num, "0.5", between(1e-6, 1), k_trained,
     "step, plateau: factor for the learning rate", k_free},
    {"train.step_every", k_int, "1000", from(1), k_trained, "step: updates between changes", k_free},
    {"train.plateau_patience", k_int, "5", from(1), k_trained,
     "plateau: validations without improvement before the learning rate falls", k_free},
    {"train.precision", k_text, "\"f32\"", one_of("f32|tf32|bf16|f16"), k_trained,
     "number formats by role: operands of products, and in bf16 and f16 what loops read and save. f16 scales the loss"},
    {"train.loss_scale", k_num, "65536.0", between(1, 16777216), k_trained, "f16: initial loss scale, a power of two"},
    {"train.loss_scale_every", k_int, "2000", from(1), k_trained,
     "f16: updates without overflow before the loss scale doubles", k_free},
    {"train.accumulate", k_int, "1", between(1, 1e5), k_trained,
     "batches per update (gradient accumulation): the gradient of `batch * accumulate` sequences"},
    {"train.clip_norm", k_num, "1.0", between(0, 1e9), k_trained,
     "maximum global norm of the gradient; 0: off", k_free},
    {"train.clip_value", k_num, "0.0", between(0, 1e9), k_trained,
     "maximum absolute value of a gradient element; 0: off", k_free},
    {"train.clip_adaptive", k_num, "0.0", between(0, 1e3), k_trained,
     "adaptive clipping: maximum gradient norm / weight norm of a unit; 0: off; typical 0.01", k_free},
    {"train.average", k_text, "\"none\"", one_of("none|ema|mean"), k_trained,
     "weight averaging over updates; the average is validated and saved as best"},
    {"train.average_decay", k_num, "0.999", between(0, 0.9999999), k_trained,
     "ema: decay of the average per update", k_free},
    {"train.average_start", k_int, "0", from(0), k_trained, "first update that is averaged", k_free},
    {"train.max_updates", k_int, "1000", between(1, k_int_max), k_trained, "total number of updates", k_free},
    {"train.epochs", k_int, "0", between(0, k_int_max), k_trained,
     "if set, max_updates is this number of passes over the training set", k_free},
    {"train.max_minutes", k_num, "0.0", between(0, 1e6), k_trained,
     "if set, stop after this many minutes; the run can be resumed; 0: no limit", k_free},
    {"train.validate_every", k_int, "100", from(0), k_trained, "updates between validations; 0: never", k_free},
    {"train.validation_batches", k_int, "0", from(0), k_trained, "maximum batches per validation; 0: all", k_free},
    {"train.patience", k_int, "0", from(0), k_trained,
     "early stopping: stop after this many validations without improvement; 0: off", k_free},
    {"train.checkpoint_every", k_int, "100", from(0), k_trained,
     "updates between checkpoints; 0: only at the end", k_free},
    {"train.keep", k_int, "0", between(0, 1e6), k_trained,
     "number of recent checkpoints to keep as checkpoint-UPDATE.safetensors", k_free},
    {"train.log_every", k_int, "10", from(0), k_trained, "updates between reports; 0: none", k_free},
    {"train.watch_every", k_int, "0", from(0), k_trained,
     "updates between training statistics (gradients, updates, saturated gates by layer); 0: off", k_free},
    {"train.on_bad", k_text, "\"skip\"", one_of("skip|stop|rollback"), k_trained,
     "what to do after a non-finite update: skip it, stop, or return to the last checkpoint with half the rate",
     k_free},
    {"train.prefetch", k_int, "2", between(0, 1024), k_trained,
     "updates whose batches a second thread prepares in advance; 0: none", k_free},
    {"train.max_bad_updates", k_int, "3", from(0), k_trained,
     "skip, rollback: non-finite updates in a row before the run stops or returns; 0: no limit", k_free},
    {"train.max_rollbacks", k_int, "5", from(0), k_trained,
     "rollback: maximum number of returns before the run stops", k_free},
    {"train.seed", k_int, "0", from(0), k_trained, "seed of all random numbers"},

    {"run.backend", k_text, "\"cpu\"", any, k_every, "backend: cpu, reference, ... (see `unroll doctor`)", k_free},
    {"run.threads", k_int, "0", between(0, 4096), k_every, "number of threads; 0: all available processors", k_free},
    {"run.estimate_seconds", k_num, "3.0", between(0, 60), k_trained,
     "time limit, in seconds, of the trial updates that estimate a run; those that count take at most 5 % of the run "
     "(of a short run 20 % and 0.3 seconds), those before the backend has chosen its schedules 10 %; 0: no estimate",
     k_free},
    {"run.tensorboard", k_bool, "false", any, k_trained, "write a TensorBoard event file into the run folder", k_free},
    {"run.memory_limit", k_text, "\"\"", any, k_trained,
     "maximum memory of an update, such as 2GiB; larger updates use gradient checkpointing", k_free},
    {"run.chunk_steps", k_int, "0", between(0, 1e6), k_trained,
     "steps after which the next layer may begin, so that stacked layers run at once on several threads; costs memory; "
     "0: off"},
};

constexpr TableKeySpec k_table_keys[] = {
    {"cells", "states", TableKeyType::texts, "names of the states, each of width `model.hidden`"},
    {"cells", "step", TableKeyType::text, "one assignment per line; each state is assigned its next value: `h' = ...`"},
    {"cells", "y", TableKeyType::text, "output of a step, an expression; default: the first state"},
    {"groups", "match", TableKeyType::text, "pattern for parameter names; `*` matches any characters: `embedding.*`"},
    {"groups", "lr_scale", TableKeyType::number, "factor for `train.lr`; default 1; 0 freezes the parameters"},
    {"groups", "weight_decay", TableKeyType::number, "replaces `train.weight_decay`"},
};

// path, read by, default for these tasks
constexpr KindDefault k_kind_defaults[] = {
    {"data.tokens", k_label, "\"words\""},
    {"data.missing", k_forecast, "\"previous\""},
    {"data.steps", k_classify, "0"},
    {"data.test", k_language_model, "0.1"},
    {"model.bidirectional", k_drawn, "true"},
    {"model.pooling", k_document, "\"attention\""},
    {"train.batch", k_document, "16"},
};

std::string_view leaf(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

}  // namespace

std::string_view key_type_name(KeyType type) {
  constexpr std::string_view names[] = {"boolean", "integer", "number", "text", "array of text",
                                        "number or text"};
  return names[static_cast<std::size_t>(type)];
}

std::span<const KeySpec> config_schema() { return k_schema; }
std::span<const TableKeySpec> table_schema() { return k_table_keys; }
std::string_view table_key_type_name(TableKeyType type) {
  constexpr std::string_view names[] = {"text", "array of text", "number"};
  return names[static_cast<std::size_t>(type)];
}

const KeySpec* find_key(std::string_view path) {
  const auto* found = std::find_if(std::begin(k_schema), std::end(k_schema),
                                   [&](const KeySpec& key) { return key.path == path; });
  return found == std::end(k_schema) ? nullptr : found;
}

std::string_view successor_of(std::string_view path) {
  return path == "data.held_out" ? "Write data.validation and data.test: the share for each, or a file" : "";
}

std::string nearest_key(std::string_view path) {
  constexpr std::size_t k_longest_typo = 256;  // the edit distance costs |a| * |b|
  path = path.substr(0, k_longest_typo);
  std::string_view best;
  std::size_t best_distance = std::string_view::npos;
  for (const KeySpec& key : k_schema) {
    // The right name in the wrong section is a better match than any misspelling.
    const bool same_leaf = leaf(key.path) == leaf(path);
    const std::size_t distance =
        same_leaf ? 0 : 1 + std::min(edit_distance(path, key.path), edit_distance(path, leaf(key.path)));
    if (distance < best_distance) {
      best = key.path;
      best_distance = distance;
    }
  }
  return std::string(best);
}

std::span<const KindDefault> kind_defaults() { return k_kind_defaults; }

ConfigValue default_value(const KeySpec& key, unsigned uses) {
  std::string_view text = key.fallback;
  for (const KindDefault& row : k_kind_defaults) {
    if (row.path == key.path && row.uses & uses) text = row.fallback;
  }
  switch (key.type) {
    case KeyType::boolean:
      return text == "true";
    case KeyType::text:
      return std::string(text.substr(1, text.size() - 2));
    case KeyType::texts:
      return std::vector<std::string>{};
    case KeyType::integer: {
      std::int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    }
    case KeyType::number:
    case KeyType::number_or_text:
      break;
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

namespace {

// Escapes a string for double quotes. Newlines and tabs stay if `lines` is set.
std::string escaped(std::string_view text, bool lines) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += {'\\', c};
    else if (lines && (c == '\n' || c == '\t')) result += c;
    else if (byte < 0x20 || byte == 0x7f) result += fmt::format("\\u{:04x}", byte);
    else result += c;
  }
  return result;
}

}  // namespace

std::string toml_lines(std::string_view text) {
  return fmt::format("\"\"\"\n{}\"\"\"", escaped(text, /*lines=*/true));
}

std::string toml_text(const ConfigValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *d);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  const auto quoted = [](const std::string& s) { return fmt::format("\"{}\"", escaped(s, /*lines=*/false)); };
  if (const auto* s = std::get_if<std::string>(&value)) return quoted(*s);
  std::vector<std::string> all;
  for (const std::string& s : std::get<std::vector<std::string>>(value)) all.push_back(quoted(s));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

}  // namespace unroll::cli
