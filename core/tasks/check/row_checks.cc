// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/check/row_checks.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/data/table/csv.h"
#include "core/support/fnv.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"

namespace unroll {

namespace {

constexpr double k_far = 8;             // times the median length
constexpr double k_many_duplicates = 0.01, k_many_unknown = 0.05;
constexpr double k_dominant = 0.9;      // share of one label in training
constexpr double k_rare = 0.1;          // fraction of the average share of a label
constexpr std::size_t k_shown = 5;      // lines, labels

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

}  // namespace

std::string percent(double share) {
  return short_text(100 * share, 3) + " %";
}

std::uint64_t content_of(std::string_view text) { return fnv(text); }

void DataChecker::empty_lines(const RecordFile& file, std::size_t usual, bool csv) {
  std::size_t in_row = 0, n = 0;
  std::string first;
  for (std::size_t f = 0; f < file.n_files(); ++f)
    (csv ? csv_rows(file.lines(f)) : file.lines(f))([&](const Line& line) {
      const bool empty = line.text.find_first_not_of(" \t\r") == std::string_view::npos;
      in_row = empty ? in_row + 1 : 0;
      if (in_row > usual && n++ < k_shown) first += (first.empty() ? "" : ", ") + std::to_string(line.number);
    });
  figure("empty lines", static_cast<double>(n));
  if (n > 0) warn("empty lines", counted_are(n, "empty line") + " skipped; first at line " + first);
}

void DataChecker::lengths(const std::vector<CheckedRow>& rows, const std::string& unit) {
  if (rows.empty()) return;
  std::vector<std::int64_t> sorted;
  for (const CheckedRow& row : rows) sorted.push_back(row.length);
  std::sort(sorted.begin(), sorted.end());
  const std::int64_t median = sorted[sorted.size() / 2];
  figure("shortest (" + unit + ")", static_cast<double>(sorted.front()));
  figure("median (" + unit + ")", static_cast<double>(median));
  figure("longest (" + unit + ")", static_cast<double>(sorted.back()));
  const double limit = k_far * static_cast<double>(std::max<std::int64_t>(median, 1));
  std::int64_t far = 0;
  const CheckedRow* longest = &rows[0];
  for (const CheckedRow& row : rows) {
    far += static_cast<double>(row.length) > limit;
    if (row.length > longest->length) longest = &row;
  }
  if (far > 0)
    warn("lengths", counted_are(far, "row") + " longer than 8 times the median (" + std::to_string(median) + " " +
                        unit + "); the longest, at line " + std::to_string(longest->line) + ", has " +
                        std::to_string(longest->length) + ". Shorten them");
}

void DataChecker::duplicates(const std::vector<CheckedRow>& rows) {
  std::unordered_set<std::uint64_t> train;
  for (const CheckedRow& row : rows)
    if (row.split == Split::train) train.insert(row.content);
  for (const Split split : {Split::validation, Split::test}) {
    std::int64_t n = 0, all = 0;
    std::string first;
    for (const CheckedRow& row : rows) {
      if (row.split != split) continue;
      ++all;
      if (!train.contains(row.content) || n++ >= static_cast<std::int64_t>(k_shown)) continue;
      first += (first.empty() ? "" : ", ") + std::to_string(row.line);
    }
    if (all == 0) continue;
    const std::string name(k_split_names[split]);
    figure("duplicates in " + name, share(n, all));
    if (share(n, all) > k_many_duplicates)
      warn("duplicates", percent(share(n, all)) + " of the " + name +
                             " set also occur in the training set; first at line " + first +
                             ". Remove them: they make the metrics look better than they are");
  }
}

void DataChecker::vocabulary(const BySplit& tokens, std::int64_t size, const std::string& prefix) {
  figure(prefix + "vocabulary", static_cast<double>(size));
  for (std::size_t split = 0; split < tokens.size(); ++split) {
    const std::int64_t all = tokens[split].known + tokens[split].unknown;
    if (all == 0) continue;
    const double unknown = share(tokens[split].unknown, all);
    figure(prefix + "unknown in " + std::string(k_split_names[split]), unknown);
    if (unknown > k_many_unknown)
      warn("vocabulary", percent(unknown) + " of the " + prefix + "tokens of the " +
                             std::string(k_split_names[split]) +
                             " set are unknown. Raise data.vocabulary, lower data.min_count, or set data.tokens to "
                             "smaller units");
  }
}

void DataChecker::labels(const LabelCounts& counts) {
  PerSplit<std::int64_t> all{};
  for (const auto& [label, n] : counts)
    for (std::size_t split = 0; split < all.size(); ++split) all[split] += n[split];
  figure("labels", static_cast<double>(counts.size()));
  std::string rare, missing;
  std::size_t n_rare = 0, n_missing = 0;
  double most = 0, least = 1;
  std::string dominant;
  for (const auto& [label, n] : counts) {
    const double part = share(n[0], all[0]);
    least = std::min(least, part);
    if (part > most) dominant = label;
    most = std::max(most, part);
    if (n[0] == 0 && n_missing++ < k_shown) missing += (missing.empty() ? "'" : ", '") + label + "'";
    if (n[0] > 0 && part < k_rare / static_cast<double>(counts.size()) && n_rare++ < k_shown)
      rare += (rare.empty() ? "'" : ", '") + label + "' " + percent(part);
  }
  figure("rarest label (share of training)", least);
  figure("most frequent label (share of training)", most);
  if (n_missing > 0) warn("labels", counted_are(n_missing, "label") + " absent from the training set: " + missing);
  if (n_rare > 0) warn("labels", counted_are(n_rare, "label") + " rare in the training set: " + rare);
  if (most > k_dominant && counts.size() > 1)
    warn("labels", "'" + dominant + "' is " + percent(most) + " of the training set. Judge by F1, not by accuracy");
  if (counts.size() == 1) warn("labels", "all rows have the same label: there is nothing to learn");
}

}  // namespace unroll
