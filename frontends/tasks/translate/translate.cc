// SPDX-License-Identifier: Apache-2.0
// Lines into lines, each side with a vocabulary of its own.
#include "frontends/tasks/decode/text_pairs.h"

namespace unroll {

namespace {

PairCoder translate_coder(const TranslateOptions& o, const RecordFile& file, const PairsReader& reader,
                          const std::vector<std::int64_t>& train, const Metadata& fitted) {
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
  RecordFile file = records_of(std::move(data), o.validation, o.test);
  PairsReader reader(file.name(), {});
  index_pairs(file, reader);
  SplitRows rows = split_rows(file, o.validation, o.test, o.split_seed);
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

std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options, std::string_view text,
                                               const std::string& name, const Metadata& fitted) {
  return translate_of(options, RecordFile(text, name), fitted);
}

std::shared_ptr<const PairTask> make_translate(const TranslateOptions& options,
                                               std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                               const Metadata& fitted) {
  return translate_of(options, RecordFile(std::move(file), name, options.memory_limit), fitted);
}

}  // namespace unroll
