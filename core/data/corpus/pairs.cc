// SPDX-License-Identifier: Apache-2.0
#include "core/data/corpus/pairs.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/data/file/json_line.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

bool is_one_of(const std::string& cell, const std::vector<std::string_view>& words) {
  return std::find(words.begin(), words.end(), lowered(cell)) != words.end();
}

bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

PairsFormat document_format() {
  PairsFormat format;
  format.source_words = {"label", "labels", "class", "category", "sentiment", "y"};
  format.target_words = {"text", "review", "document", "content", "sentence", "comment", "message", "body"};
  format.expected = "expected a label, one tab and a text";
  format.naming = "Set data.label and data.text to their columns";
  format.trims_source = true;
  format.target_lines = true;
  return format;
}

PairsFormat summary_format() {
  PairsFormat format;
  format.source_words = {"source", "text", "article", "document", "body", "content", "description", "input", "src"};
  format.target_words = {"target", "summary", "highlights", "abstract", "headline", "title",
                         "synopsis", "output", "tgt"};
  format.naming = "Set data.source and data.target to their columns";
  format.joins_lines = true;
  return format;
}

PairsReader::PairsReader(std::string name, PairsFormat format, PairsLimits limits)
    : name_(std::move(name)), format_(std::move(format)), limits_(limits) {}

void PairsReader::begin_file(std::string name) {
  name_ = std::move(name);
  first_ = true;
}

std::optional<std::vector<std::string>> PairsReader::cells_of(std::string_view line) const {
  if (!quoted_) return cells_between(line, format_.csv.separator);
  std::vector<std::string> cells;
  return split_csv_line(line, format_.csv.separator, cells) == std::string::npos ? std::optional(std::move(cells))
                                                                                 : std::nullopt;
}

std::size_t PairsReader::place_of(const std::string& column, std::size_t otherwise) const {
  if (column.empty()) return otherwise;
  if (column == "first") return 0;
  if (column == "last") return columns_.size() - 1;
  if (has_header_)
    if (const auto at = std::find(columns_.begin(), columns_.end(), column); at != columns_.end())
      return at - columns_.begin();
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), number);
  if (error == std::errc() && end == column.data() + column.size() && number >= 1 && number <= columns_.size())
    return number - 1;
  throw Error(ErrorKind::usage, name_, "has no column " + in_quotes(column),
              "Write a column name of the header, a number from 1, first or last");
}

bool PairsReader::names_sides(const std::vector<std::string>& cells) const {
  const auto has = [&](const std::vector<std::string_view>& words) {
    return std::any_of(cells.begin(), cells.end(), [&](const std::string& cell) { return is_one_of(cell, words); });
  };
  return cells.size() > 1 && has(format_.source_words) && has(format_.target_words);
}

bool PairsReader::is_json(std::string_view first) const {
  return has_ending(name_, {".jsonl", ".JSONL", ".ndjson"}) ||
         (first.starts_with('{') && first.find('\t') == std::string_view::npos && !is_csv_name(name_));
}

// Returns the texts of the members named by `columns_`. A line must have the members of the sides and of the split.
std::vector<std::string> PairsReader::members_in(const Line& line) const {
  std::vector<std::string> cells(columns_.size());
  const std::vector<JsonMember> members = json_members(line.text, name_, line.number);
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (c == source_ || c == target_ || (c == split_ && !format_.split.empty()))
      cells[c] = text_of_member(members, columns_[c], name_, line.number);
  return cells;
}

char PairsReader::separator_in(std::string_view first) const {
  if (format_.csv.separator != 0) return format_.csv.separator;
  const char seen = separator_of(first);
  std::vector<std::string> cells;
  const bool named = seen != '\t' && split_csv_line(first, seen, cells) == std::string::npos && names_sides(cells);
  return seen != '\t' && (named || is_csv_name(name_)) ? seen : '\t';
}

// Determines the format from the first line.
void PairsReader::begin(const Line& line) {
  json_ = is_json(line.text);
  format_.csv.separator = json_ ? '\t' : separator_in(line.text);
  quoted_ = format_.csv.separator != '\t';
  if (!quoted_ && line.text.find('\n') != std::string_view::npos)  // the tab is outside the first line
    refuse_line(name_, line.number, "misplaced quote", k_close_quotes);
  if (json_) {
    columns_ = first_members(line);
  } else {
    std::optional<std::vector<std::string>> cells = cells_of(line.text);
    if (!cells) refuse_line(name_, line.number, "misplaced quote", k_close_quotes);
    columns_ = std::move(*cells);
  }
  using Header = CsvFormat::Header;
  has_header_ = json_ || format_.csv.header == Header::yes ||
                (format_.csv.header == Header::automatic && names_sides(columns_));
  if (columns_.size() >= 2) place_columns();  // otherwise refused like any other line
}

