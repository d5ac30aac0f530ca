// SPDX-License-Identifier: Apache-2.0
// Checks of text: lines of a language model, labeled tokens, pairs, documents. Nothing but counts, and a few numbers
// for each row, is held.
#include <algorithm>
#include <array>
#include <optional>

#include "core/support/text/counted.h"
#include "frontends/data/file/held_text.h"
#include "frontends/data/text/documents.h"
#include "frontends/data/text/labelled.h"
#include "frontends/data/text/pairs.h"
#include "frontends/data/tokens/lexicon.h"
#include "frontends/data/tokens/tokenizer.h"
#include "frontends/data/tokens/tokens.h"
#include "frontends/tasks/common/data_rows.h"
#include "frontends/tasks/decode/pair_text.h"
#include "frontends/tasks/document/document_network.h"

namespace unroll {

namespace {

using Known = std::array<DataChecker::Known, 3>;

RecordFile records_at(std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TextRowsOptions& o) {
  return records_of(RecordFile(std::move(file), name, o.memory_limit), o.validation, o.test);
}

void count_ids(DataChecker::Known& known, const Tokenizer& tokenizer, std::string_view text, const std::string& name) {
  for (const std::int32_t id : tokenizer.encode(text, name))
    ++(id == tokenizer.unknown() ? known.unknown : known.known);
}

// Regions of a text by bytes; the task itself cuts by characters where these are its tokens.
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
    const auto part =
        source.file ? 0 : static_cast<std::size_t>(part_of(static_cast<std::int64_t>(size), source.share, key));
    std::size_t at = end - std::min(part, end);
    for (std::byte b{}; at > 0 && at < end; ++at) {
      file->read_at(at, {&b, 1});
      if ((b & std::byte{0xC0}) != std::byte{0x80}) break;
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

// Whether rows of this file may go on over several lines.
bool joins_lines(const RecordFile& file, const PairsReader& reader) {
  std::optional<bool> joins;
  file.for_each_line([&](const Line& line) {
    if (!joins && !line.text.empty()) joins = reader.joins(line);
  });
  return joins.value_or(false);
}

}  // namespace

DataCheck check_data(const LanguageModelOptions& o, std::shared_ptr<const Vfs::Reader> file, const std::string& name) {
  return checked([&](DataChecker& c) {
    constexpr std::size_t k_block = std::size_t{1} << 18;
    const std::vector<TextRegion> regions = regions_of(o, file, name);
    std::vector<CheckedRow> rows;
    std::int64_t empty = 0;
    RecordFile lines(file, name, o.memory_limit);
    for (const SplitSource* own : {&o.validation, &o.test})
      if (own->file) lines.append(own->file, own->name);
    for (std::size_t f = 0; f < lines.n_files(); ++f)
      lines.for_each_line(
          [&](const Line& line) {
            require_utf8(line, lines.name(f));
            if (line.text.find_first_not_of(" \t") == std::string_view::npos) return void(++empty);
            Split split = f == 0 ? Split::train : f + 1 == lines.n_files() && o.test.file ? Split::test
                                                                                          : Split::validation;
            for (const TextRegion& r : regions)
              if (f == 0 && r.file == file && line.at >= r.begin && line.at < r.end) split = r.split;
            rows.push_back({content_of(line.text), static_cast<std::int64_t>(line.text.size()), line.number, split});
          },
          f);
    c.figure("lines", static_cast<double>(rows.size()));
    c.figure("empty lines", static_cast<double>(empty));
    if (empty > static_cast<std::int64_t>(rows.size()))
      c.warn("empty lines", counted_are(empty, "line") + " empty, " + counted_are(rows.size(), "line") + " not");
    c.lengths(rows, "bytes per line");
    // Short lines (names, refrains, blanks) recur in every text.
    constexpr std::int64_t k_telling = 40;
    std::erase_if(rows, [](const CheckedRow& row) { return row.length < k_telling; });
    c.duplicates(rows);
    const auto blocks = [&](const TextRegion& r) { return TextBlocks(r.file, r.begin, r.end, k_block); };
    const Tokenizer::Texts train = [&](const auto& take) {
      blocks(regions[0]).for_each([&](std::string_view text, std::size_t) { take(text); });
    };
    const Tokenizer tokenizer = Tokenizer::train(o.tokens, train, {o.vocabulary, o.min_count}, name);
    Known known;
    for (const TextRegion& r : regions)
      blocks(r).for_each([&](std::string_view text, std::size_t) {
        count_ids(known[static_cast<std::size_t>(r.split)], tokenizer, text, r.name);
      });
    c.vocabulary(known, tokenizer.size());
  });
}

DataCheck check_data(const LabelOptions& o, std::shared_ptr<const Vfs::Reader> from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_at(std::move(from), name, o);
    c.empty_lines(file, 1);  // one ends a sentence
    index_labelled(file);
    const DataRows data(file, o.validation, o.test, o.split_seed);
    std::vector<CheckedRow> rows;
    std::map<std::string, std::array<std::int64_t, 3>> labels;
    Lexicon::Counts counts;
    data.for_each([&](const DataRows::Row& row) {
      const LabelledSentence s = sentence_in(file, row.record);
      std::string content;
      for (const std::string& token : s.tokens) content += token + "\t";
      rows.push_back({content_of(content), static_cast<std::int64_t>(s.tokens.size()), row.line, row.split});
      for (const std::string& label : s.labels) ++labels[label][static_cast<std::size_t>(row.split)];
      if (row.split == Split::train)
        for (const std::string& token : s.tokens) ++counts[token];
    });
    const Lexicon lexicon = Lexicon::of(counts, o.min_count, static_cast<std::size_t>(o.vocabulary));
    Known known;
    data.for_each([&](const DataRows::Row& row) {
      DataChecker::Known& part = known[static_cast<std::size_t>(row.split)];
      for (const std::string& token : sentence_in(file, row.record).tokens)
        ++(lexicon.id(token) == lexicon.size() ? part.unknown : part.known);
    });
    data.count(c);
    c.lengths(rows, "tokens");
    c.duplicates(rows);
    c.vocabulary(known, lexicon.size());
    c.labels(labels);
  });
}

