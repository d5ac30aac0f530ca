// SPDX-License-Identifier: Apache-2.0
// The rows of each kind of data, in the splits of its task, for the checks they have in common.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/support/median.h"
#include "frontends/data/csv.h"
#include "frontends/data/documents.h"
#include "frontends/data/labelled.h"
#include "frontends/data/lexicon.h"
#include "frontends/data/lines.h"
#include "frontends/data/pairs.h"
#include "frontends/data/row_checks.h"
#include "frontends/data/shuffle.h"
#include "frontends/data/tokenizer.h"
#include "frontends/model/tasks/forecast_series.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_shown = 5;

// What the readers refuse is a finding like the others.
DataCheck checked(const std::function<void(DataChecker&)>& check) {
  DataChecker checker;
  try {
    check(checker);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file && e.kind() != ErrorKind::usage) throw;
    checker.error("file", e.what());
  }
  return checker.take();
}

std::vector<Split> splits_of(const SplitRows& rows, std::size_t n) {
  std::vector<Split> list(n, Split::train);
  for (const Split split : {Split::validation, Split::test})
    for (const std::int64_t row : rows[static_cast<std::size_t>(split)]) list[static_cast<std::size_t>(row)] = split;
  return list;
}

void count_rows(DataChecker& c, const std::vector<CheckedRow>& rows) {
  std::array<double, 3> n{};
  for (const CheckedRow& row : rows) ++n[static_cast<std::size_t>(row.split)];
  for (std::size_t split = 0; split < n.size(); ++split)
    c.figure("rows in " + std::string(k_split_names[split]), n[split]);
  for (std::size_t split = 1; split < n.size(); ++split)
    if (n[split] == 0) c.warn("file", std::string(k_split_names[split]) + " has no row");
}

// Cells that must be numbers; the first ones that are not, with the reader's words.
void check_numbers(DataChecker& c, const CsvTable& table, std::span<const std::size_t> columns,
                   CsvTable::Missing missing) {
  std::int64_t bad = 0, empty = 0;
  std::string first;
  for (std::size_t r = 0; r < table.n_rows(); ++r)
    for (const std::size_t k : columns) {
      try {
        empty += std::isnan(table.number(r, k, missing));
      } catch (const Error& e) {
        if (bad++ < static_cast<std::int64_t>(k_shown)) first += (first.empty() ? "" : "; ") + std::string(e.what());
      }
    }
  c.figure("numbers missing", static_cast<double>(empty));
  c.figure("not numbers, NaN or infinite", static_cast<double>(bad));
  if (bad > 0) c.error("numbers", std::to_string(bad) + " are missing, NaN, infinite or no numbers: " + first);
}

}  // namespace

DataCheck check_data(const LanguageModelOptions& o, std::string_view text, const std::string& name) {
  return checked([&](DataChecker& c) {
    // By bytes; the task itself cuts by characters where these are its tokens.
    std::size_t cut = text.size() - static_cast<std::size_t>(part_of(static_cast<std::int64_t>(text.size()), o.held_out,
                                                                     "held_out"));
    while (cut < text.size() && cut > 0 && (text[cut] & 0xC0) == 0x80) ++cut;
    std::vector<CheckedRow> rows;
    std::int64_t empty = 0;
    for_each_line(text, name, [&](std::string_view line, std::size_t number) {
      const std::string content(line);
      if (content.find_first_not_of(" \t") == std::string::npos) ++empty;
      else
        rows.push_back({content, static_cast<std::int64_t>(line.size()), number,
                        static_cast<std::size_t>(line.data() - text.data()) < cut ? Split::train : Split::validation});
    });
    c.figure("lines", static_cast<double>(rows.size()));
    c.figure("empty lines", static_cast<double>(empty));
    if (empty > static_cast<std::int64_t>(rows.size()))
      c.warn("empty lines", std::to_string(empty) + " beside " + std::to_string(rows.size()) + " others");
    c.lengths(rows, "bytes a line");
    // Short lines (names, refrains, blanks) come again in every text.
    constexpr std::int64_t k_telling = 40;
    std::erase_if(rows, [](const CheckedRow& row) { return row.length < k_telling; });
    c.duplicates(rows);
    const Tokenizer tokenizer =
        Tokenizer::train(o.tokens, std::vector{text.substr(0, cut)}, {o.vocabulary, o.min_count}, name);
    std::array<DataChecker::Known, 3> tokens;
    for (const std::size_t part : {std::size_t{0}, std::size_t{1}})
      for (const std::int32_t id : tokenizer.encode(part == 0 ? text.substr(0, cut) : text.substr(cut), name))
        ++(id == tokenizer.unknown() ? tokens[part].unknown : tokens[part].known);
    c.vocabulary(tokens, tokenizer.size());
  });
}

