// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/table_rows.h"

#include <algorithm>
#include <cmath>

#include "core/data/dates/date_format.h"
#include "core/data/text/entry_lines.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

void check_scaling(const TableRowsOptions& o, const std::string& task) {
  if (o.normalize && o.divide != 1)
    throw Error(ErrorKind::usage, task, "normalize and divide are both set", "Set only one of the two");
}

}  // namespace

TableRows::TableRows(const TableRowsOptions& options, RecordFile file, TableWords words, const Metadata& fitted)
    : options_(options), batch_(options.batch), words_(std::move(words)), fitted_(fitted),
      file_(records_of(std::move(file), options)),
      reader_(file_.name(), CsvLimits{}.max_columns,
              fitted.empty() ? csv_format(options) : format_as_trained(fitted, Features::of(fitted).columns)) {
  check_scaling(options_, words_.task);
}

void TableRows::read(std::span<const std::string> targets, const TakeCells& take) {
  index_rows(file_, reader_, [&](std::span<const std::string> cells, std::size_t line) {
    if (places_.empty() && fitted_.empty()) choose_columns(targets);
    else if (places_.empty()) find_columns(targets);
    for (const std::size_t c : places_) check_feature(cells[c], line, c);
    for (const std::size_t c : targets_)
      if (is_missing_target(cells[c]))
        reader_.refuse(line, c, "the " + words_.target + " is missing", "Remove the line");
    take(cells, line);
  });
}

void TableRows::draw_splits() {
  rows_ = split_rows(file_, options_);
  if (!fitted_.empty()) return;
  features_.mean.assign(places_.size(), 0.0);
  features_.deviation.assign(places_.size(), 1.0);
  if (!options_.normalize && options_.missing == "error") return;
  FeatureFit fit(places_.size());
  std::vector<double> values(places_.size());
  for_each_record(Split::train, [&](std::string_view record) {
    numbers_in(file_, reader_, record, places_, values);
    fit.add(values);
  });
  fit.put(features_);
}

std::vector<std::string> TableRows::target_names() const {
  std::vector<std::string> names;
  for (const std::size_t c : targets_) names.push_back(reader_.column_name(c));
  return names;
}

std::vector<std::string> TableRows::targets_in(std::string_view record) const {
  const std::vector<std::string> cells = cells_in(file_, reader_, record);
  std::vector<std::string> of_targets;
  for (const std::size_t c : targets_) of_targets.push_back(cells[c]);
  return of_targets;
}

void TableRows::for_each_record(Split split, const std::function<void(std::string_view record)>& take) const {
  file_.for_each(rows(split), [&](std::int64_t, std::string_view record) { take(record); });
}

void TableRows::for_each_row(Split split, const TakeRow& take) const {
  std::vector<double> values(places_.size());
  for_each_record(split, [&](std::string_view record) {
    numbers_in(file_, reader_, record, places_, values);
    take(values, targets_in(record), record);
  });
}

Tensor TableRows::inputs(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                         const std::function<void(std::int64_t b, std::string_view record)>& take) const {
  const std::vector<std::int64_t>& from = rows(split);
  const std::int64_t n = n_examples(split), begin = index * batch_, B = batch_rows(split, index);
  const std::int64_t T = features_.steps, I = features_.width();
  Tensor x(DType::f32, {T, B, I});
  const auto xs = x.values<float>();
  std::vector<double> values(places_.size());
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t k = split == Split::train ? shuffle_.order(n, seed, epoch)[begin + b] : begin + b;
    const std::string record = file_.text(from[k]);
    numbers_in(file_, reader_, record, places_, values);
    features_.apply(values);
    put_sequence(values, xs, b, B, I);
    take(b, record);
  }
  return x;
}

void TableRows::put(Metadata& m) const {
  put_table_form(m, reader_, options_);
  features_.put(m);
}

std::vector<std::string> TableRows::notes_on(const std::string& of_targets) const {
  std::vector<std::string> notes{file_.name() + ": " + reader_.found(file_.size()) + "; " + of_targets + ", " +
                                 counted(places_.size(), "feature") + " in " + counted(features_.steps, "step")};
  notes.insert(notes.end(), reader_.notes().begin(), reader_.notes().end());
  if (n_missing_ > 0)
    notes.push_back(file_.name() + ": " + std::to_string(n_missing_) + " missing values filled (data.missing = \"" +
                    options_.missing + "\")");
  return notes;
}

