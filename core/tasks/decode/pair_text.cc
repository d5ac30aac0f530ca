// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/pair_text.h"

#include <algorithm>
#include <map>

#include "core/tasks/common/task_parts.h"
#include "core/tasks/decode/attention_network.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int32_t k_lacking = -3;  // a word that needs an extended id

// Cuts tokens at the limit and returns the number of removed tokens.
std::int64_t cut_at(std::vector<std::int32_t>& tokens, std::int64_t limit) {
  const std::size_t most = limit;
  if (tokens.size() <= most) return 0;
  const auto cut = static_cast<std::int64_t>(tokens.size() - most);
  tokens.resize(most);
  return cut;
}

std::string in_case(std::string_view text, bool lowercase) {
  std::string result(text);
  for (char& c : result)
    if (lowercase && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

}  // namespace

PairCoder::PairCoder(LineCoder both, bool copies, bool lowercase, Limits limits)
    : source_(both), target_(std::move(both)), separate_(false), copies_(copies), lowercase_(lowercase),
      limits_(limits) {}

PairCoder::PairCoder(LineCoder source, LineCoder target, bool copies, Limits limits)
    : source_(std::move(source)), target_(std::move(target)), separate_(true), copies_(copies), limits_(limits) {
  for (std::int32_t id = 0; copies && id < source_tokenizer().size(); ++id)
    numbers_.push_back(id == source_tokenizer().unknown() ? k_lacking : number_of(source_tokenizer().text(id)));
}

PairCoder PairCoder::of(const Metadata& metadata) {
  const bool copies = metadata.contains("pointer") && get_integer(metadata, "pointer") != 0;
  if (metadata.contains("source.vocabulary"))
    return {get_coder(metadata, "source"), get_coder(metadata, "target"), copies,
            {k_max_line_tokens, k_max_line_tokens}};
  return {get_coder(metadata, ""), copies, get_integer(metadata, "lowercase") != 0,
          {get_integer(metadata, "source_tokens"), get_integer(metadata, "target_tokens")}};
}

void PairCoder::put(Metadata& metadata) const {
  metadata["tokens"] = source_tokenizer().kind();
  if (separate_) {
    metadata["source.vocabulary"] = source_tokenizer().stored();
    metadata["target.vocabulary"] = target_tokenizer().stored();
    return;
  }
  metadata["vocabulary"] = source_tokenizer().stored();
  metadata["lowercase"] = std::string(1, lowercase_ ? '1' : '0');
  metadata["source_tokens"] = std::to_string(limits_.source);
  metadata["target_tokens"] = std::to_string(limits_.target);
}

// Returns the target id of a source word. Tokenizers without an unknown token can write every text in pieces, but have
// no token for the decoder to read after a word with an extended id.
std::int32_t PairCoder::number_of(const std::string& word) const {
  const std::vector<std::int32_t> ids = target_tokenizer().encode(word, "source vocabulary");
  if (ids.size() == 1 && ids[0] != target_tokenizer().unknown()) return ids[0];
  return target_tokenizer().unknown() < 0 ? k_no_source : k_lacking;
}

SourceTokens PairCoder::source(std::string_view text, const std::string& name) const {
  const std::string line = in_case(text, lowercase_);
  SourceTokens s;
  s.ids = source_.encode(line, name);
  s.cut = cut_at(s.ids, limits_.source);
  s.n_unknown = std::count(s.ids.begin(), s.ids.end(), source_tokenizer().unknown());
  if (!copies_) return s;
  s.copies = s.ids;
  const std::vector<std::string> parts = s.n_unknown > 0 ? source_.parts(line) : std::vector<std::string>();
  std::map<std::string, std::int32_t> numbers;
  for (std::size_t i = 0; i < s.ids.size(); ++i) {
    const bool is_unknown = s.ids[i] == source_tokenizer().unknown();
    if (!is_unknown && !separate_) continue;
    s.copies[i] = is_unknown ? number_of(parts[i]) : numbers_[s.ids[i]];
    if (s.copies[i] != k_lacking) continue;
    const std::string word = is_unknown ? parts[i] : source_tokenizer().text(s.ids[i]);
    const auto next = static_cast<std::int32_t>(tokens() + std::ssize(s.extended));
    const auto [at, is_new] = numbers.emplace(word, next);
    if (is_new) s.extended.push_back(word);
    s.copies[i] = at->second;
  }
  return s;
}

PairCoder::Target PairCoder::target(std::string_view text, const SourceTokens& source, const std::string& name) const {
  const std::string line = in_case(text, lowercase_);
  Target t{target_.encode(line, name), 0};
  t.cut = cut_at(t.ids, limits_.target);
  if (source.extended.empty()) return t;
  const std::vector<std::string> parts = target_.parts(line);
  for (std::size_t i = 0; i < t.ids.size(); ++i) {
    if (t.ids[i] != target_tokenizer().unknown()) continue;
    const auto at = std::find(source.extended.begin(), source.extended.end(), parts[i]);
    if (at != source.extended.end())
      t.ids[i] = static_cast<std::int32_t>(tokens() + (at - source.extended.begin()));
  }
  return t;
}

std::vector<std::string> PairCoder::source_words(std::string_view text, const SourceTokens& source) const {
  std::vector<std::string> words = source_.parts(in_case(text, lowercase_));
  words.resize(source.ids.size());
  for (std::size_t i = 0; i < words.size(); ++i)
    if (source.ids[i] != source_tokenizer().unknown()) words[i] = source_tokenizer().text(source.ids[i]);
  return words;
}

std::string PairCoder::word(std::int32_t id, const SourceTokens& source) const {
  return id < tokens() ? target_tokenizer().text(id) : source.extended[id - tokens()];
}

std::string PairCoder::text_of(std::span<const std::int32_t> ids, const SourceTokens& source) const {
  std::vector<std::string> parts;
  for (const std::int32_t id : ids) parts.push_back(word(id, source));
  return target_.joined(parts);
}

Tokenizer pair_tokenizer(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                         PairSides sides, const TextRowsOptions& options, const std::string& tokens, bool lowercase) {
  const std::string before = tokens == "words" || tokens == "bpe" ? " " : "";  // a blank belongs to the next word
  const Tokenizer::Texts texts = [&](const auto& take) {
    file.for_each(train, [&](std::int64_t, std::string_view record) {
      const TextPair pair = reader.pair_in(file, record);
      for (std::string TextPair::* const side : sides) take(before + in_case(pair.*side, lowercase));
    });
  };
  return Tokenizer::train(tokens, texts, {options.vocabulary, options.min_count}, file.name());
}

}  // namespace unroll