namespace {

// One of the columns of a forecast; `of` and `in` name it behind a figure and before a finding where there are several.
void check_series(DataChecker& c, const CsvTable& table, std::size_t column, const std::string& of,
                  const std::string& in) {
  constexpr double k_far = 10;  // times the median distance from the median: 6.7 deviations of a normal one
  constexpr double k_many_gaps = 0.1;
  std::vector<double> values;
  for (std::size_t r = 0; r < table.n_rows(); ++r) {
    const double value = table.number(r, column, CsvTable::Missing::as_nan);
    if (!std::isnan(value)) values.push_back(value);
  }
  const double gaps = 1 - static_cast<double>(values.size()) / static_cast<double>(table.n_rows());
  if (gaps > k_many_gaps)
    c.warn("numbers", in + percent(gaps) + " of the values are missing: each is read as the one before it");
  if (values.empty()) return;
  const double middle = median(values);
  std::vector<double> distances;
  for (const double v : values) distances.push_back(std::fabs(v - middle));
  const double spread = median(distances);
  const auto far = std::count_if(distances.begin(), distances.end(), [&](double d) { return d > k_far * spread; });
  c.figure("median" + of, middle);
  c.figure("lowest" + of, *std::min_element(values.begin(), values.end()));
  c.figure("highest" + of, *std::max_element(values.begin(), values.end()));
  if (spread == 0) c.warn("numbers", in + "most values are " + number_text(middle) + ": there is little to learn");
  else if (far > 0)
    c.warn("numbers", in + std::to_string(far) + " values lie further from the median " + number_text(middle) +
                          " than 10 times the median distance " + number_text(spread));
}

}  // namespace

DataCheck check_data(const ForecastOptions& o, std::string_view csv, const std::string& name) {
  return checked([&](DataChecker& c) {
    const CsvTable table = CsvTable::parse(csv, name);
    std::vector<std::size_t> columns;
    for (const std::string& column : columns_of(o)) columns.push_back(table.column(column));
    c.figure("rows", static_cast<double>(table.n_rows()));
    c.empty_lines(csv, 0);
    check_numbers(c, table, columns, CsvTable::Missing::as_nan);
    for (const std::size_t column : columns) {
      const std::string of = columns.size() > 1 ? table.column_name(column) : "";
      check_series(c, table, column, of.empty() ? "" : " of " + of, of.empty() ? "" : of + ": ");
    }
  });
}

DataCheck check_data(const ClassifyOptions& o, std::string_view csv, const std::string& name) {
  return checked([&](DataChecker& c) {
    const CsvTable table = CsvTable::parse(csv, name);
    const std::size_t label_column = table.n_columns() - 1;
    c.empty_lines(csv, 0);
    std::vector<std::size_t> columns(table.n_columns());
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    check_numbers(c, table, columns, CsvTable::Missing::refused);
    const auto n = static_cast<std::int64_t>(table.n_rows()), held = part_of(n, o.held_out, "held_out");
    const std::vector<std::int64_t> order = permutation(n, o.split_seed, 0);
    std::vector<CheckedRow> rows;
    std::map<std::string, std::array<std::int64_t, 3>> labels;
    for (std::int64_t k = 0; k < n; ++k) {  // the task's held-out part is validation and test
      const auto r = static_cast<std::size_t>(order[static_cast<std::size_t>(k)]);
      const Split split = k < held ? Split::validation : Split::train;
      CheckedRow& row = rows.emplace_back(CheckedRow{{}, static_cast<std::int64_t>(label_column), r + 1, split});
      for (std::size_t f = 0; f < label_column; ++f) row.content += number_text(table.number(r, f)) + ",";
      ++labels[number_text(table.number(r, label_column))][static_cast<std::size_t>(split)];
    }
    std::sort(rows.begin(), rows.end(), [](const CheckedRow& a, const CheckedRow& b) { return a.line < b.line; });
    c.figure("rows in training", static_cast<double>(n - held));
    c.figure("rows held out", static_cast<double>(held));
    c.duplicates(rows);
    c.labels(labels);
    std::size_t constant = 0;
    for (std::size_t f = 0; f < label_column; ++f) {
      bool same = true;
      for (std::size_t r = 1; r < table.n_rows() && same; ++r) same = table.number(r, f) == table.number(0, f);
      constant += same;
    }
    c.figure("columns that never change", static_cast<double>(constant));
  });
}

