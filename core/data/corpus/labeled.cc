// SPDX-License-Identifier: Apache-2.0
#include "core/data/corpus/labeled.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/data/table/csv.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::array<std::string_view, 7> k_token_words = {"token", "tokens", "word", "words", "form", "text", "char"};
constexpr std::array<std::string_view, 14> k_label_words = {"label",    "labels", "tag",     "tags", "ner",
                                                            "ner_tag",  "pos",    "pos_tag", "upos", "iob",
                                                            "ner_tags", "bio",    "chunk",   "class"};
constexpr const char* k_write_columns = "Write a token, a tab and its label on each line";

template <std::size_t N>
std::optional<std::size_t> last_of(const std::vector<std::string>& cells,
                                   const std::array<std::string_view, N>& words) {
  for (std::size_t c = cells.size(); c-- > 0;)
    if (std::find(words.begin(), words.end(), lowered(cells[c])) != words.end()) return c;
  return std::nullopt;
}

// True for O, or a prefix of IOB, BIOES or BILOU before a dash.
bool is_tag(std::string_view label) {
  return label == "O" || (label.size() > 2 && label[1] == '-' && std::string_view("BIESLUM").find(label[0]) < 7);
}

bool is_blank(std::string_view line) { return line.find_first_not_of(' ') == std::string_view::npos; }

}  // namespace

std::optional<std::vector<std::string>> LabeledReader::cells_of(std::string_view line) const {
  std::vector<std::string> cells;
  if (form_.separator == ' ') return words_of(line);
  if (form_.separator != '\t')
    return split_csv_line(line, form_.separator, cells) == std::string::npos ? std::optional(cells) : std::nullopt;
  return cells_between(line, '\t');
}

void LabeledReader::begin(const Line& line, const std::string& name) {
  std::vector<std::string> cells;
  const auto is_header = [&] { return last_of(cells, k_token_words) && last_of(cells, k_label_words); };
  const char seen = separator_of(line.text);
  const bool splits = seen != '\t' && split_csv_line(line.text, seen, cells) == std::string::npos;
  form_.separator = seen == '\t' ? '\t' : splits && (is_csv_name(name) || is_header()) ? seen : ' ';
  cells = cells_of(line.text).value_or(std::vector<std::string>());
  form_.columns = cells.size();
  if (cells.size() < 2) refuse_columns(line, name, cells.size());
  form_.has_header = is_header();
  form_.token = form_.has_header ? *last_of(cells, k_token_words) : 0;
  form_.label = form_.has_header ? *last_of(cells, k_label_words) : cells.size() - 1;
  for (std::size_t c = 0; form_.has_header && c < cells.size(); ++c)
    if (lowered(cells[c]).starts_with("sentence")) form_.sentence = c;
  if (!form_.has_header && cells.size() > 2 && !is_tag(trimmed(cells.back()))) refuse_columns(line, name, cells.size());
}

void LabeledReader::refuse_columns(const Line& line, const std::string& name, std::size_t n) const {
  const std::string got = "; got " + in_quotes(line.text);
  if (form_.columns == n && n > 2) {
    const char* const cut = form_.separator == '\t' ? " -F'\\t'" : "";
    refuse_line(name, line.number,
                counted(n, "column") + ", and neither a header that names a token and a label nor tags such as O and "
                                       "B-LOC in the last one" + got,
                "Add a header such as word and tag, or keep two columns, for example 2 and 4: awk" + std::string(cut) +
                    " '!/^#/ && NF {$0 = $2 \"\\t\" $4} 1' OLD > NEW");
  }
  const bool is_plain = form_.columns <= 2 && n <= 3;
  refuse_line(name, line.number,
              is_plain ? "expected a token, one tab and its label" + got
                       : counted(n, "column") + ", but the first line has " + std::to_string(form_.columns) + got,
              k_write_columns);
}

