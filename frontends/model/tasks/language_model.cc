// SPDX-License-Identifier: Apache-2.0
#include "frontends/model/tasks/language_model.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "frontends/data/streams.h"
#include "frontends/data/text.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"
#include "unroll/tasks.h"

namespace unroll {

LanguageNetwork LanguageNetwork::of(const Metadata& metadata) {
  return {get_model_options(metadata), get_integer(metadata, "embedding"),
          language_tokenizer(metadata, "model").size(),
          metadata.contains("tied") && get_integer(metadata, "tied") != 0};
}

CellLayerResult LanguageNetwork::build(Scope& scope, Value ids, std::span<const Value> states) const {
  if (model.bidirectional)
    throw Error(ErrorKind::usage, "language_model", "bidirectional would let the model read the character it predicts",
                "Set bidirectional = false");
  const Readout readout{tied};
  Value x = readout.embedding(scope.child("embedding"), ids, vocabulary, embedding);
  // Gal and Ghahramani drop what the first layer reads too; with a mask per step a character would be lost.
  if (model.variational) x = dropout_layer(scope, x, model.dropout, model.mask());
  CellLayerResult r = recurrent_model(scope.child("recurrent"), x, model, states);
  r.y = readout.logits(scope.child("output"), scope.child("embedding"),
                       dropout_layer(scope, r.y, model.dropout, model.mask()), vocabulary, embedding);
  return r;
}

Tokenizer language_tokenizer(const Metadata& metadata, const std::string& name) {
  const std::string kind = metadata.contains("tokens") ? get_text(metadata, "tokens") : "characters";
  return Tokenizer::from_stored(kind, get_text(metadata, "vocabulary"), name);
}

namespace {

// `at`, or behind it where it lies within a character.
std::size_t character_start(std::string_view text, std::size_t at) {
  while (at < text.size() && at > 0 && (text[at] & 0xC0) == 0x80) ++at;
  return at;
}

class LanguageModel : public Task {
 public:
  LanguageModel(const LanguageModelOptions& options, std::string_view bytes, const std::string& name,
                const Metadata& fitted)
      : options_(options) {
    if (options.embedding < 1)
      throw Error(ErrorKind::usage, "language_model",
                  "embedding must be at least 1; got " + std::to_string(options.embedding));
    // The text is cut between training and the rest before anything is learnt from it.
    const std::size_t cut = cut_of(bytes, name);
    const std::string_view train = bytes.substr(0, cut), rest = bytes.substr(cut);
    tokenizer_.emplace(fitted.empty() ? Tokenizer::train(options.tokens, std::vector{train},
                                                         {options.vocabulary, options.min_count}, name)
                                      : language_tokenizer(fitted, name));
    ids_ = tokenizer_->encode(train, name);
    n_train_ = ids_.size();
    const std::vector<std::int32_t> held_out = tokenizer_->encode(rest, name);
    ids_.insert(ids_.end(), held_out.begin(), held_out.end());
    const auto ids = std::span<const std::int32_t>(ids_);
    train_ = std::make_unique<Streams>(ids.first(n_train_), Streams::Layout{options.batch, options.steps, false}, name);
    if (n_train_ < ids_.size())
      held_out_ = std::make_unique<Streams>(
          ids.subspan(n_train_), Streams::Layout{options.evaluation_batch, options.steps, true}, name + " (held out)");
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value ids = scope.graph().input("ids", like.inputs.at("ids").type());
    const Value labels = scope.graph().input("labels", like.inputs.at("labels").type());
    std::vector<CarriedState> states = carried_states(scope, options_.model, ids.shape()[1]);
    std::vector<Value> initial;
    for (const CarriedState& s : states) initial.push_back(s.in);
    const CellLayerResult network =
        LanguageNetwork{options_.model, options_.embedding, tokenizer_->size(), options_.tied}.build(scope, ids, initial);
    for (std::size_t i = 0; i < states.size(); ++i) states[i].out = network.states[i];
    const Value total = sum(softmax_cross_entropy(network.y, labels)),
                count = scalar_like(total, static_cast<double>(labels.shape().elements()));
    TaskGraph t;
    t.loss = sum(smoothed_cross_entropy(scope, network.y, labels, options_.label_smoothing)) / count;
    t.weight = count;
    t.metrics.push_back({"perplexity", total, count, MetricForm::exponential});
    if (has_lengths())
      t.metrics.push_back({"bits_per_character", total * std::numbers::log2e,
                           sum(gather(constant(scope.graph(), characters_of_tokens()), labels))});
    t.states = std::move(states);
    return t;
  }

