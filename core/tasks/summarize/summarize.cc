// SPDX-License-Identifier: Apache-2.0
// The summarize task.
#include <algorithm>

#include "core/support/text/in_quotes.h"
#include "core/tasks/decode/text_pairs.h"
#include "core/tasks/summarize/summary_data.h"
#include "unroll/support/error.h"

namespace unroll {

PairsReader summary_reader(const SummarizeOptions& options, const std::string& name) {
  PairsFormat format = summary_format();
  format.source = options.source;
  format.target = options.target;
  format.split = options.split;
  return {name, std::move(format), k_long_texts};
}

SplitRows summary_rows(const RecordFile& file, const PairsReader& reader, const SummarizeOptions& options) {
  if (options.split.empty()) return split_rows(file, options);
  if (options.validation.file || options.test.file)
    throw Error(ErrorKind::usage, "summarize", "the splits are named by a column and by files",
                "Set either data.split, or files for data.validation and data.test");
  constexpr std::string_view k_names[] = {"train", "validation", "test"};
  SplitRows rows;
  file.for_each([&](std::int64_t row, std::string_view record) {
    const std::string cell = reader.pair_in(file, record).split;
    const auto at = std::find(std::begin(k_names), std::end(k_names), cell);
    if (at == std::end(k_names))
      file.refuse(row, "the split is " + in_quotes(cell), "Write train, validation or test");
    rows[at - std::begin(k_names)].push_back(row);
  });
  if (rows[0].empty()) throw Error(ErrorKind::input_file, file.name(), "no row has the split 'train'");
  return rows;
}

PairCoder summary_coder(const RecordFile& file, const PairsReader& reader, const std::vector<std::int64_t>& train,
                        const SummarizeOptions& o, bool copies, const Metadata& fitted) {
  constexpr std::string TextPair::* k_sides[] = {&TextPair::source, &TextPair::target};
  require_as_trained(fitted, file.name(), "tokens", o.tokens);
  require_as_trained(fitted, file.name(), "lowercase", o.lowercase ? "1" : "0");
  require_as_trained(fitted, file.name(), "source_tokens", std::to_string(o.source_tokens));
  require_as_trained(fitted, file.name(), "target_tokens", std::to_string(o.target_tokens));
  Tokenizer tokenizer = fitted.empty() ? pair_tokenizer(file, reader, train, k_sides, o, o.tokens, o.lowercase)
                                       : Tokenizer::from_stored(get_text(fitted, "tokens"),
                                                                get_text(fitted, "vocabulary"), file.name());
  return {LineCoder(std::move(tokenizer)), copies, o.lowercase, {o.source_tokens, o.target_tokens}};
}

namespace {

std::shared_ptr<const PairTask> summarize_of(const SummarizeOptions& o, RecordFile data, const Metadata& fitted) {
  checked_options(o, "summarize");
  RecordFile file = records_of(std::move(data), o);
  PairsReader reader = summary_reader(o, file.name());
  index_pairs(file, reader);
  SplitRows rows = summary_rows(file, reader, o);
  PairCoder coder = summary_coder(file, reader, rows[0], o, o.pointer, fitted);
  AttentionNetwork network = network_of(o, o, coder);
  network.sources = network.targets;  // the source has no end token, but both sides share one vocabulary
  network.chunk = o.chunk;
  network.shared_embedding = o.shared_embedding;
  return make_text_pairs({.task = "summarize",
                          .file = std::move(file),
                          .reader = std::move(reader),
                          .rows = std::move(rows),
                          .coder = std::move(coder),
                          .network = network},
                         o, o);
}

}  // namespace

std::shared_ptr<const PairTask> make_summarize(const SummarizeOptions& options, DataSource data,
                                               const std::string& name, const Metadata& fitted) {
  return summarize_of(options, record_file(data, name, options), fitted);
}

}  // namespace unroll
