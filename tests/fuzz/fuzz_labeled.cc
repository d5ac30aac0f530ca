// SPDX-License-Identifier: Apache-2.0
// Any text is labeled sentences or is refused with Error(input_file); what was read makes a lexicon that survives its
// own text. Any text as a lexicon's is one whose text reads back, or is refused.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/data/corpus/labeled.h"
#include "core/data/tokens/lexicon.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/text_reader.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

void read_back(const Lexicon& lexicon) {
  const Lexicon again = Lexicon::from_lines(lexicon.lines(), "fuzz");
  if (again.lines() != lexicon.lines() || again.size() != lexicon.size()) std::abort();
}

std::vector<LabeledSentence> sentences_in(RecordFile file, const LabeledLimits& limits) {
  LabeledReader reader(limits);
  reader.index(file);
  std::vector<LabeledSentence> sentences;
  file.for_each([&](std::int64_t, std::string_view record) {
    sentences.push_back(reader.sentence_in(file, record));
  });
  return sentences;
}

// The same sentences from a file that is read in parts.
void check_records(std::string_view text) {
  const std::vector<LabeledSentence> held = sentences_in(RecordFile(text, "fuzz"), {}),
                                     parts = sentences_in(testing::read_in_parts(text), {});
  if (parts.size() != held.size()) std::abort();
  for (std::size_t i = 0; i < held.size(); ++i)
    if (parts[i].tokens != held[i].tokens || parts[i].labels != held[i].labels) std::abort();
}

}  // namespace

FUZZ_TARGET(labeled) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    Lexicon::Counts counts;
    for (const LabeledSentence& s : sentences_in(RecordFile(text, "fuzz"), {.max_tokens = 1000, .max_length = 50})) {
      if (s.tokens.empty() || s.tokens.size() != s.labels.size() || s.tokens.size() > 50) std::abort();
      for (const std::string& token : s.tokens) ++counts[token];
    }
    read_back(Lexicon::of(counts, 1, Lexicon::k_max_entries));
    check_records(text);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  try {
    read_back(Lexicon::from_lines(text, "fuzz"));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  return 0;
}
