// SPDX-License-Identifier: Apache-2.0
// Checks of texts and summaries: lengths, truncation, unknown words and the share of them that can be copied.
#include <algorithm>

#include "core/support/text/counted.h"
#include "core/tasks/check/data_rows.h"
#include "core/tasks/check/row_checks.h"
#include "core/tasks/summarize/summary_data.h"

namespace unroll {

namespace {

struct Seen {
  DataChecker::BySplit source, target;
  std::int64_t unknown = 0, copyable = 0;            // unknown target tokens, and those that occur in the source
  std::int64_t sources_cut = 0, targets_cut = 0;
  std::vector<std::int64_t> source_tokens, target_tokens;  // of whole texts, before truncation
};

// Reports quantiles of the lengths.
void quantiles(DataChecker& c, const std::string& what, std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return;
  std::sort(lengths.begin(), lengths.end());
  for (const int percent : {50, 90, 95, 99})
    c.figure(what + " tokens, " + std::to_string(percent) + " %",
             static_cast<double>(lengths[(lengths.size() - 1) * percent / 100]));
}

void see(Seen& seen, const PairCoder& coder, const TextPair& pair, Split split, const std::string& name) {
  const SourceTokens source = coder.source(pair.source, name);
  const PairCoder::Target target = coder.target(pair.target, source, name);
  seen.source[split].unknown += source.n_unknown;
  seen.source[split].known += std::ssize(source.ids) - source.n_unknown;
  for (const std::int32_t id : target.ids) {
    const bool copied = id >= coder.tokens(), unknown = copied || id == coder.target_tokenizer().unknown();
    ++(unknown ? seen.target[split].unknown : seen.target[split].known);
    seen.unknown += unknown;
    seen.copyable += copied;
  }
  seen.sources_cut += source.cut > 0;
  seen.targets_cut += target.cut > 0;
  seen.source_tokens.push_back(std::ssize(source.ids) + source.cut);
  seen.target_tokens.push_back(std::ssize(target.ids) + target.cut);
}

}  // namespace

DataCheck check_data(const SummarizeOptions& o, DataSource from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_of(RecordFile(from.file, name, o.memory_limit), o);
    PairsReader reader = summary_reader(o, name);
    index_pairs(file, reader);
    SplitRows rows = summary_rows(file, reader, o);
    const PairCoder coder = summary_coder(file, reader, rows[0], o, /*copies=*/true);
    const DataRows data(file, std::move(rows));
    std::vector<CheckedRow> checked_rows;
    Seen seen;
    data.for_each([&](const DataRows::Row& row) {
      const TextPair pair = reader.pair_in(file, row.record);
      checked_rows.push_back({content_of(pair.source),
                              static_cast<std::int64_t>(pair.source.size() + pair.target.size()), row.line, row.split});
      see(seen, coder, pair, row.split, name);
    });
    data.count(c);
    c.lengths(checked_rows, "bytes per pair");
    c.duplicates(checked_rows);
    c.vocabulary(seen.source, coder.target_tokenizer().size(), "source ");
    c.vocabulary(seen.target, coder.target_tokenizer().size(), "target ");
    const auto share = [](std::int64_t part, std::int64_t all) {
      return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(all, 1));
    };
    quantiles(c, "source", std::move(seen.source_tokens));
    quantiles(c, "target", std::move(seen.target_tokens));
    c.figure("sources cut", share(seen.sources_cut, file.size()));
    c.figure("targets cut", share(seen.targets_cut, file.size()));
    c.figure("unknown target tokens that can be copied", share(seen.copyable, seen.unknown));
  });
}

}  // namespace unroll
