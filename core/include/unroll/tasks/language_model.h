// SPDX-License-Identifier: Apache-2.0
// Language models: prediction of the next token, text generation, and the probability of lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/hidden_state.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// Network and stream: ids [T,B] -> logits [T,B,V] of the next token, and the states of the network.

// Predicts the next token. A batch holds B contiguous streams, read in windows of T steps with carried state. Metrics:
// perplexity per token and bits_per_character. Only bits_per_character is comparable between tokenizers. Word models do
// not report it, because unknown words have no length. The test set is the last share of the text, the validation set
// the share before it. The carried state starts from zeros at the start of each split.
struct LanguageModelOptions {
  RecurrentModelOptions model;
  std::string tokens = "characters";
  std::int64_t vocabulary = 10000;
  std::int64_t min_count = 2;
  double label_smoothing = 0;
  std::int64_t embedding = 64;
  bool tied = false;  // see tied_linear_layer
  std::int64_t batch = 32;
  std::int64_t steps = 64;
  // Groups of `batch` streams each that several ranks share; must equal TrainerOptions::accumulate.
  std::int64_t shards = 1;
  SplitSource validation = 0.1;
  SplitSource test = 0.1;
  std::int64_t evaluation_batch = 8;
  std::string document_start = {};  // token that starts a document; no information crosses documents
  bool carry_state = true;
  // Files only: maximum bytes of tokens in memory; 0: no limit. A longer text is read repeatedly in blocks, which gives
  // the same batches. Only the current block of each stream and an index of the blocks stay in memory.
  std::size_t memory_limit = 0;
};
template <>
inline constexpr auto k_options<LanguageModelOptions> = std::array{
    option<&LanguageModelOptions::tokens>(keys::tokens),
    option<&LanguageModelOptions::vocabulary>(keys::vocabulary),
    option<&LanguageModelOptions::min_count>(keys::min_count),
    option<&LanguageModelOptions::steps>(keys::steps),
    option<&LanguageModelOptions::document_start>(
        {"data.document_start", any_value,
         "token that starts each document: the carried state is reset before it; empty: one document"}),
    option<&LanguageModelOptions::carry_state>(
        {"data.carry_state", any_value,
         "start each window from the final state of the previous one; false: from zeros, also in evaluation"}),
    option<&LanguageModelOptions::shards>(
        {"data.shards", between(1, 4096),
         "groups of train.batch streams, one for each batch of an update (train.accumulate), for training on several "
         "ranks"}),
    option<&LanguageModelOptions::validation>(keys::validation),
    option<&LanguageModelOptions::test>(keys::test),
    option<&LanguageModelOptions::embedding>(keys::embedding),
    option<&LanguageModelOptions::tied>(keys::tied),
    option<&LanguageModelOptions::batch>(keys::batch),
    option<&LanguageModelOptions::evaluation_batch>(
        {"train.evaluation_batch", between(1, 1e5), "streams into which the evaluation text is divided"}),
    option<&LanguageModelOptions::label_smoothing>(keys::label_smoothing),
};
UNROLL_API std::shared_ptr<const Task> make_language_model(const LanguageModelOptions& options, DataSource data,
                                                           const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const LanguageModelOptions& options, DataSource data, const std::string& name);

// Scores lines of text with a language model. Each line is read separately after a line break, or after the model's
// document start. If the vocabulary has neither, the first token is not scored.
class UNROLL_API TextScorer {
 public:
  TextScorer(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  struct Result {
    std::int64_t tokens = 0, unknown = 0;
    std::int64_t scored = 0;      // tokens with a probability
    std::int64_t characters = 0;  // characters in the scored tokens; 0 for word models
    double log_probability = 0;   // of the scored tokens, natural logarithm
    double perplexity() const;    // exp(-log_probability / scored), NaN without a scored token
    double bits_per_character() const;  // NaN without a character
  };
  void check(std::string_view line) const;  // throws Error(usage) when it is not UTF-8 and the tokens are characters
  std::vector<Result> predict(std::span<const std::string> lines);

 private:
  struct State;
  HiddenState<State> state_;
};

// Returns the tokens of a text that are not in the vocabulary of a language model, each once.
UNROLL_API std::vector<std::string> unknown_tokens(const Metadata& metadata, std::string_view text);

struct GenerateOptions {
  std::string prompt = "\n";
  std::int64_t length = 400;  // tokens
  double temperature = 0.8;   // 0: always the most likely token
  std::int64_t top_k = 0;     // sample from the k most likely tokens; 0: all
  // nucleus sampling: from the smallest set whose probabilities sum to top_p (Holtzman et al. 2020)
  double top_p = 1;
  std::uint64_t seed = 0;
};
// Samples text from a language model, one token at a time with carried state. `metadata` and `parameters` come from its
// checkpoint, or from its task and trainer. `sink` receives each token. A bytes or bpe token may be part of a UTF-8
// character.
UNROLL_API void generate(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend,
                         const GenerateOptions& options, const std::function<void(std::string_view)>& sink);

}  // namespace unroll
