// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/language_model/language_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <optional>

#include "core/data/batch/streams.h"
#include "core/data/text/encoding.h"
#include "core/data/tokens/tokens.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/utf8.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

namespace {

constexpr const char* k_region_names[] = {"", " (validation)", " (test)"};

class LanguageModel : public Task, public SplitSizes {
 public:
  LanguageModel(const LanguageModelOptions& options, std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                const Metadata& fitted)
      : options_(checked_options(options, "language_model")), file_(std::move(file)), name_(name) {
    choose_block();
    // The text is split before anything is fitted to it.
    const PerSplit<Region> regions = cut_text();
    const Tokenizer::Texts train = [&](const auto& take) {
      blocks(regions[0]).for_each_text(take);
    };
    tokenizer_.emplace(fitted.empty()
                           ? Tokenizer::train(options.tokens, train, {options.vocabulary, options.min_count}, name)
                           : language_tokenizer(fitted, name));
    choose_document_start();
    require_as_trained(fitted, name, "tokens", options.tokens);
    require_as_trained(fitted, name, "document_start", std::to_string(document_start_));
    for (std::size_t split = 0; split < regions.size(); ++split) {
      const Region& region = regions[split];
      if (split > 0 && region.begin == region.end) continue;
      const std::int64_t shards = shards_of(static_cast<Split>(split));
      const std::int64_t streams = split == 0 ? options.batch : options.evaluation_batch / shards;
      ids_[split] = tokens_of(region, streams * shards);
      streams_[split] =
          std::make_unique<Streams>(ids_[split], Streams::Layout{streams, options.steps, split > 0, shards},
                                    region.name + k_region_names[split]);
    }
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value ids = scope.graph().input("ids", like.inputs.at("ids").type());
    const Value labels = scope.graph().input("labels", like.inputs.at("labels").type());
    std::vector<CarriedState> states =
        carried_states(scope, options_.model, ids.shape()[1], options_.embedding);
    std::vector<Value> initial;
    for (const CarriedState& s : states) initial.push_back(s.in);
    const CellLayerResult network =
        LanguageNetwork{options_.model, options_.embedding, tokenizer_->size(), options_.tied, document_start_}.build(
            scope, ids, initial);
    for (std::size_t i = 0; i < states.size(); ++i) states[i].out = network.states[i];
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
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

  std::int64_t split_size(Split split) const override {
    const auto& ids = ids_[split];
    return ids ? ids->size() : 0;
  }
  std::string split_unit() const override { return "token"; }

  std::int64_t n_batches(Split split) const override {
    const auto& streams = streams_[split];
    return streams ? streams->n_windows() : 0;
  }

  Batch batch(Split split, std::uint64_t, std::int64_t, std::int64_t index) const override {
    Streams::Window w = streams_[split]->window(index);
    Batch b;
    b.inputs.emplace("ids", std::move(w.ids));
    b.inputs.emplace("labels", std::move(w.labels));
    b.starts_stream = index < shards_of(split) || !options_.carry_state;
    return b;
  }

  std::int64_t shards() const override { return options_.shards; }
  std::int64_t evaluation_shards(Split split) const override { return shards_of(split); }

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

  // Baseline: the token frequencies of the training set at every position.
  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    const auto& scored = ids_[split];
    if (!scored) return {};
    std::vector<double> count(tokenizer_->size(), 1.0);
    for_each_token(*ids_[0], [&](std::int32_t id) { ++count[id]; });
    const double all = static_cast<double>(ids_[0]->size()) + static_cast<double>(count.size());
    const Tensor lengths = characters_of_tokens();
    double bits = 0, characters = 0;
    for_each_token(*scored, [&](std::int32_t id) {
      bits -= std::log2(count[id] / all);
      characters += lengths.at(id);
    });
    std::map<std::string, double> metrics{
        {"perplexity", std::exp2(bits / static_cast<double>(scored->size()))}};
    if (has_lengths() && characters > 0) metrics["bits_per_character"] = bits / characters;
    return {{"frequency", metrics}};
  }

 private:
  static constexpr std::size_t k_least_block = 4096, k_largest_block = std::size_t{1} << 20;

