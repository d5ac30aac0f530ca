// SPDX-License-Identifier: Apache-2.0
// The translate task: lines to lines, with a vocabulary for each side.
#include "core/tasks/check/text_checks.h"
#include "core/tasks/decode/text_pairs.h"

namespace unroll {

namespace {

PairCoder translate_coder(const TranslateOptions& o, const RecordFile& file, const PairsReader& reader,
                          const std::vector<std::int64_t>& train, const Metadata& fitted) {
  require_as_trained(fitted, file.name(), "tokens", o.tokens);
  const auto coder = [&](std::string TextPair::*side, const std::string& which) {
    if (!fitted.empty())
      return LineCoder(
          Tokenizer::from_stored(get_text(fitted, "tokens"), get_text(fitted, which + ".vocabulary"), file.name()));
    return LineCoder(pair_tokenizer(file, reader, train, {&side, 1}, o, o.tokens));
  };
  return {coder(&TextPair::source, "source"), coder(&TextPair::target, "target"), o.pointer,
          {k_max_line_tokens, k_max_line_tokens}};
}

std::shared_ptr<const PairTask> translate_of(const TranslateOptions& o, RecordFile data, const Metadata& fitted) {
  checked_options(o, "translate");
  RecordFile file = records_of(std::move(data), o);
  PairsReader reader(file.name(), {});
  index_pairs(file, reader);
  SplitRows rows = split_rows(file, o);
  PairCoder coder = translate_coder(o, file, reader, rows[0], fitted);
  const AttentionNetwork network = network_of(o, o, coder);
  return make_text_pairs({.task = "translate",
                          .file = std::move(file),
                          .reader = std::move(reader),
                          .rows = std::move(rows),
                          .coder = std::move(coder),
                          .network = network,
                          .refuses_long = true,
                          .token_accuracy = true},
                         o, o);
}

}  // namespace

std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options, DataSource data,
                                               const std::string& name, const Metadata& fitted) {
  return translate_of(options, record_file(data, name, options), fitted);
}

DataCheck check_data(const TranslateOptions& o, DataSource from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_at(from.file, name, o);
    PairsReader reader(name, {});
    c.empty_lines(file, 0, joins_lines(file, reader));
    index_pairs(file, reader);
    const DataRows data(file, split_rows(file, o));
    std::vector<CheckedRow> rows;
    data.for_each([&](const DataRows::Row& row) {
      const TextPair pair = reader.pair_in(file, row.record);
      rows.push_back({content_of(pair.source), static_cast<std::int64_t>(pair.source.size() + pair.target.size()),
                      row.line, row.split});
    });
    data.count(c);
    c.lengths(rows, "bytes per pair");
    c.duplicates(rows);
    const std::string before = o.tokens == "words" || o.tokens == "bpe" ? " " : "";  // a blank belongs to the next word
    for (const auto& part : {std::pair(&TextPair::source, "source "), std::pair(&TextPair::target, "target ")}) {
      const auto side = part.first;
      const Tokenizer tokenizer = pair_tokenizer(file, reader, data.train(), {&part.first, 1}, o, o.tokens);
      DataChecker::BySplit known;
      data.for_each([&](const DataRows::Row& row) {
        count_ids(known[row.split], tokenizer, before + reader.pair_in(file, row.record).*side, name);
      });
      c.vocabulary(known, tokenizer.size(), part.second);
    }
  });
}

}  // namespace unroll
