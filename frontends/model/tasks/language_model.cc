// SPDX-License-Identifier: Apache-2.0
#include "frontends/model/tasks/language_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "frontends/data/held_text.h"
#include "frontends/data/streams.h"
#include "frontends/data/text.h"
#include "frontends/data/tokens.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"
#include "unroll/tasks.h"

namespace unroll {

std::int32_t document_start_of(const Metadata& metadata) {
  if (!metadata.contains("document_start")) return -1;
  return static_cast<std::int32_t>(get_integer(metadata, "document_start"));
}

LanguageNetwork LanguageNetwork::of(const Metadata& metadata) {
  return {get_model_options(metadata), get_integer(metadata, "embedding"),
          language_tokenizer(metadata, "model").size(),
          metadata.contains("tied") && get_integer(metadata, "tied") != 0, document_start_of(metadata)};
}

CellLayerResult LanguageNetwork::build(Scope& scope, Value ids, std::span<const Value> states) const {
  if (model.bidirectional)
    throw Error(ErrorKind::usage, "language_model", "bidirectional would let the model read the character it predicts",
                "Set bidirectional = false");
  const Readout readout{tied};
  Value x = readout.embedding(scope.child("embedding"), ids, vocabulary, embedding);
  // Gal and Ghahramani drop what the first layer reads too; with a mask per step a character would be lost.
  if (model.variational) x = dropout_layer(scope, x, model.dropout, model.mask());
  const Value reset = document_start >= 0 ? equal(ids, scalar_like(ids, document_start)) : Value();
  CellLayerResult r = recurrent_model(scope.child("recurrent"), x, model, states, {}, reset);
  r.y = readout.logits(scope.child("output"), scope.child("embedding"),
                       dropout_layer(scope, r.y, model.dropout, model.mask()), vocabulary, embedding);
  return r;
}

Tokenizer language_tokenizer(const Metadata& metadata, const std::string& name) {
  const std::string kind = metadata.contains("tokens") ? get_text(metadata, "tokens") : "characters";
  return Tokenizer::from_stored(kind, get_text(metadata, "vocabulary"), name);
}

namespace {

bool begins_character(char c) { return (c & 0xC0) != 0x80; }

class LanguageModel : public Task {
 public:
  LanguageModel(const LanguageModelOptions& options, std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                const Metadata& fitted)
      : options_(options), file_(std::move(file)), name_(name) {
    if (options.embedding < 1)
      throw Error(ErrorKind::usage, "language_model",
                  "embedding must be at least 1; got " + std::to_string(options.embedding));
    choose_block();
    // The text is cut between training and the rest before anything is learnt from it.
    const std::size_t cut = cut_of_text();
    const Tokenizer::Texts train = [&](const auto& take) {
      blocks(0, cut).for_each([&](std::string_view text, std::size_t) { take(text); });
    };
    tokenizer_.emplace(fitted.empty()
                           ? Tokenizer::train(options.tokens, train, {options.vocabulary, options.min_count}, name)
                           : language_tokenizer(fitted, name));
    choose_document_start();
    train_ids_ = tokens_of(0, cut, options.batch);
    train_ = std::make_unique<Streams>(train_ids_, Streams::Layout{options.batch, options.steps, false}, name);
    if (cut == file_->size()) return;
    held_out_ids_ = tokens_of(cut, file_->size(), options.evaluation_batch);
    held_out_ = std::make_unique<Streams>(held_out_ids_, Streams::Layout{options.evaluation_batch, options.steps, true},
                                          name + " (held out)");
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value ids = scope.graph().input("ids", like.inputs.at("ids").type());
    const Value labels = scope.graph().input("labels", like.inputs.at("labels").type());
    std::vector<CarriedState> states = carried_states(scope, options_.model, ids.shape()[1]);
    std::vector<Value> initial;
    for (const CarriedState& s : states) initial.push_back(s.in);
    const CellLayerResult network =
        LanguageNetwork{options_.model, options_.embedding, tokenizer_->size(), options_.tied, document_start_}.build(
            scope, ids, initial);
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
    b.starts_stream = index == 0 || !options_.carry_state;
    return b;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "language_model"},
               {"tokens", std::string(tokenizer_->kind())},
               {"vocabulary", tokenizer_->stored()},
               {"embedding", std::to_string(options_.embedding)},
               {"tied", std::string(1, options_.tied ? '1' : '0')},
               {"document_start", std::to_string(document_start_)}};
    put_model_options(m, options_.model);
    return m;
  }

  // The same token frequencies at every place.
  std::map<std::string, std::map<std::string, double>> baselines() const override {
    if (!held_out_) return {};
    std::vector<double> count(static_cast<std::size_t>(tokenizer_->size()), 1.0);
    for_each_token(*train_ids_, [&](std::int32_t id) { ++count[static_cast<std::size_t>(id)]; });
    const double all = static_cast<double>(train_ids_->size()) + static_cast<double>(count.size());
    const Tensor lengths = characters_of_tokens();
    double bits = 0, characters = 0;
    for_each_token(*held_out_ids_, [&](std::int32_t id) {
      bits -= std::log2(count[static_cast<std::size_t>(id)] / all);
      characters += lengths.at(id);
    });
    std::map<std::string, double> metrics{
        {"perplexity", std::exp2(bits / static_cast<double>(held_out_ids_->size()))}};
    if (has_lengths() && characters > 0) metrics["bits_per_character"] = bits / characters;
    return {{"frequency", metrics}};
  }

