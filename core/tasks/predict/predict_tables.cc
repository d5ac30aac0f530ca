// SPDX-License-Identifier: Apache-2.0
#include "unroll/tasks/predict_tables.h"

#include <algorithm>
#include <cmath>

#include "core/data/file/gzip.h"
#include "core/data/series/series_rows.h"
#include "core/data/table/csv.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/forecast_series.h"
#include "core/tasks/forecast/form/covariates.h"
#include "core/tasks/table/features.h"
#include "core/tasks/table/table_form.h"

namespace unroll {

namespace {

// Larger files must be sorted: by id, with the oldest rows first.
constexpr std::size_t k_most_held = std::size_t{1} << 30;

RecordFile in_pieces(std::shared_ptr<const Vfs::Reader> file, const std::string& name) {
  constexpr std::size_t k_no_text = 1;  // keep no text in memory
  return {std::move(file), name, k_no_text};
}

// Returns how many of `rows` rows a file must have: those of the model, or of a season if it is longer. A baseline that
// reads more takes what there is.
std::int64_t least_rows(const Metadata& metadata, std::int64_t rows) {
  const std::int64_t season = metadata.contains("period") ? get_integer(metadata, "period") : 1;
  return std::min(rows, std::max(get_integer(metadata, "window") + get_form(metadata).depth(), season));
}

}  // namespace

struct FeatureReader::State {
  State(const Metadata& metadata, const std::string& name)
      : features(Features::of(metadata)), targets(get_targets(metadata)),
        labels(metadata.contains("labels") ? get_list(metadata, "labels") : std::vector<std::string>()),
        reader(name, CsvLimits{}.max_columns, format_as_trained(metadata, features.columns)),
        known(known_table(metadata)),
        missing(features.missing == "error" ? CsvReader::Missing::refused : CsvReader::Missing::as_nan) {}

  void find_columns() {
    places = places_in(reader, features.columns, known);
    const auto is_feature = [&](std::size_t c) { return std::find(places.begin(), places.end(), c) != places.end(); };
    const bool has_more = !reader.header().empty() || reader.n_columns() > places.size();
    for (const std::string& target : targets)
      for (std::size_t c = 0; c < reader.n_columns() && has_more; ++c)
        if (!is_feature(c) && reader.column_name(c) == target) target_places.push_back(c);
    const std::size_t last = reader.n_columns() - 1;
    if (targets.empty() && !is_feature(last)) target_places.push_back(last);  // older models do not name the label
    if (target_places.size() < targets.size()) target_places.clear();
  }