// Returns the names of the members that may be columns: texts, and sides, which are refused when they are read.
std::vector<std::string> PairsReader::first_members(const Line& line) const {
  const auto is_side = [&](const std::string& member) {
    return member == format_.source || member == format_.target || is_one_of(member, format_.source_words) ||
           is_one_of(member, format_.target_words);
  };
  std::vector<std::string> names;
  std::string others;
  for (JsonMember& member : json_members(line.text, name_, line.number)) {
    if (!member.is_text() && !is_side(member.name)) others += "; " + in_quotes(member.name) + " is " + member.kind;
    else names.push_back(std::move(member.name));
  }
  if (names.size() < 2)
    refuse_line(name_, line.number, "expected an object with two texts" + others,
                "Write {\"text\": \"...\", \"summary\": \"...\"}");
  return names;
}

// Determines the columns of source, target and split.
void PairsReader::place_columns() {
  for (std::size_t c = 0; has_header_ && c < columns_.size(); ++c) {
    if (!json_) columns_[c] = trimmed(columns_[c]);
    if (is_one_of(columns_[c], format_.source_words)) source_ = c;
    if (is_one_of(columns_[c], format_.target_words)) target_ = c;
  }
  if (!format_.split.empty()) {
    split_ = place_of(format_.split, 0);
    if (!has_header_ && split_ < 2) target_ = 2;  // the sides are the first two other columns
    if (!has_header_ && split_ == 0) source_ = 1;
  }
  source_ = place_of(format_.source, source_);
  target_ = place_of(format_.target, target_);
  if (!format_.split.empty() && (split_ == source_ || split_ == target_ || columns_.size() < 3))
    throw Error(ErrorKind::usage, name_,
                "the column of the splits must be a third one beside source and target; got column " +
                    std::to_string(split_ + 1) + " of " + std::to_string(columns_.size()),
                "Name it with data.split, the others with data.source and data.target");
  if (source_ != target_) return;
  // If the only named side is in the default place of the other, swap them.
  if (format_.target.empty()) target_ = source_ == 0 ? 1 : 0;
  else if (format_.source.empty()) source_ = target_ == 0 ? 1 : 0;
  else
    throw Error(ErrorKind::usage, name_, "both sides name column " + std::to_string(source_ + 1),
                "Name two different columns");
}

bool PairsReader::joins(const Line& line) const {
  return begun_ ? quoted_ : !is_json(line.text) && separator_in(line.text) != '\t';
}

// Refuses a row of `n` cells; 0 means a misplaced quote.
void PairsReader::refuse_row(const Line& line, std::size_t n) const {
  if (quoted_ && n == 0) refuse_line(name_, line.number, "misplaced quote", k_close_quotes);
  if (n == columns_.size() && (quoted_ || n > 2))
    refuse_line(name_, line.number,
                counted(n, "column") + ", and no header that names a " + std::string(format_.source_words[0]) +
                    " and a " + std::string(format_.target_words[0]),
                format_.naming);
  if (quoted_)
    refuse_line(name_, line.number,
                counted(n, "cell") + ", but the first line has " + std::to_string(columns_.size()),
                "Quote cells that contain the separator: \"like, this\"");
  refuse_line(name_, line.number,
              std::string(format_.expected) + "; got " + in_quotes(line.text),
              "Write one tab. For a CSV, use a name that ends in .csv");
}

// Splits a line into as many cells as the first line has.
std::vector<std::string> PairsReader::cells_in(const Line& line) const {
  if (json_) return members_in(line);
  std::optional<std::vector<std::string>> cells = cells_of(line.text);
  if (!cells || cells->size() != columns_.size() || cells->size() < 2 ||
      (cells->size() > (format_.split.empty() ? 2U : 3U) && !has_header_ && format_.source.empty() &&
       format_.target.empty()))
    refuse_row(line, cells ? cells->size() : 0);
  return std::move(*cells);
}

// True if the first line of a further file repeats the header. Throws when the headers differ or only one file has one.
bool PairsReader::repeats_header(const Line& line) const {
  std::vector<std::string> cells = cells_of(line.text).value_or(std::vector<std::string>());
  for (std::string& cell : cells) cell = trimmed(cell);
  if (has_header_ && cells == columns_) return true;
  const bool is_other = format_.csv.header != CsvFormat::Header::no && names_sides(cells);
  if (has_header_ || is_other)
    refuse_line(name_, line.number,
                (is_other ? "the file has the header " + listed(cells) : std::string("the file has no header")) +
                    "; the other file has " + (has_header_ ? listed(columns_) : "no header"),
                "All files need the same columns, in the same order");
  return false;
}