 private:
  static constexpr std::size_t k_least_block = 4096, k_largest_block = std::size_t{1} << 20;

  std::size_t n_kept() const {
    return static_cast<std::size_t>(std::max<std::int64_t>(options_.batch, 1) +
                                    std::max<std::int64_t>(options_.evaluation_batch, 1) + 4);
  }
  // A text whose tokens surely fit, one a byte, is one block.
  void choose_block() {
    const std::size_t limit = options_.memory_limit, size = std::max<std::size_t>(file_->size(), 1);
    block_ = size;
    if (limit == 0 || size <= limit / sizeof(std::int32_t)) return;
    const std::size_t most = limit / sizeof(std::int32_t) / n_kept();
    if (most < k_least_block)
      throw Error(ErrorKind::usage, "language_model",
                  "a memory limit of " + std::to_string(limit) + " bytes is too small for " + std::to_string(n_kept()) +
                      " streams and blocks of " + std::to_string(k_least_block) + " bytes",
                  "Set it to " + std::to_string(k_least_block * n_kept() * sizeof(std::int32_t)) + " or more");
    block_ = std::min(most, k_largest_block);
  }
  void choose_document_start() {
    if (options_.document_start.empty()) return;
    const std::vector<std::int32_t> ids = tokenizer_->encode(options_.document_start, "document_start");
    if (ids.size() != 1 || ids[0] == tokenizer_->unknown())
      throw Error(ErrorKind::usage, name_,
                  "document_start must be one token that training has; '" + options_.document_start.substr(0, 40) +
                      "' is " + (ids.size() == 1 ? "unknown" : std::to_string(ids.size()) + " tokens"),
                  "Write for example \"\\n\" where a document is a line");
    document_start_ = ids[0];
  }
  TextBlocks blocks(std::size_t begin, std::size_t end) const { return {file_, begin, end, block_}; }
  std::shared_ptr<const Tokens> tokens_of(std::size_t begin, std::size_t end, std::int64_t streams) const {
    if (block_ >= file_->size())
      return std::make_shared<TokenList>(tokenizer_->encode(blocks(begin, end).read(begin, end), name_));
    const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(streams, 1)) + 2;
    return std::make_shared<BlockTokens>(blocks(begin, end), *tokenizer_, kept, name_);
  }
  template <class F>
  static void for_each_token(const Tokens& tokens, const F& see) {
    std::vector<std::int32_t> part;
    for (std::int64_t at = 0; at < tokens.size(); at += static_cast<std::int64_t>(part.size())) {
      part.resize(static_cast<std::size_t>(std::min<std::int64_t>(tokens.size() - at, 1 << 16)));
      tokens.read(at, part);
      for (const std::int32_t id : part) see(id);
    }
  }

  // Where training ends in the file: after its share of the characters, or of the bytes where these are tokens.
  std::size_t cut_of_text() const {
    const bool by_character = options_.tokens == "characters";
    const std::size_t size = file_->size();
    std::size_t n = by_character ? 0 : size;
    if (by_character) {
      blocks(0, size).for_each([&](std::string_view text, std::size_t at) {
        if (const std::size_t bad = first_not_utf8(text); bad != std::string_view::npos)
          throw Error(ErrorKind::input_file, name_, "is not UTF-8: bad sequence at byte " + std::to_string(at + bad),
                      "Convert it, for example with iconv -f LATIN1 -t UTF-8");
        n += static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
      });
    }
    if (n < 2)
      throw Error(ErrorKind::input_file, name_,
                  "holds " + std::to_string(n) + " characters; a language model needs text");
    const auto n_train =
        n - static_cast<std::size_t>(part_of(static_cast<std::int64_t>(n), options_.held_out, "held_out"));
    if (!by_character) return character_start(n_train);
    std::size_t seen = 0, cut = size;
    blocks(0, size).for_each([&](std::string_view text, std::size_t at) {
      for (std::size_t i = 0; i < text.size() && cut == size; ++i)
        if (begins_character(text[i]) && seen++ == n_train) cut = at + i;
    });
    return cut;
  }
  // `at`, or behind it where it lies within a character.
  std::size_t character_start(std::size_t at) const {
    const std::string text = blocks(0, file_->size()).read(at, std::min(at + 4, file_->size()));
    for (std::size_t i = 0; at > 0 && i < text.size(); ++i)
      if (begins_character(text[i])) return at + i;
    return at == 0 ? 0 : at + text.size();
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
  std::shared_ptr<const Vfs::Reader> file_;
  std::string name_;
  std::size_t block_ = 0;  // bytes that are read in one piece
  std::optional<Tokenizer> tokenizer_;
  std::int32_t document_start_ = -1;
  std::shared_ptr<const Tokens> train_ids_, held_out_ids_;
  std::unique_ptr<Streams> train_, held_out_;
};

}  // namespace

std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options,
                                                std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                const Metadata& fitted) {
  return std::make_shared<LanguageModel>(options, std::move(file), name, fitted);
}

std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, std::string_view text,
                                                const std::string& name, const Metadata& fitted) {
  LanguageModelOptions whole = options;
  whole.memory_limit = 0;  // all is read before this returns
  return make_language_model(whole, std::make_shared<HeldText>(text), name, fitted);
}

}  // namespace unroll