DataCheck check_data(const LabelOptions& o, std::string_view text, const std::string& name) {
  return checked([&](DataChecker& c) {
    c.empty_lines(text, 1);  // one ends a sentence
    const std::vector<LabelledSentence> sentences = read_labelled(text, name);
    const SplitRows split_rows =
        random_splits(static_cast<std::int64_t>(sentences.size()), o.validation, o.test, o.split_seed);
    const std::vector<Split> splits = splits_of(split_rows, sentences.size());
    std::vector<CheckedRow> rows;
    std::map<std::string, std::array<std::int64_t, 3>> labels;
    Lexicon::Counts counts;
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      const LabelledSentence& s = sentences[i];
      CheckedRow& row =
          rows.emplace_back(CheckedRow{{}, static_cast<std::int64_t>(s.tokens.size()), s.line, splits[i]});
      for (const std::string& token : s.tokens) row.content += token + "\t";
      for (const std::string& label : s.labels) ++labels[label][static_cast<std::size_t>(splits[i])];
      if (splits[i] == Split::train)
        for (const std::string& token : s.tokens) ++counts[token];
    }
    const Lexicon lexicon = Lexicon::of(counts, o.min_count, static_cast<std::size_t>(o.vocabulary));
    std::array<DataChecker::Known, 3> tokens;
    for (std::size_t i = 0; i < sentences.size(); ++i)
      for (const std::string& token : sentences[i].tokens) {
        DataChecker::Known& part = tokens[static_cast<std::size_t>(splits[i])];
        ++(lexicon.id(token) == lexicon.size() ? part.unknown : part.known);
      }
    count_rows(c, rows);
    c.lengths(rows, "tokens");
    c.duplicates(rows);
    c.vocabulary(tokens, lexicon.size());
    c.labels(labels);
  });
}

DataCheck check_data(const TranslateOptions& o, std::string_view text, const std::string& name) {
  return checked([&](DataChecker& c) {
    c.empty_lines(text, 0);
    const std::vector<TextPair> pairs = read_pairs(text, name);
    const SplitRows split_rows =
        random_splits(static_cast<std::int64_t>(pairs.size()), o.validation, o.test, o.split_seed);
    const std::vector<Split> splits = splits_of(split_rows, pairs.size());
    std::vector<CheckedRow> rows;
    for (std::size_t i = 0; i < pairs.size(); ++i)
      rows.push_back({pairs[i].source, static_cast<std::int64_t>(pairs[i].source.size() + pairs[i].target.size()),
                      pairs[i].line, splits[i]});
    count_rows(c, rows);
    c.lengths(rows, "bytes a pair");
    c.duplicates(rows);
    const bool pieces = o.tokens == "words" || o.tokens == "bpe";  // a blank stays with the word after it
    for (const auto& [side, prefix] :
         {std::pair(&TextPair::source, "source "), std::pair(&TextPair::target, "target ")}) {
      std::vector<std::string> texts;
      for (const TextPair& pair : pairs) texts.push_back((pieces ? " " : "") + pair.*side);
      std::vector<std::string_view> train;
      for (const std::int64_t row : split_rows[0]) train.push_back(texts[static_cast<std::size_t>(row)]);
      const Tokenizer tokenizer = Tokenizer::train(o.tokens, train, {o.vocabulary, o.min_count}, name);
      std::array<DataChecker::Known, 3> tokens;
      for (std::size_t i = 0; i < texts.size(); ++i)
        for (const std::int32_t id : tokenizer.encode(texts[i], name)) {
          DataChecker::Known& part = tokens[static_cast<std::size_t>(splits[i])];
          ++(id == tokenizer.unknown() ? part.unknown : part.known);
        }
      c.vocabulary(tokens, tokenizer.size(), prefix);
    }
  });
}

DataCheck check_data(const DocumentOptions& o, std::string_view text, const std::string& name) {
  return checked([&](DataChecker& c) {
    c.empty_lines(text, 0);
    const std::vector<TextPair> lines = read_pairs(text, name, {.max_side = std::size_t{1} << 20});
    const SplitRows split_rows =
        random_splits(static_cast<std::int64_t>(lines.size()), o.validation, o.test, o.split_seed);
    const std::vector<Split> splits = splits_of(split_rows, lines.size());
    std::vector<CheckedRow> rows;
    std::vector<std::vector<std::string>> words(lines.size());
    std::map<std::string, std::array<std::int64_t, 3>> labels;
    Lexicon::Counts counts;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const std::vector<std::string>& sentence : document_of(lines[i].target))
        words[i].insert(words[i].end(), sentence.begin(), sentence.end());
      rows.push_back({lines[i].target, static_cast<std::int64_t>(words[i].size()), lines[i].line, splits[i]});
      ++labels[lines[i].source][static_cast<std::size_t>(splits[i])];
      if (splits[i] == Split::train)
        for (const std::string& word : words[i]) ++counts[word];
    }
    const Lexicon lexicon = Lexicon::of(counts, o.min_count, static_cast<std::size_t>(o.vocabulary));
    std::array<DataChecker::Known, 3> tokens;
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (const std::string& word : words[i]) {
        DataChecker::Known& part = tokens[static_cast<std::size_t>(splits[i])];
        ++(lexicon.id(word) == lexicon.size() ? part.unknown : part.known);
      }
    count_rows(c, rows);
    c.lengths(rows, "words");
    c.duplicates(rows);
    c.vocabulary(tokens, lexicon.size());
    c.labels(labels);
  });
}

}  // namespace unroll