DataCheck check_data(const TranslateOptions& o, std::shared_ptr<const Vfs::Reader> from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_at(std::move(from), name, o);
    PairsReader reader(name, {});
    c.empty_lines(file, 0, joins_lines(file, reader));
    index_pairs(file, reader);
    const DataRows data(file, o.validation, o.test, o.split_seed);
    std::vector<CheckedRow> rows;
    data.for_each([&](const DataRows::Row& row) {
      const TextPair pair = reader.pair_in(file, row.record);
      rows.push_back({content_of(pair.source), static_cast<std::int64_t>(pair.source.size() + pair.target.size()),
                      row.line, row.split});
    });
    data.count(c);
    c.lengths(rows, "bytes per pair");
    c.duplicates(rows);
    const std::string before = o.tokens == "words" || o.tokens == "bpe" ? " " : "";  // a blank stays with its word
    for (const auto& part : {std::pair(&TextPair::source, "source "), std::pair(&TextPair::target, "target ")}) {
      const auto side = part.first;
      const Tokenizer tokenizer = pair_tokenizer(file, reader, data.train(), {&part.first, 1}, o, o.tokens);
      Known known;
      data.for_each([&](const DataRows::Row& row) {
        count_ids(known[static_cast<std::size_t>(row.split)], tokenizer,
                  before + reader.pair_in(file, row.record).*side, name);
      });
      c.vocabulary(known, tokenizer.size(), part.second);
    }
  });
}

DataCheck check_data(const DocumentOptions& o, std::shared_ptr<const Vfs::Reader> from, const std::string& name) {
  return checked([&](DataChecker& c) {
    RecordFile file = records_at(std::move(from), name, o);
    PairsReader reader(name, document_format(o), {.max_side = std::size_t{1} << 20});
    c.empty_lines(file, 0, joins_lines(file, reader));
    index_pairs(file, reader);
    const DataRows data(file, o.validation, o.test, o.split_seed);
    const auto for_each_word = [&](std::string_view text, const std::function<void(const std::string&)>& see) {
      for (const std::vector<std::string>& sentence : document_of(text))
        for (const std::string& word : sentence) see(word);
    };
    std::vector<CheckedRow> rows;
    std::map<std::string, std::array<std::int64_t, 3>> labels;
    Lexicon::Counts counts;
    data.for_each([&](const DataRows::Row& row) {
      const TextPair pair = reader.pair_in(file, row.record);
      std::int64_t n = 0;
      for_each_word(pair.target, [&](const std::string& word) {
        ++n;
        if (row.split == Split::train) ++counts[word];
      });
      rows.push_back({content_of(pair.target), n, row.line, row.split});
      ++labels[pair.source][static_cast<std::size_t>(row.split)];
    });
    const Lexicon lexicon = Lexicon::of(counts, o.min_count, static_cast<std::size_t>(o.vocabulary));
    Known known;
    data.for_each([&](const DataRows::Row& row) {
      DataChecker::Known& part = known[static_cast<std::size_t>(row.split)];
      for_each_word(reader.pair_in(file, row.record).target, [&](const std::string& word) {
        ++(lexicon.id(word) == lexicon.size() ? part.unknown : part.known);
      });
    });
    data.count(c);
    c.lengths(rows, "words");
    c.duplicates(rows);
    c.vocabulary(known, lexicon.size());
    c.labels(labels);
  });
}

}  // namespace unroll
