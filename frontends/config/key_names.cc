// SPDX-License-Identifier: Apache-2.0
// Finds the intended key for a wrong name: names of other tools, the words in another order, or the nearest spelling.
#include <algorithm>
#include <utility>

#include "core/support/text/nearest_name.h"
#include "frontends/config/config_schema.h"

namespace unroll::cli {
namespace {

struct OtherName {
  std::string_view name, path;
};
constexpr OtherName k_other_names[] = {
    {"learning_rate", "train.lr"}, {"rate", "train.lr"}, {"step_size", "train.lr"}, {"eta", "train.lr"},
    {"batch_size", "train.batch"}, {"bs", "train.batch"}, {"minibatch", "train.batch"},
    {"epoch", "train.epochs"}, {"n_epochs", "train.epochs"}, {"num_epochs", "train.epochs"},
    {"nb_epoch", "train.epochs"}, {"max_steps", "train.max_updates"}, {"num_steps", "train.max_updates"},
    {"iterations", "train.max_updates"}, {"iters", "train.max_updates"}, {"max_iters", "train.max_updates"},
    {"max_iter", "train.max_updates"}, {"updates", "train.max_updates"}, {"early_stopping", "train.patience"},
    {"early_stop", "train.patience"}, {"clip", "train.clip_norm"}, {"grad_clip", "train.clip_norm"},
    {"gradient_clip", "train.clip_norm"}, {"gradient_clipping", "train.clip_norm"},
    {"max_grad_norm", "train.clip_norm"}, {"clip_grad_norm", "train.clip_norm"},
    {"gradient_clip_val", "train.clip_norm"}, {"gradient_accumulation", "train.accumulate"},
    {"gradient_accumulation_steps", "train.accumulate"}, {"accumulation_steps", "train.accumulate"},
    {"accumulate_grad_batches", "train.accumulate"}, {"l2", "train.weight_decay"}, {"decay", "train.weight_decay"},
    {"wd", "train.weight_decay"}, {"optim", "train.optimizer"}, {"optimiser", "train.optimizer"},
    {"eps", "train.epsilon"}, {"rho", "train.alpha"}, {"betas", "train.beta1"}, {"scheduler", "train.schedule"},
    {"lr_schedule", "train.schedule"}, {"lr_scheduler", "train.schedule"}, {"warmup_steps", "train.warmup"},
    {"warmup_updates", "train.warmup"}, {"num_warmup_steps", "train.warmup"}, {"gamma", "train.lr_factor"},
    {"lr_decay", "train.lr_factor"}, {"eta_min", "train.min_lr"}, {"ema", "train.average"}, {"swa", "train.average"},
    {"ema_decay", "train.average_decay"}, {"smoothing", "train.label_smoothing"},
    {"teacher_forcing", "train.scheduled_sampling"}, {"teacher_forcing_ratio", "train.scheduled_sampling"},
    {"amp", "train.precision"}, {"fp16", "train.precision"}, {"bf16", "train.precision"},
    {"mixed_precision", "train.precision"}, {"dtype", "train.precision"}, {"random_seed", "train.seed"},
    {"random_state", "train.seed"}, {"eval_every", "train.validate_every"}, {"val_every", "train.validate_every"},
    {"eval_interval", "train.validate_every"}, {"eval_steps", "train.validate_every"},
    {"save_every", "train.checkpoint_every"}, {"save_steps", "train.checkpoint_every"},
    {"save_interval", "train.checkpoint_every"}, {"log_interval", "train.log_every"},
    {"logging_steps", "train.log_every"}, {"print_every", "train.log_every"}, {"time_limit", "train.max_minutes"},
    {"hidden_size", "model.hidden"}, {"hidden_dim", "model.hidden"}, {"hidden_units", "model.hidden"},
    {"units", "model.hidden"}, {"num_units", "model.hidden"}, {"n_hidden", "model.hidden"}, {"width", "model.hidden"},
    {"rnn_size", "model.hidden"}, {"state_size", "model.hidden"}, {"d_model", "model.hidden"},
    {"num_layers", "model.layers"}, {"n_layers", "model.layers"}, {"depth", "model.layers"}, {"rnn", "model.cell"},
    {"rnn_type", "model.cell"}, {"cell_type", "model.cell"}, {"architecture", "model.cell"}, {"arch", "model.cell"},
    {"embedding_dim", "model.embedding"}, {"embedding_size", "model.embedding"}, {"embed_dim", "model.embedding"},
    {"emb_size", "model.embedding"}, {"bidir", "model.bidirectional"}, {"dropout_rate", "model.dropout"},
    {"drop", "model.dropout"}, {"activation", "model.nonlinearity"}, {"proj_size", "model.projection"},
    {"tie_weights", "model.tied"}, {"tied_weights", "model.tied"}, {"pool", "model.pooling"},
    {"initializer", "model.init"}, {"seq_len", "data.steps"}, {"seq_length", "data.steps"},
    {"sequence_length", "data.steps"}, {"timesteps", "data.steps"}, {"bptt", "data.steps"},
    {"max_len", "data.steps"}, {"lookback", "data.window"}, {"window_size", "data.window"},
    {"context", "data.window"}, {"context_length", "data.window"}, {"input_chunk_length", "data.window"},
    {"forecast_horizon", "data.horizon"}, {"prediction_length", "data.horizon"},
    {"output_chunk_length", "data.horizon"}, {"season", "data.period"}, {"seasonality", "data.period"},
    {"season_length", "data.period"}, {"differencing", "data.difference"}, {"diff", "data.difference"},
    {"val", "data.validation"}, {"val_split", "data.validation"}, {"validation_split", "data.validation"},
    {"valid", "data.validation"}, {"dev", "data.validation"}, {"test_split", "data.test"}, {"test_size", "data.test"},
    {"target_column", "data.column"}, {"features", "data.columns"}, {"sep", "data.separator"},
    {"delimiter", "data.separator"}, {"standardize", "data.normalize"}, {"normalise", "data.normalize"},
    {"scale", "data.normalize"}, {"fillna", "data.missing"}, {"impute", "data.missing"}, {"na", "data.missing"},
    {"vocab", "data.vocabulary"}, {"vocab_size", "data.vocabulary"}, {"min_freq", "data.min_count"},
    {"tokenizer", "data.tokens"}, {"lower", "data.lowercase"}, {"file", "data.path"}, {"csv", "data.path"},
    {"data_path", "data.path"}, {"task", "task.kind"}, {"type", "task.kind"}, {"device", "run.backend"},
    {"workers", "run.threads"}, {"num_workers", "run.threads"}, {"num_threads", "run.threads"},
};

std::vector<std::string_view> words_in(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('_', at), name.size());
    words.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Returns the number of extra words in `name` if it contains all words of the key; otherwise edit_distance.
std::size_t distance_of(std::string_view name, std::string_view key) {
  const std::vector<std::string_view> words = words_in(name), wanted = words_in(key);
  const bool has_all =
      std::ranges::all_of(wanted, [&](std::string_view w) { return std::ranges::count(words, w) > 0; });
  return has_all ? 1 + words.size() - wanted.size() : edit_distance(name, key);
}

std::string plain(std::string_view path) {
  std::string name(path);
  for (char& c : name) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

}  // namespace

std::string_view key_named(std::string_view given) {
  const std::string path = plain(given);
  const std::string_view name = leaf(path);
  for (const KeySpec& key : config_schema())
    if (leaf(key.path) == name) return key.path;
  const auto* other = std::ranges::find(k_other_names, name, &OtherName::name);
  return other == std::end(k_other_names) ? std::string_view() : other->path;
}

std::string_view nearest_key(std::string_view given) {
  constexpr std::size_t k_longest_typo = 256;  // the edit distance costs |a| * |b|
  const std::string path = plain(given.substr(0, k_longest_typo));
  if (const std::string_view key = key_named(path); !key.empty()) return key;
  const std::string_view name = leaf(path), section = std::string_view(path).substr(0, path.find('.'));
  std::string_view best;
  std::pair<std::size_t, bool> least{name.size() / 2 + 1, true};  // the distance, and true for another section
  for (const KeySpec& key : config_schema()) {
    const std::pair<std::size_t, bool> now{distance_of(name, leaf(key.path)), !key.path.starts_with(section)};
    if (now < least) best = key.path, least = now;
  }
  return best;
}

}  // namespace unroll::cli