  std::size_t n_kept() const {
    return std::max<std::int64_t>(options_.batch, 1) + std::max<std::int64_t>(options_.evaluation_batch, 1) + 4;
  }
  // A text that fits at one token per byte is one block.
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
                  "document_start must be one token of the training set; " + in_quotes(options_.document_start) +
                      " is " + (ids.size() == 1 ? "unknown" : counted(ids.size(), "token")),
                  "For one document per line, set \"\\n\"");
    document_start_ = ids[0];
  }
  // A part of one of the files.
  struct Region {
    std::shared_ptr<const Vfs::Reader> file;
    std::string name;
    std::size_t begin = 0, end = 0;
  };
  TextBlocks blocks(const Region& r) const { return {r.file, r.begin, r.end, block_, is_text()}; }
  // Evaluations have the same number of rows for any number of shards.
  std::int64_t shards_of(Split split) const {
    return split == Split::train ? options_.shards : std::gcd(options_.shards, options_.evaluation_batch);
  }
  std::shared_ptr<const Tokens> tokens_of(const Region& r, std::int64_t streams) const {
    if (block_ >= r.file->size())
      return std::make_shared<TokenList>(
          tokenizer_->encode(blocks(r).text(blocks(r).read(r.begin, r.end)), r.name));
    const std::size_t kept = std::max<std::int64_t>(streams, 1) + 2;
    return std::make_shared<BlockTokens>(blocks(r), *tokenizer_, kept, r.name);
  }
  template <class F>
  static void for_each_token(const Tokens& tokens, const F& see) {
    std::vector<std::int32_t> part;
    for (std::int64_t at = 0; at < tokens.size(); at += std::ssize(part)) {
      part.resize(std::min<std::int64_t>(tokens.size() - at, 1 << 16));
      tokens.read(at, part);
      for (const std::int32_t id : part) see(id);
    }
  }

  PerSplit<Region> cut_text() const {
    Region whole{file_, name_, 0, file_->size()};
    const std::int64_t n = size_of(whole);
    const auto share = [&](const SplitSource& source, const char* key) {
      return source.file ? 0 : part_of(n, source.share, key);
    };
    const std::int64_t test = n - share(options_.test, "test"),
                       validation = test - share(options_.validation, "validation");
    if (validation < 2)
      throw Error(ErrorKind::usage, name_,
                  counted(n, "character") + ", of which data.validation and data.test leave " +
                      std::to_string(std::max<std::int64_t>(validation, 0)) +
                      " for training",
                  "Lower data.validation or data.test, or use more data");
    const std::array<std::size_t, 4> at{0, place_of(whole, validation), place_of(whole, test), whole.end};
    PerSplit<Region> regions;
    for (std::size_t split = 0; split < 3; ++split) {
      const SplitSource* own = split == 0 ? nullptr : split == 1 ? &options_.validation : &options_.test;
      if (!own || !own->file) regions[split] = {file_, name_, at[split], at[split + 1]};
      else regions[split] = {own->file, own->name, 0, own->file->size()};
      if (own && own->file) size_of(regions[split]);
    }
    return regions;
  }
  // Returns the size in characters for character tokens, else in bytes. Throws on invalid text, unless tokens are
  // bytes.
  std::int64_t size_of(const Region& r) const {
    std::size_t n = 0;
    blocks(r).for_each([&](std::string_view text, std::size_t at) {
      if (is_text()) require_block_of_text(text, at, r);
      n += by_character() ? std::count_if(text.begin(), text.end(), std::not_fn(continues_character))
                          : std::ssize(text);
    });
    if (n < 2)
      throw Error(ErrorKind::input_file, r.name,
                  "holds " + counted(n, "character") + "; a language model needs text");
    return static_cast<std::int64_t>(n);
  }
  static void require_block_of_text(std::string_view text, std::size_t at, const Region& r) {
    if (at == r.begin)
      require_start_of_text(text.substr(0, k_start_bytes), at + text.size() == r.end, r.name);
    if (const auto fault = fault_in(text, at)) throw Error(ErrorKind::input_file, r.name, fault->what, fault->next);
  }
  // Returns the file offset of character n, or of byte n moved to a character boundary.
  std::size_t place_of(const Region& whole, std::int64_t n) const {
    if (!by_character()) return character_start(n);
    std::int64_t seen = 0;
    std::size_t place = whole.end;
    blocks(whole).for_each([&](std::string_view text, std::size_t at) {
      for (std::size_t i = 0; i < text.size() && place == whole.end; ++i)
        if (!continues_character(text[i]) && seen++ == n) place = at + i;
    });
    return place;
  }
  bool is_text() const { return options_.tokens != "bytes"; }
  bool by_character() const { return options_.tokens == "characters"; }
  // Returns `at`, or the next character boundary if it lies within a character.
  std::size_t character_start(std::size_t at) const {
    const std::string text = blocks({file_, name_, 0, file_->size()}).read(at, std::min(at + 4, file_->size()));
    for (std::size_t i = 0; at > 0 && i < text.size(); ++i)
      if (!continues_character(text[i])) return at + i;
    return at == 0 ? 0 : at + text.size();
  }
  bool has_lengths() const { return tokenizer_->kind() != "words"; }
  // Returns the number of characters by token, f32 [V].
  Tensor characters_of_tokens() const {
    Tensor lengths(DType::f32, {tokenizer_->size()});
    for (std::int32_t id = 0; id < tokenizer_->size(); ++id)
      lengths.set(id, static_cast<double>(tokenizer_->characters(id)));
    return lengths;
  }

  LanguageModelOptions options_;
  std::shared_ptr<const Vfs::Reader> file_;
  std::string name_;
  std::size_t block_ = 0;  // bytes per read
  std::optional<Tokenizer> tokenizer_;
  std::int32_t document_start_ = -1;
  PerSplit<std::shared_ptr<const Tokens>> ids_;
  PerSplit<std::unique_ptr<Streams>> streams_;
};

}  // namespace

std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, DataSource data,
                                                const std::string& name, const Metadata& fitted) {
  LanguageModelOptions used = options;
  used.memory_limit = data.memory_limit(options.memory_limit);
  return std::make_shared<LanguageModel>(used, data.file, name, fitted);
}

}  // namespace unroll