  std::int64_t n_batches(Split split) const override {
    if (split == Split::train) return train_->n_windows();
    return held_out_ ? held_out_->n_windows() : 0;
  }

  Batch batch(Split split, std::uint64_t, std::int64_t, std::int64_t index) const override {
    Streams::Window w = (split == Split::train ? *train_ : *held_out_).window(index);
    Batch b;
    b.inputs.emplace("ids", std::move(w.ids));
    b.inputs.emplace("labels", std::move(w.labels));
    b.starts_stream = index == 0;
    return b;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "language_model"},
               {"tokens", std::string(tokenizer_->kind())},
               {"vocabulary", tokenizer_->stored()},
               {"embedding", std::to_string(options_.embedding)},
               {"tied", std::string(1, options_.tied ? '1' : '0')}};
    put_model_options(m, options_.model);
    return m;
  }

  // The same token frequencies at every place.
  std::map<std::string, std::map<std::string, double>> baselines() const override {
    if (!held_out_) return {};
    std::vector<double> count(static_cast<std::size_t>(tokenizer_->size()), 1.0);
    for (std::size_t i = 0; i < n_train_; ++i) ++count[static_cast<std::size_t>(ids_[i])];
    const double all = static_cast<double>(n_train_) + static_cast<double>(count.size());
    const Tensor lengths = characters_of_tokens();
    double bits = 0, characters = 0;
    for (std::size_t i = n_train_; i < ids_.size(); ++i) {
      bits -= std::log2(count[static_cast<std::size_t>(ids_[i])] / all);
      characters += lengths.at(ids_[i]);
    }
    std::map<std::string, double> metrics{
        {"perplexity", std::exp2(bits / static_cast<double>(ids_.size() - n_train_))}};
    if (has_lengths() && characters > 0) metrics["bits_per_character"] = bits / characters;
    return {{"frequency", metrics}};
  }

 private:
  // Where training ends in the bytes: after its share of the characters, or of the bytes where these are tokens.
  std::size_t cut_of(std::string_view bytes, const std::string& name) const {
    const bool by_character = options_.tokens == "characters";
    const std::size_t n = by_character ? decode_utf8(bytes, name).size() : bytes.size();
    if (n < 2)
      throw Error(ErrorKind::input_file, name,
                  "holds " + std::to_string(n) + " characters; a language model needs text");
    const auto n_train =
        n - static_cast<std::size_t>(part_of(static_cast<std::int64_t>(n), options_.held_out, "held_out"));
    if (!by_character) return character_start(bytes, n_train);
    std::size_t at = 0;
    for (std::size_t seen = 0; at < bytes.size(); ++at)
      if ((bytes[at] & 0xC0) != 0x80 && seen++ == n_train) break;
    return at;
  }
  bool has_lengths() const { return tokenizer_->kind() != "words"; }
  // f32 [V]
  Tensor characters_of_tokens() const {
    Tensor lengths(DType::f32, {tokenizer_->size()});
    for (std::int32_t id = 0; id < tokenizer_->size(); ++id)
      lengths.set(id, static_cast<double>(tokenizer_->characters(id)));
    return lengths;
  }

  LanguageModelOptions options_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::int32_t> ids_;
  std::size_t n_train_ = 0;  // of ids_, at its beginning
  std::unique_ptr<Streams> train_, held_out_;
};

}  // namespace

std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, std::string_view text,
                                                const std::string& name, const Metadata& fitted) {
  return std::make_shared<LanguageModel>(options, text, name, fitted);
}

}  // namespace unroll
