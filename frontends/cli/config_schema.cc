// SPDX-License-Identifier: Apache-2.0
// Every key, with its default, range and meaning. A key that is not here does not exist.
#include "frontends/cli/config_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

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

// path, type, default, allowed, read by,
// meaning
constexpr KeySpec k_schema[] = {
    {"task.kind", k_text, "\"\"", one_of("language-model|forecast|classify|label|translate|document|"), k_every,
     "what is learnt; empty for `unroll run`, which only needs [model]"},

    {"data.path", k_text, "\"\"", any, k_trained, "data file; a relative path starts at the folder of this config"},
    {"data.tokens", k_text, "\"characters\"", one_of("bytes|characters|words|bpe"), k_tokens,
     "what text is cut into; label, which takes characters or words: a plain line, its file has a token a line"},
    {"data.vocabulary", k_int, "10000", between(1, 1048576), k_words,
     "words, bpe: tokens with a number of their own at most"},
    {"data.min_count", k_int, "2", from(1), k_words,
     "words, bpe: how often training must have one for that; rarer words are all the same unknown word"},
    {"data.document_start", k_text, "\"\"", any, k_language_model,
     "token with which every document begins: the carried state is zero before it. Empty: the text is one document"},
    {"data.carry_state", k_bool, "true", any, k_language_model,
     "a window begins with the state that the one before it left; false: with zeros, also in evaluation"},
    {"data.memory_limit", k_text, "\"1GiB\"", any, k_trained,
     "what the data may take in memory; of a larger file the parts that a batch has are read again. Empty: any"},
    {"data.outside", k_text, "\"\"", any, k_label, "label that F1 leaves out, such as O; empty: none"},
    {"data.held_out", k_num, "0.1", between(0, 0.9), k_language_model | k_classify,
     "share that training never sees; it serves validation and test"},
    {"data.steps", k_int, "64", between(1, 1e5), k_language_model | k_classify,
     "T: tokens in a window of truncated back-propagation, or steps that a row is cut into"},
    {"data.divide", k_num, "1.0", between(1e-30, 1e30), k_classify, "values are divided by it"},
    {"data.split_seed", k_int, "0", from(0), k_classify | k_drawn, "which rows are held out"},
    {"data.column", k_text, "\"\"", any, k_forecast,
     "CSV column with the series; empty: the last one. In a file without a header columns are \"1\", \"2\", ..."},
    {"data.columns", k_texts, "[]", any, k_forecast,
     "several of them in the place of data.column: read together, and forecast together, each in units of its own"},
    {"data.window", k_int, "52", between(1, 1e6), k_forecast, "past values that a forecast sees"},
    {"data.horizon", k_int, "1", between(1, 1e5), k_forecast, "values ahead that are forecast at once"},
    {"data.stride", k_int, "1", between(1, 1e6), k_forecast, "values from a window of training to the next"},
    {"data.period", k_int, "52", between(1, 1e6), k_forecast, "season of the seasonal-naive baseline, in values"},
    {"data.difference", k_bool, "false", any, k_forecast,
     "read changes, and learn the change from the last value of the window"},
    {"data.validation", k_num, "0.1", between(0, 0.9), k_forecast | k_drawn,
     "share for validation; of a series in time order after training"},
    {"data.test", k_num, "0.2", between(0, 0.9), k_forecast | k_drawn, "share for the test; of a series its end"},

    {"model.cell", k_text, "\"lstm\"", any, k_every,
     "rnn, gru, lstm, a registered cell (see `unroll doctor`), or the NAME of a table [cells.NAME]"},
    {"model.input", k_int, "1", between(1, 1e6), k_tensors, "width I of the input x [T,B,I]"},
    {"model.embedding", k_int, "64", between(1, 1e6), k_words, "width of the embedding of a token"},
    {"model.tied", k_bool, "false", any, k_language_model | k_translate,
     "the output layer's weight is that of the embedding, which is then as wide as what the layer reads"},
    {"model.attention", k_text, "\"additive\"", one_of("dot|additive"), k_translate,
     "how the decoder finds its place in the source"},
    {"model.pooling", k_text, "\"final\"", one_of("final|mean|max|attention"), k_classify | k_document,
     "what the outputs at all steps become: the last one, their mean, their largest, a mean by learnt weights"},
    {"model.output", k_text, "\"softmax\"", one_of("softmax|crf"), k_label,
     "each label by itself, or all of a sentence together with learnt transitions between them"},
    {"model.hidden", k_int, "128", between(1, 1e6), k_every, "width H of the state"},
    {"model.layers", k_int, "1", between(1, 64), k_every, "stacked layers (L)"},
    {"model.stack", k_text, "\"plain\"", one_of("plain|residual|highway"), k_every,
     "residual, highway: a layer's input, where it is as wide as its output, is added to it or mixed with it by a "
     "gate"},
    {"model.bidirectional", k_bool, "false", any, k_every & ~k_language_model,
     "a second direction that reads the sequence backwards"},
    {"model.projection", k_int, "0", between(0, 1e6), k_every, "lstm: width P of the projected output, 0 for none"},
    {"model.nonlinearity", k_text, "\"tanh\"", one_of("tanh|relu"), k_every, "rnn: the function of the state"},
    {"model.bias", k_bool, "true", any, k_every, "rnn, gru, lstm: bias_ih and bias_hh"},
    {"model.reset_after", k_bool, "true", any, k_every,
     "gru: the reset gate acts after the recurrent product (PyTorch, cuDNN)"},
    {"model.peephole", k_bool, "false", any, k_every, "lstm: the gates see the cell state"},
    {"model.dropout", k_num, "0.0", between(0, 0.95), k_trained,
     "dropout rate between layers and before the output layer; label and translate: of the embedding too"},
    {"model.variational", k_bool, "false", any, k_trained,
     "one dropout mask for all steps of a sequence in the place of one a step"},
    {"model.recurrent_dropout", k_num, "0.0", between(0, 0.95), k_trained,
     "rnn, gru, lstm: dropout rate inside the steps: of what a step adds (gru, lstm), variational: of the old state"},
    {"model.weight_drop", k_num, "0.0", between(0, 0.95), k_trained,
     "rnn, gru, lstm: dropout rate of the elements of weight_hh, one mask an update"},
    {"model.activation_penalty", k_num, "0.0", between(0, 1e3), k_trained,
     "what the mean square of the layers' output adds to the loss in training (AR); 2 is usual"},
    {"model.temporal_penalty", k_num, "0.0", between(0, 1e3), k_trained,
     "the same of the output's change from step to step (TAR); 1 is usual"},
    {"model.init", k_text, "\"pytorch\"", one_of("pytorch|xavier|orthogonal"), k_trained, "initial recurrent weights"},
    {"model.forget_bias", k_num, "0.0", between(-10, 10), k_trained, "lstm: added to the forget gate's initial bias"},

    {"train.batch", k_int, "32", between(1, 1e5), k_trained, "sequences per update (B)"},
    {"train.batch_tokens", k_int, "0", from(0), k_drawn,
     "tokens of a batch at most, padding among them, so that it holds fewer long sequences than short ones; 0: any "
     "number"},
    {"train.evaluation_batch", k_int, "8", between(1, 1e5), k_language_model,
     "streams that the held-out text is cut into"},
    {"train.scheduled_sampling", k_num, "0.0", between(0, 1), k_translate,
     "share of the decoder's inputs that are its own predictions, from a first pass, instead of the target's"},
    {"train.sampling_schedule", k_text, "\"constant\"", one_of("constant|linear|exponential|inverse-sigmoid"),
     k_translate, "how scheduled_sampling is reached from 0"},
    {"train.sampling_batches", k_int, "1000", between(1, k_int_max), k_translate,
     "linear: batches after which it is; exponential, inverse-sigmoid: n of e^(-batch / n)"},
    {"train.label_smoothing", k_num, "0.0", between(0, 0.99), k_trained & ~k_forecast,
     "share of each target that goes to all classes alike; in training only"},
    {"train.optimizer", k_text, "\"adam\"", one_of("sgd|adam|adamw|rmsprop|adagrad|lion"), k_trained, "update rule"},
    {"train.lr", k_num, "0.001", between(0, 1e3), k_trained, "learning rate"},
    {"train.momentum", k_num, "0.0", between(0, 1), k_trained, "sgd, rmsprop"},
    {"train.nesterov", k_bool, "false", any, k_trained, "sgd: Nesterov momentum"},
    {"train.beta1", k_num, "0.9", between(0, 0.999999), k_trained, "adam, adamw, lion: decay of the first moment"},
    {"train.beta2", k_num, "0.999", between(0, 0.999999999), k_trained,
     "adam, adamw, lion: decay of the second moment"},
    {"train.epsilon", k_num, "1e-08", between(0, 1), k_trained, "added to the denominator of the adaptive rules"},
    {"train.alpha", k_num, "0.99", between(0, 1), k_trained, "rmsprop: decay of the squared gradient"},
    {"train.weight_decay", k_num, "0.0", between(0, 10), k_trained,
     "L2 penalty; decoupled for adamw, lion. Not for biases and gains"},
    {"train.decay_vectors", k_bool, "false", any, k_trained, "weight decay for biases and gains too"},
    {"train.schedule", k_text, "\"constant\"", one_of("constant|linear|cosine|step|plateau|one-cycle"), k_trained,
     "learning rate between warm-up and cool-down"},
    {"train.warmup", k_int, "0", from(0), k_trained, "updates over which the learning rate rises from 0"},
    {"train.final_fraction", k_num, "0.0", between(0, 1), k_trained,
     "linear, cosine, one-cycle, cool-down: last learning rate divided by that before"},
    {"train.cooldown", k_int, "0", from(0), k_trained, "last updates, over which the learning rate falls linearly"},
    {"train.lr_factor", k_num, "0.5", between(1e-6, 1), k_trained,
     "step, plateau: what the learning rate is multiplied by"},
    {"train.step_every", k_int, "1000", from(1), k_trained, "step: updates between"},
    {"train.plateau_patience", k_int, "5", from(1), k_trained,
     "plateau: validations without a better one before the learning rate falls"},
    {"train.precision", k_text, "\"f32\"", one_of("f32|tf32|bf16|f16"), k_trained,
     "numbers that enter products; sums, parameters and all else stay f32. f16 scales the loss"},
    {"train.loss_scale", k_num, "65536.0", between(1, 16777216), k_trained,
     "f16: what the loss is multiplied by at first, a power of two"},
    {"train.loss_scale_every", k_int, "2000", from(1), k_trained,
     "f16: updates without overflow after which the scale doubles"},
    {"train.accumulate", k_int, "1", between(1, 1e5), k_trained,
     "batches of an update: the gradient of `batch * accumulate` in the memory of one batch"},
    {"train.clip_norm", k_num, "1.0", between(0, 1e9), k_trained, "largest global gradient norm, 0 for no clipping"},
    {"train.clip_value", k_num, "0.0", between(0, 1e9), k_trained, "largest element of a gradient, 0 for no clipping"},
    {"train.clip_adaptive", k_num, "0.0", between(0, 1e3), k_trained,
     "largest norm of a unit's gradient divided by that of its weights, 0 for no clipping; 0.01 is usual"},
    {"train.average", k_text, "\"none\"", one_of("none|ema|mean"), k_trained,
     "mean of the parameters over updates, which is then validated and saved as best"},
    {"train.average_decay", k_num, "0.999", between(0, 0.9999999), k_trained,
     "ema: what is kept of the mean in an update"},
    {"train.average_start", k_int, "0", from(0), k_trained, "updates before the mean begins"},
    {"train.max_updates", k_int, "1000", between(1, k_int_max), k_trained, "updates in all"},
    {"train.epochs", k_int, "0", between(0, k_int_max), k_trained,
     "when set, max_updates is this many passes over the data"},
    {"train.max_minutes", k_num, "0.0", between(0, 1e6), k_trained,
     "when set, the run stops after so many minutes and can be resumed; 0 for no limit"},
    {"train.validate_every", k_int, "100", from(0), k_trained, "updates between validations, 0 for never"},
    {"train.validation_batches", k_int, "0", from(0), k_trained, "batches per validation at most, 0 for all"},
    {"train.patience", k_int, "0", from(0), k_trained,
     "stop after so many validations without a better one, with the best parameters; 0 for never"},
    {"train.checkpoint_every", k_int, "100", from(0), k_trained,
     "updates between checkpoints, 0 for one at the end only"},
    {"train.keep", k_int, "0", between(0, 1e6), k_trained,
     "of the last so many checkpoints each stays as checkpoint-UPDATE.safetensors, beside last and best"},
    {"train.log_every", k_int, "10", from(0), k_trained, "updates between reports, 0 for none"},
    {"train.watch_every", k_int, "0", from(0), k_trained,
     "updates between statistics of gradients, steps and saturated gates by layer, 0 for none"},
    {"train.on_bad", k_text, "\"skip\"", one_of("skip|stop|rollback"), k_trained,
     "an update that is not finite never counts: skip it, stop, or go back to the last checkpoint with half the rate"},
    {"train.prefetch", k_int, "2", between(0, 1024), k_trained,
     "updates whose batches are made ahead in a thread of their own, 0 for none"},
    {"train.max_bad_updates", k_int, "3", from(0), k_trained,
     "skip, rollback: such updates in a row before the run stops or goes back, 0 for never"},
    {"train.max_rollbacks", k_int, "5", from(0), k_trained, "rollback: how often before the run stops"},
    {"train.seed", k_int, "0", from(0), k_trained, "the one source of randomness"},

    {"run.backend", k_text, "\"cpu\"", any, k_every, "cpu, reference, ... (see `unroll doctor`)"},
    {"run.threads", k_int, "0", between(0, 4096), k_every, "0: as many as the process may run on"},
    {"run.estimate_seconds", k_num, "3.0", between(0, 60), k_trained,
     "updates are timed before the run for so long at most, a twentieth of the run, and undone; 0 for no estimate"},
    {"run.tensorboard", k_bool, "false", any, k_trained,
     "also write the run's scalars as an event file of TensorBoard into the run folder"},
    {"run.memory_limit", k_text, "\"\"", any, k_trained,
     "such as 2GiB; an update that would need more keeps fewer values and computes them again"},
};