std::optional<TextPair> PairsReader::read(const Line& line) {
  require_utf8(line, name_);
  if (line.text.empty()) return std::nullopt;
  if (std::exchange(first_, false)) {
    if (!std::exchange(begun_, true)) {
      begin(line);
      if (has_header_ && !json_) return std::nullopt;
    } else if (!json_ && repeats_header(line)) {
      return std::nullopt;
    }
  }
  std::vector<std::string> cells = cells_in(line);
  TextPair pair = pair_of(cells, line.number);
  for (const auto& [side, what] : {std::pair(&pair.source, format_.source_words[0]),
                                   std::pair(&pair.target, format_.target_words[0])}) {
    if (side->empty()) refuse_line(name_, line.number, "the " + std::string(what) + " is empty", "Remove the line");
    if (side->find('\n') != std::string::npos && !(side == &pair.target && format_.target_lines))
      refuse_line(name_, line.number, "the " + std::string(what) + " has a line break", "Write it on one line");
    if (side->size() > limits_.max_side)
      refuse_line(name_, line.number,
                  "the " + std::string(what) + " has more than " + std::to_string(limits_.max_side) + " bytes");
  }
  if (++n_ > limits_.max_pairs)
    refuse_line(name_, line.number, "more than " + std::to_string(limits_.max_pairs) + " pairs");
  return pair;
}

TextPair PairsReader::pair_in(const RecordFile& file, std::string_view record) const {
  const std::string row = quoted_ ? first_csv_row(record) : std::string(first_line(record));
  if (json_) {
    try {
      std::vector<std::string> cells = members_in({row, 0, 0});
      return pair_of(cells, 0);
    } catch (const Error&) {
      file.refuse_changed();
    }
  }
  std::optional<std::vector<std::string>> cells = cells_of(row);
  if (!cells || cells->size() != columns_.size()) file.refuse_changed();
  return pair_of(*cells, 0);
}

TextPair PairsReader::pair_of(std::vector<std::string>& cells, std::size_t line) const {
  for (const std::size_t side : {source_, target_})
    if (format_.joins_lines) std::replace(cells[side].begin(), cells[side].end(), '\n', ' ');
  if (format_.trims_source) cells[source_] = std::string(trimmed(cells[source_]));
  return {std::move(cells[source_]), std::move(cells[target_]),
          format_.split.empty() ? "" : std::move(cells[split_]), line};
}

std::string PairsReader::found(std::int64_t n_rows) const {
  std::string text = counted(n_rows, "row") + ", ";
  if (!has_header_) return text + "no header, " + counted(columns_.size(), "column");
  text += json_ ? "JSON lines, members " : "header found, columns ";
  return text + columns_[source_] + ", " + columns_[target_];
}

namespace {

// Rows are lines, unless the reader joins them.
void for_each_row(const Lines& lines, const PairsReader& reader, const std::function<void(const Line&)>& take) {
  CsvRows rows;
  bool open = false;
  lines([&](const Line& line) {
    if (!open && !reader.joins(line)) return take(line);
    const std::optional<Line> row = rows.add(line);
    open = !row;
    if (row) take(*row);
  });
  if (const std::optional<Line> row = rows.rest()) take(*row);
}

}  // namespace

std::vector<TextPair> read_pairs(std::string_view text, const std::string& name, const PairsLimits& limits,
                                 const PairsFormat& format) {
  PairsReader reader(name, format, limits);
  std::vector<TextPair> pairs;
  for_each_row(lines_of(text), reader, [&](const Line& row) {
    if (std::optional<TextPair> pair = reader.read(row)) pairs.push_back(std::move(*pair));
  });
  if (pairs.empty()) throw Error(ErrorKind::input_file, name, "has no pairs of texts");
  return pairs;
}

void index_pairs(RecordFile& file, PairsReader& reader) {
  for (std::size_t f = 0; f < file.n_files(); ++f) {
    const std::int64_t before = file.size();
    if (f > 0) reader.begin_file(file.name(f));
    for_each_row(file.lines(f), reader, [&](const Line& row) {
      if (reader.read(row)) file.add(row.at);
    });
    if (file.size() == before) throw Error(ErrorKind::input_file, file.name(f), "has no pairs of texts");
  }
}

}  // namespace unroll
