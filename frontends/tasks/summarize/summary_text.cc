// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/summarize/summary_text.h"

#include <algorithm>
#include <map>

#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_max_side_bytes = std::size_t{1} << 20;

// Drops what lies beyond the limit and returns how much that was.
template <class T>
std::int64_t cut_at(std::vector<T>& tokens, std::int64_t limit) {
  const auto most = static_cast<std::size_t>(limit);
  if (tokens.size() <= most) return 0;
  const auto cut = static_cast<std::int64_t>(tokens.size() - most);
  tokens.resize(most);
  return cut;
}

}  // namespace

std::string in_case(std::string_view text, bool lowercase) {
  std::string result(text);
  for (char& c : result)
    if (lowercase && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

SummaryCoder SummaryCoder::of(const Metadata& metadata) {
  return {get_coder(metadata, ""),
          get_integer(metadata, "lowercase") != 0,
          {get_integer(metadata, "source_tokens"), get_integer(metadata, "target_tokens")}};
}

SourceTokens SummaryCoder::source(std::string_view text, const std::string& name) const {
  const std::string line = in_case(text, lowercase_);
  SourceTokens s;
  s.ids = coder_.encode(line, name);
  s.cut = cut_at(s.ids, limits_.source);
  s.copies = s.ids;
  const std::vector<std::string> parts = coder_.parts(line);
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < s.ids.size(); ++i) {
    if (s.ids[i] != tokenizer().unknown()) continue;
    ++s.n_unknown;
    const auto next = static_cast<std::int32_t>(tokens() + static_cast<std::int64_t>(s.unknown.size()));
    const auto [at, is_new] = numbers.emplace(parts[i], next);
    if (is_new) s.unknown.push_back(parts[i]);
    s.copies[i] = at->second;
  }
  return s;
}

SummaryCoder::Target SummaryCoder::target(std::string_view text, const SourceTokens& source,
                                          const std::string& name) const {
  const std::string line = in_case(text, lowercase_);
  Target t{coder_.encode(line, name), 0};
  t.cut = cut_at(t.ids, limits_.target);
  const std::vector<std::string> parts = coder_.parts(line);
  for (std::size_t i = 0; i < t.ids.size(); ++i) {
    if (t.ids[i] != tokenizer().unknown()) continue;
    const auto at = std::find(source.unknown.begin(), source.unknown.end(), parts[i]);
    if (at != source.unknown.end())
      t.ids[i] = static_cast<std::int32_t>(tokens() + (at - source.unknown.begin()));
  }
  return t;
}

std::string SummaryCoder::word(std::int32_t id, const SourceTokens& source) const {
  return id < tokens() ? tokenizer().text(id) : source.unknown[static_cast<std::size_t>(id - tokens())];
}

std::string SummaryCoder::text_of(std::span<const std::int32_t> ids, const SourceTokens& source) const {
  std::vector<std::string> parts;
  for (const std::int32_t id : ids) parts.push_back(word(id, source));
  return coder_.joined(parts);
}

PairsReader summary_reader(const SummarizeOptions& options, const std::string& name) {
  PairsFormat format = summary_format();
  format.source = options.source;
  format.target = options.target;
  format.split = options.split;
  return {name, std::move(format), {.max_side = k_max_side_bytes}};
}

SplitRows summary_rows(const RecordFile& file, const PairsReader& reader, const SummarizeOptions& options) {
  if (options.split.empty()) return split_rows(file, options.validation, options.test, options.split_seed);
  if (options.validation.file || options.test.file)
    throw Error(ErrorKind::usage, "summarize", "the splits are named by a column and by files",
                "Set either data.split, or files for data.validation and data.test");
  constexpr std::string_view k_names[] = {"train", "validation", "test"};
  SplitRows rows;
  file.for_each([&](std::int64_t row, std::string_view record) {
    const std::string cell = reader.pair_in(file, record).split;
    const auto at = std::find(std::begin(k_names), std::end(k_names), cell);
    if (at == std::end(k_names))
      file.refuse(row, "the split is '" + cell.substr(0, 40) + "'", "Write train, validation or test");
    rows[static_cast<std::size_t>(at - std::begin(k_names))].push_back(row);
  });
  if (rows[0].empty()) throw Error(ErrorKind::input_file, file.name(), "no row has the split 'train'");
  return rows;
}

Tokenizer summary_tokenizer(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                            const SummarizeOptions& o) {
  const std::string before = o.tokens == "words" || o.tokens == "bpe" ? " " : "";  // a blank stays with its word
  const Tokenizer::Texts texts = [&](const auto& take) {
    file.for_each(train, [&](std::int64_t, std::string_view record) {
      const TextPair pair = reader.pair_in(file, record);
      take(before + in_case(pair.source, o.lowercase));
      take(before + in_case(pair.target, o.lowercase));
    });
  };
  return Tokenizer::train(o.tokens, texts, {o.vocabulary, o.min_count}, file.name());
}

}  // namespace unroll