constexpr TableKeySpec k_table_keys[] = {
    {"cells", "states", TableKeyType::texts, "names of the states, each of width `model.hidden`"},
    {"cells", "step", TableKeyType::text, "one assignment per line; every state gets its next value, as in `h' = ...`"},
    {"cells", "y", TableKeyType::text, "the output of a step as one expression; without it the first state"},
    {"groups", "match", TableKeyType::text, "names of parameters; `*` stands for any characters, as in `embedding.*`"},
    {"groups", "lr_scale", TableKeyType::number, "times `train.lr`, 1 when not given; 0: they stay as they are"},
    {"groups", "weight_decay", TableKeyType::number, "in the place of `train.weight_decay`"},
};

constexpr TaskKind k_kinds[] = {
    {"language-model", k_language_model},
    {"forecast", k_forecast},
    {"classify", k_classify},
    {"label", k_label},
    {"translate", k_translate},
    {"document", k_document},
};

// path, read by, the default there
constexpr KindDefault k_kind_defaults[] = {
    {"data.tokens", k_label, "\"words\""},
    {"model.bidirectional", k_drawn, "true"},
    {"model.pooling", k_document, "\"attention\""},
    {"train.batch", k_document, "16"},
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

std::string_view leaf(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

}  // namespace

std::string_view key_type_name(KeyType type) {
  constexpr std::string_view names[] = {"boolean", "integer", "number", "text", "array of text"};
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

std::string nearest_key(std::string_view path) {
  constexpr std::size_t k_longest_typo = 256;  // the distance costs |a| * |b|
  path = path.substr(0, k_longest_typo);
  std::string_view best;
  std::size_t best_distance = std::string_view::npos;
  for (const KeySpec& key : k_schema) {
    // The right name in the wrong section is nearer than any misspelling.
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

std::span<const TaskKind> task_kinds() { return k_kinds; }
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
      break;
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

namespace {

// Inside double quotes; a newline only where the string has several lines.
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

unsigned uses_of_kind(std::string_view kind) {
  for (const TaskKind& row : k_kinds) {
    if (row.word == kind) return row.bit;
  }
  return 0;
}

}  // namespace unroll::cli