void TableRows::choose_columns(std::span<const std::string> targets) {
  const auto is_target = [&](std::size_t c) { return std::ranges::find(targets_, c) != targets_.end(); };
  for (const std::string& column : targets) targets_.push_back(reader_.column(column));
  places_ = reader_.columns(options_.columns);
  for (const std::size_t c : places_)
    if (is_target(c))
      throw Error(ErrorKind::usage, file_.name(),
                  "column '" + reader_.column_name(c) + "' is the " + words_.target + " and one of columns",
                  "Remove it from data.columns, or set " + words_.key);
  for (std::size_t c = 0; options_.columns.empty() && c < reader_.n_columns(); ++c)
    if (!is_target(c)) places_.push_back(c);
  reader_.refuse_repeated(targets_);
  reader_.refuse_repeated(places_);
  divide_into_steps();
  for (const std::size_t c : places_) features_.columns.push_back(reader_.column_name(c));
  features_.missing = options_.missing;
  features_.divide = options_.divide;
  features_.normalize = options_.normalize;
}

// Finds the columns of the model; columns named in the options must be the same.
void TableRows::find_columns(std::span<const std::string> targets) {
  features_ = Features::of(fitted_);
  const std::vector<std::string> of_model = get_targets(fitted_);
  std::vector<std::string> columns = features_.columns;
  columns.insert(columns.end(), of_model.begin(), of_model.end());
  const KnownTable known = known_table(fitted_);
  places_ = places_in(reader_, columns, known, /*may_be_alone=*/!known.has_header);  // finds the target
  const auto behind = places_.begin() + static_cast<std::ptrdiff_t>(features_.columns.size());
  targets_.assign(behind, places_.end());
  places_.erase(behind, places_.end());
  if (of_model.empty())  // older models do not name the targets
    for (const std::string& column : targets) targets_.push_back(reader_.column(column));
  require_named(targets, targets_, words_.key);
  require_named(options_.columns, places_, "data.columns");
  require_as_trained(fitted_, file_.name(), "missing", options_.missing);
  require_as_trained(fitted_, file_.name(), "divide", exact_text(options_.divide));
  require_as_trained(fitted_, file_.name(), "normalize", options_.normalize ? "1" : "0");
  if (options_.steps > 0) require_as_trained(fitted_, file_.name(), "steps", std::to_string(options_.steps));
}

// Throws if a config names other columns than the model reads. It may name none.
void TableRows::require_named(std::span<const std::string> named, std::span<const std::size_t> read,
                              const std::string& key) const {
  const bool names_none = std::ranges::all_of(named, [](const std::string& name) { return name.empty(); });
  std::string of_model;
  for (const std::size_t c : read) of_model += (of_model.empty() ? "" : ", ") + in_quotes(reader_.column_name(c));
  if (names_none || std::ranges::equal(reader_.columns(named), read)) return;
  throw Error(ErrorKind::usage, file_.name(), key + " names other columns than the model has: " + of_model,
              "Leave " + key + " out: a model reads its columns as training did");
}

void TableRows::divide_into_steps() {
  const auto n = std::ssize(places_);
  features_.steps = options_.steps == 0 ? n : options_.steps;
  if (n == 0)
    throw Error(ErrorKind::input_file, file_.name(), "has only one column; expected features and a " + words_.target,
                "Set data.separator if cells are not separated by tab, semicolon or comma");
  if (features_.steps < 1 || n % features_.steps != 0)
    throw Error(ErrorKind::usage, file_.name(),
                counted(n, "feature") + " cannot be divided into " + std::to_string(options_.steps) + " equal steps",
                "Set steps to a divisor of the number of features, or to 0 for one step per feature");
}

bool TableRows::is_missing_target(std::string_view cell) const {
  const bool words_are_texts = words_.is_text && options_.missing_values == default_missing_values();
  return words_are_texts ? trimmed(cell).empty() : reader_.is_missing(cell);
}

void TableRows::check_feature(const std::string& cell, std::size_t line, std::size_t column) {
  const std::string_view text = trimmed(cell);
  const bool is_text = text.find(' ') != std::string_view::npos &&
                       std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c); });
  if (is_text && !reader_.is_missing(text) && date_readings(text).empty())
    reader_.refuse(line, column, in_quotes(text) + " is a text, not a number",
                   "A text with one label is read by task.kind = \"document\"; other columns are left out with "
                   "data.columns");
  n_missing_ += std::isnan(reader_.number(
      cell, line, column,
      options_.missing == "error" ? CsvReader::Missing::refused : CsvReader::Missing::as_nan));
}

}  // namespace unroll
