// SPDX-License-Identifier: Apache-2.0
// Notes and warnings about a table of series.
#include <algorithm>

#include "core/data/series/series_rows.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"

namespace unroll {

// Names columns of numbers or texts that are neither series nor covariates, for a file without a model.
std::string SeriesRows::unread_columns() const {
  constexpr std::size_t k_most_named = 4;
  std::string names;
  std::size_t n = 0;
  for (std::size_t c = 0; c < reader_.n_columns() && takes_last_; ++c) {
    const bool is_date = dates_->exist() && dates_->column() == c;
    if (is_date || id_column_ == c || std::ranges::find(columns_, c) != columns_.end()) continue;
    if (++n <= k_most_named) names += (n > 1 ? ", " : "") + in_quotes(reader_.column_name(c));
  }
  if (n == 0) return "";
  return std::string(n == 1 ? "column " : "columns ") + names + (n > k_most_named ? ", ..." : "") +
         (n == 1 ? " is" : " are") +
         " not read. Name covariates in data.future_covariates (also known for the rows to forecast) or "
         "data.past_covariates, and further series in data.columns";
}

std::vector<std::string> SeriesRows::notes() const {
  std::string found = file_.name() + ": " + reader_.found(n_lines_) + "; ";
  if (takes_last_) found += "series '" + column_name(0) + "' (the last column); ";
  if (id_column_)
    found += counted(segments_.size(), "series") + ", named in '" + id_column() + "'" +
             (finds_id_ ? " (data.id = \"none\" reads one)" : "") + "; ";
  if (dates_->exist())
    found += "dates in '" + reader_.column_name(dates_->column()) + "' read as " + dates_->format().text() + " from " +
             dates_->text(0) + (dates_->zone().empty() ? "" : " on the clock of " + dates_->zone()) +
             ", a row every " + step_text(dates_->step());
  else if (format_.date.name == "none")
    found += format_.known ? "dates are not used, as in training" : "dates are not used";
  else found += "no date column";
  std::vector<std::string> notes{found};
  notes.insert(notes.end(), reader_.notes().begin(), reader_.notes().end());
  for (const std::string& note : dates_->notes()) notes.push_back(file_.name() + ": " + note);
  if (n_gaps_ > 0)
    notes.push_back(file_.name() + ": " + counted_are(dates_->n_missing(), "date") + " missing (" + first_gaps_ +
                    "); added as rows of missing values" + (gap_advice_.empty() ? "" : "; " + gap_advice_));
  if (is_grouped_) notes.push_back(file_.name() + ": the rows of a series are not together; they are sorted by series");
  if (is_reversed_) notes.push_back(file_.name() + ": the newest rows come first; they are read in reverse order");
  if (n_empty_ > 0)
    notes.push_back(file_.name() + ": " + counted(n_empty_, "series") + " without values: not used");
  if (n_missing_ > 0)
    notes.push_back(file_.name() + ": " + counted_are(n_missing_, "value") +
                    " missing: filled in as inputs, excluded as targets");
  if (const std::string unread = unread_columns(); !unread.empty()) notes.push_back(file_.name() + ": " + unread);
  for (const std::string& note : covariates_.notes()) notes.push_back(file_.name() + ": " + note);
  std::int64_t n_ahead = 0;
  for (const SeriesSegment& segment : segments_) n_ahead += segment.n_ahead;
  if (n_ahead > 0)
    notes.push_back(file_.name() + ": " + counted(n_ahead, "row") +
                    " at the end without a value of the series: to be forecast");
  return notes;
}

std::vector<std::string> SeriesRows::warnings() const {
  std::vector<std::string> all = reader_.warnings();
  for (const std::string& warning : dates_->warnings()) all.push_back(file_.name() + ": " + warning);
  return all;
}

}  // namespace unroll