// Reads a line independently of its neighbors, so a record is read as the file was.
LabeledReader::Row LabeledReader::read(const Line& line, const std::string& name, Token& token) {
  require_utf8(line, name);
  if (is_blank(line.text)) return Row::blank;
  if (line.text.starts_with("-DOCSTART-")) return Row::document;
  const bool may_be_comment = line.text[0] == '#' && line.text.find('\t') == std::string_view::npos;
  if (may_be_comment && form_.separator == 0) return Row::comment;
  const bool is_new = std::exchange(first_, false);
  if (form_.separator == 0) begin(line, name);
  std::optional<std::vector<std::string>> cells = cells_of(line.text);
  if (!cells) refuse_line(name, line.number, "misplaced quote", k_close_quotes);
  if (cells->size() != form_.columns) {
    if (may_be_comment) return Row::comment;
    refuse_columns(line, name, cells->size());
  }
  if (is_new && form_.has_header && last_of(*cells, k_token_words) == form_.token &&
      last_of(*cells, k_label_words) == form_.label)
    return Row::header;
  const auto is_empty = [](const std::string& cell) { return cell.empty(); };
  if (std::all_of(cells->begin(), cells->end(), is_empty)) return Row::blank;
  token = {std::move((*cells)[form_.token]), std::string(trimmed((*cells)[form_.label])),
           form_.sentence ? std::string(trimmed((*cells)[*form_.sentence])) : "", line.at};
  if (token.text.empty() || token.label.empty())
    refuse_line(name, line.number, token.text.empty() ? "the token is empty" : "the label is empty");
  return Row::token;
}

void LabeledReader::take(RecordFile& file, std::size_t f) {
  const std::string& name = file.name(f);
  Token token;
  std::string sentence;
  std::size_t length = 0;
  first_ = true;
  file.lines(f)([&](const Line& line) {
    const Row row = read(line, name, token);
    n_comments_ += row == Row::comment;
    n_documents_ += row == Row::document;
    if (row == Row::blank || row == Row::document) length = 0;
    if (row != Row::token) return;
    if (!token.sentence.empty() && std::exchange(sentence, token.sentence) != token.sentence) length = 0;
    if (length == limits_.max_length)
      refuse_line(name, line.number, "the sentence has more than " + std::to_string(limits_.max_length) + " tokens",
                  "Leave an empty line after each sentence");
    if (++n_tokens_ > limits_.max_tokens)
      refuse_line(name, line.number, "more than " + std::to_string(limits_.max_tokens) + " tokens");
    if (n_tokens_ == 1) {
      first_label_ = token.label;
      first_line_ = line.number;
    }
    n_first_label_ += token.label == first_label_;
    if (length++ == 0) file.add(token.at);
  });
}

void LabeledReader::index(RecordFile& file) {
  for (std::size_t f = 0; f < file.n_files(); ++f) {
    const std::size_t before = n_tokens_;
    take(file, f);
    if (n_tokens_ == before) throw Error(ErrorKind::input_file, file.name(f), "has no sentences");
  }
}

LabeledSentence LabeledReader::sentence_in(const RecordFile& file, std::string_view record) const {
  LabeledReader again = *this;
  LabeledSentence sentence;
  Token token;
  try {
    again.first_ = false;  // no line of a record is a header
    lines_of(record)([&](const Line& line) {
      if (again.read(line, file.name(), token) != Row::token) return;
      sentence.tokens.push_back(std::move(token.text));
      sentence.labels.push_back(std::move(token.label));
    });
  } catch (const Error&) {  // the record was read before
    file.refuse_changed();
  }
  if (sentence.tokens.empty()) file.refuse_changed();
  return sentence;
}

std::string LabeledReader::found() const {
  const char* between = form_.separator == '\t'  ? "tabs"
                        : form_.separator == ' ' ? "blanks"
                        : form_.separator == ',' ? "commas"
                                                 : "semicolons";
  std::string text = counted(form_.columns, "column") + " between " + between + ", token in column " +
                     std::to_string(form_.token + 1) + ", label in column " + std::to_string(form_.label + 1) +
                     (form_.has_header ? ", header found" : ", no header");
  if (form_.sentence) text += ", sentences in column " + std::to_string(*form_.sentence + 1);
  if (n_comments_ > 0) text += "; " + counted(n_comments_, "comment") + " skipped";
  if (n_documents_ > 0) text += "; " + counted(n_documents_, "-DOCSTART- line") + " skipped";
  return text;
}

std::vector<std::string> LabeledReader::warnings() const {
  constexpr std::size_t k_few = 20;  // tokens: each label of a small file may occur once
  if (form_.has_header || n_first_label_ != 1 || n_tokens_ <= k_few) return {};
  return {"line " + std::to_string(first_line_) + " has a label that occurs nowhere else, " +
          in_quotes(first_label_) + ": if the line is a header, remove it"};
}

}  // namespace unroll
