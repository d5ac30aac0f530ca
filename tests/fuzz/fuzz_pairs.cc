// SPDX-License-Identifier: Apache-2.0
// Any text is pairs within the limits or is refused with Error(input_file), the same from a file that is read in parts;
// a target is a document of words.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/data/corpus/documents.h"
#include "core/data/corpus/pairs.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/text_reader.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

void check(std::string_view text, const std::string& name, const PairsFormat& format) {
  try {
    const auto pairs =
        read_pairs(text, name, {.max_pairs = 100, .max_side = 200}, format);
    if (pairs.empty() || pairs.size() > 100) std::abort();
    RecordFile file = testing::read_in_parts(text);
    PairsReader reader(name, format, {.max_pairs = 100, .max_side = 200});
    index_pairs(file, reader);
    if (file.size() != static_cast<std::int64_t>(pairs.size())) std::abort();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const TextPair again = reader.pair_in(file, file.text(static_cast<std::int64_t>(i)));
      if (again.source != pairs[i].source || again.target != pairs[i].target) std::abort();
      if (again.split != pairs[i].split) std::abort();
    }
    for (const TextPair& p : pairs) {
      if (p.source.empty() || p.target.empty() || p.source.size() > 200 || p.target.size() > 200) std::abort();
      for (const auto& sentence : document_of(p.target)) {
        if (sentence.empty()) std::abort();
        for (const std::string& word : sentence)
          if (word.empty()) std::abort();
      }
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file && e.kind() != ErrorKind::usage) std::abort();
  }
}

}  // namespace

FUZZ_TARGET(pairs) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, "fuzz", {});
  check(text, "fuzz.csv", document_format());
  PairsFormat last = document_format();
  last.source = "last";
  check(text, "fuzz", last);
  PairsFormat summaries = summary_format();
  summaries.split = "1";
  check(text, "fuzz", summaries);
  check(text, "fuzz.csv", summaries);
  check(text, "fuzz.jsonl", summary_format());
  return 0;
}