  Features features;
  std::vector<std::string> targets, labels;  // columns, classes
  CsvReader reader;
  KnownTable known;
  CsvReader::Missing missing;
  std::vector<std::size_t> places;  // columns of the features; empty before the first row
  std::vector<std::size_t> target_places;
  std::vector<std::string> cells;
};

FeatureReader::FeatureReader(const Metadata& metadata, std::string name) {
  if (!metadata.contains("width"))
    throw Error(ErrorKind::usage, "FeatureReader",
                "a model for the task " + in_quotes(get_text(metadata, "task")) + " reads no rows of a table");
  state_ = hidden_state<State>(metadata, name);
}

void FeatureReader::look_at(std::shared_ptr<const Vfs::Reader> file) {
  state_->reader.look_at(in_pieces(std::move(file), state_->reader.name()).head());
}

std::vector<std::string> FeatureReader::warnings() const { return state_->reader.warnings(); }

std::optional<FeatureReader::Row> FeatureReader::read(std::string_view line, std::int64_t number) {
  State& s = *state_;
  const std::size_t n = number;
  if (!s.reader.read({line, n, 0}, s.cells)) return std::nullopt;
  if (s.places.empty()) s.find_columns();
  Row row;
  for (const std::size_t c : s.places) row.values.push_back(s.reader.number(s.cells[c], n, c, s.missing));
  for (const std::size_t c : s.target_places) {
    std::string text = target_text(s.cells[c]);
    const bool is_class = std::find(s.labels.begin(), s.labels.end(), text) != s.labels.end();
    if (!is_class) text = s.reader.is_missing(text) ? "" : s.reader.plain(text);
    row.targets.push_back(std::move(text));
  }
  return row;
}

struct SeriesEnds::State {
  State(const Metadata& metadata, const std::shared_ptr<const Vfs::Reader>& file, const std::string& name,
        std::int64_t n_rows, std::int64_t n_steps)
      : all(in_pieces(file, name), series_format(metadata), /*hold=*/file->size() <= k_most_held), rows(n_rows),
        steps(n_steps),
        interpolates(metadata.contains("missing") && get_text(metadata, "missing") == "interpolate"),
        covariates(metadata) {
    const bool has_ids = all.id_column() != "none", has_names = !all.reader().header().empty();
    const std::int64_t least = least_rows(metadata, rows);
    if (!has_ids && all.size() < least)
      throw Error(ErrorKind::input_file, name,
                  "has " + counted(all.size(), "row") + " with values; the model reads " + std::to_string(least),
                  "Give a longer history");
    const std::vector<SeriesScales> trained = get_scales(metadata);
    for (std::size_t s = 0; s < all.n_series(); ++s)
      columns.push_back(has_names || trained[s].column.empty() ? all.column_name(s) : trained[s].column);
    if (all.dates().exist())
      date = has_names ? all.reader().column_name(all.dates().column()) : get_text(metadata, "date");
    if (has_ids) id = has_names ? all.id_column() : get_text(metadata, "id");
    notes = all.notes();
    const auto n_short = std::ranges::count_if(all.segments(), [&](const SeriesSegment& s) { return s.size() < rows; });
    if (n_short > 0 && least == rows)
      notes.push_back(name + ": " + counted_are(n_short, "series") + " shorter than the " + counted(rows, "row") +
                      " that the model reads; their first value stands for earlier ones");
    for (const std::string& warning : all.warnings()) notes.push_back("warning: " + warning);
    const std::vector<std::string> given = covariates.given_ahead();
    for (const SeriesSegment& s : all.segments())
      if (!given.empty() && s.n_ahead < steps)
        throw Error(ErrorKind::usage, name,
                    (s.id.empty() ? "" : "series " + in_quotes(s.id) + ": ") + counted(s.n_ahead, "row") +
                        " follow the last value of " + in_quotes(columns[0]) + ", which ends at " +
                        all.place(s, s.end - 1) + "; a forecast of " + counted(steps, "step") +
                        " reads the covariate " + in_quotes(given[0]) + " of each",
                    "Add " + counted(steps - s.n_ahead, "row") + " with the covariates and an empty " +
                        in_quotes(columns[0]) + ", or lower --horizon");
  }

  SeriesRows all;
  std::int64_t rows, steps;
  bool interpolates;
  Covariates covariates;
  std::vector<std::string> columns, notes;
  std::string date, id;
};

SeriesEnds::SeriesEnds(const Metadata& metadata, std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                       std::int64_t rows, std::int64_t steps) {
  require_task(metadata, "forecast", "SeriesEnds");
  state_ = hidden_state<State>(metadata, std::move(file), name, rows, steps);
}

const std::vector<std::string>& SeriesEnds::columns() const { return state_->columns; }
const std::string& SeriesEnds::date() const { return state_->date; }
const std::string& SeriesEnds::id() const { return state_->id; }
const std::vector<std::string>& SeriesEnds::notes() const { return state_->notes; }
std::size_t SeriesEnds::size() const { return state_->all.segments().size(); }

SeriesEnd SeriesEnds::at(std::size_t index) const {
  const State& s = *state_;
  const SeriesSegment& segment = s.all.segments().at(index);
  SeriesPiece piece;
  s.all.read_window(segment.end - s.rows, segment.end, piece);
  if (s.interpolates) piece.interpolate(segment.end);
  SeriesEnd end{segment.id, piece.levels, {}, {}, {}};
  end.covariates =
      covariates_around(s.covariates, s.all, segment.end - s.rows, segment.end, segment.end + s.steps);
  for (std::int64_t t = piece.begin; t < segment.end + s.steps; ++t) {
    end.at.push_back(s.all.place(segment, t));
    if (t >= segment.end)
      end.next.push_back(s.all.dates().exist() ? end.at.back() : std::to_string(t - segment.end + 1));
  }
  return end;
}

std::shared_ptr<const Vfs::Reader> open_table(const std::string& path) {
  return unpacked(disk().open(path), path, 0);
}

}  // namespace unroll
