// SPDX-License-Identifier: Apache-2.0
// Checks of text for a language model. Memory holds only counts, and a few numbers per line.
#include <algorithm>

#include "core/data/tokens/tokens.h"
#include "core/support/text/counted.h"
#include "core/support/text/utf8.h"
#include "core/tasks/check/text_checks.h"

namespace unroll {

namespace {

// Regions of a text by bytes; the task itself splits by characters for character tokens.
struct TextRegion {
  std::shared_ptr<const Vfs::Reader> file;
  std::string name;
  std::size_t begin, end;
  Split split;
};
std::vector<TextRegion> regions_of(const LanguageModelOptions& o, const std::shared_ptr<const Vfs::Reader>& file,
                                   const std::string& name) {
  const std::size_t size = file->size();
  const auto cut = [&](std::size_t end, const SplitSource& source, const char* key) {
    const std::size_t part = source.file ? 0 : part_of(static_cast<std::int64_t>(size), source.share, key);
    std::size_t at = end - std::min(part, end);
    for (char c = 0; at > 0 && at < end; ++at) {
      file->read_at(at, std::as_writable_bytes(std::span(&c, 1)));
      if (!continues_character(c)) break;
    }
    return at;
  };
  const std::size_t test = cut(size, o.test, "test"), validation = cut(test, o.validation, "validation");
  std::vector<TextRegion> regions{{file, name, 0, validation, Split::train}};
  if (o.validation.file)
    regions.push_back({o.validation.file, o.validation.name, 0, o.validation.file->size(), Split::validation});
  else regions.push_back({file, name, validation, test, Split::validation});
  if (o.test.file) regions.push_back({o.test.file, o.test.name, 0, o.test.file->size(), Split::test});
  else regions.push_back({file, name, test, size, Split::test});
  return regions;
}

}  // namespace

DataCheck check_data(const LanguageModelOptions& o, DataSource from, const std::string& name) {
  return checked([&](DataChecker& c) {
    constexpr std::size_t k_block = std::size_t{1} << 18;
    const std::vector<TextRegion> regions = regions_of(o, from.file, name);
    std::vector<CheckedRow> rows;
    std::int64_t empty = 0;
    RecordFile lines(from.file, name, o.memory_limit);
    for (const SplitSource* own : {&o.validation, &o.test})
      if (own->file) lines.append(own->file, own->name);
    const bool is_text = o.tokens != "bytes";
    for (std::size_t f = 0; f < lines.n_files(); ++f) {
      if (is_text) lines.require_text_at_start(f);
      lines.for_each_line(
          [&](const Line& line) {
            if (is_text) require_utf8(line, lines.name(f));
            if (line.text.find_first_not_of(" \t") == std::string_view::npos) return void(++empty);
            Split split = f == 0 ? Split::train : f + 1 == lines.n_files() && o.test.file ? Split::test
                                                                                          : Split::validation;
            for (const TextRegion& r : regions)
              if (f == 0 && r.file == from.file && line.at >= r.begin && line.at < r.end) split = r.split;
            rows.push_back({content_of(line.text), std::ssize(line.text), line.number, split});
          },
          f);
    }
    c.figure("lines", static_cast<double>(rows.size()));
    c.figure("empty lines", static_cast<double>(empty));
    if (empty > std::ssize(rows))
      c.warn("empty lines", counted_are(empty, "line") + " empty, " + counted_are(rows.size(), "line") + " not");
    c.lengths(rows, "bytes per line");
    // Short lines (names, refrains, blanks) recur in every text.
    constexpr std::int64_t k_telling = 40;
    std::erase_if(rows, [](const CheckedRow& row) { return row.length < k_telling; });
    c.duplicates(rows);
    const auto blocks = [&](const TextRegion& r) { return TextBlocks(r.file, r.begin, r.end, k_block, is_text); };
    const Tokenizer::Texts train = [&](const auto& take) {
      blocks(regions[0]).for_each_text(take);
    };
    const Tokenizer tokenizer = Tokenizer::train(o.tokens, train, {o.vocabulary, o.min_count}, name);
    DataChecker::BySplit known;
    for (const TextRegion& r : regions)
      blocks(r).for_each_text([&](std::string_view text) {
        count_ids(known[r.split], tokenizer, text, r.name);
      });
    c.vocabulary(known, tokenizer.size());
  });
}

}  // namespace unroll
