// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/series_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_block = 256;   // rows of a record
constexpr std::int64_t k_ahead = 4096;  // rows that a cursor reads at once

}  // namespace

void Runs::add(std::int64_t number) {
  if (runs_.empty() || number - runs_.back().first != (size_ - runs_.back().before) * step_)
    runs_.push_back({number, size_});
  ++size_;
}

std::int64_t Runs::operator[](std::int64_t index) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](std::int64_t i, const Run& run) { return i < run.before; });
  const Run& run = *(after - 1);
  return run.first + (index - run.before) * step_;
}

SeriesRows::SeriesRows(RecordFile file, std::span<const std::string> columns, bool hold)
    : file_(std::move(file)), reader_(file_.name()), hold_(hold) {
  std::vector<std::string> cells;
  std::vector<double> last(columns.size(), std::numeric_limits<double>::quiet_NaN()), now(last), before(last);
  bool begun = false, any = false;
  file_.for_each_line([&](const Line& line) {
    if (!reader_.read(line, cells)) return;
    if (columns_.empty())
      for (const std::string& name : columns) columns_.push_back(reader_.column(name));
    any = true;
    bool observed = false;
    for (std::size_t s = 0; s < columns_.size(); ++s) {
      now[s] = reader_.number(cells[columns_[s]], line.number, columns_[s], CsvReader::Missing::as_nan);
      observed = observed || !std::isnan(now[s]);
    }
    if (!hold_ && n_ % k_block == 0) before = last;
    for (std::size_t s = 0; s < now.size(); ++s)
      if (!std::isnan(now[s])) last[s] = now[s];
    begun = begun || std::none_of(last.begin(), last.end(), [](double v) { return std::isnan(v); });
    if (!begun) return;
    if (observed) observed_.add(n_);
    if (!hold_ && n_ % k_block == 0) {
      file_.add(line.at);
      before_.insert(before_.end(), before.begin(), before.end());
    }
    if (hold_) {
      held_.levels.insert(held_.levels.end(), last.begin(), last.end());
      for (const double v : now) held_.observed.push_back(std::isnan(v) ? 0 : 1);
    }
    ++n_;
  });
  if (!any) throw Error(ErrorKind::input_file, file_.name(), "holds no line of data");
  for (std::size_t s = 0; s < last.size(); ++s)
    if (std::isnan(last[s]))
      throw Error(ErrorKind::input_file, file_.name(),
                  "column '" + reader_.column_name(columns_[s]) + "' holds no number");
  if (hold_) file_ = RecordFile(std::string_view(), file_.name());
}

void SeriesRows::read(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  const std::size_t S = n_series(), from = static_cast<std::size_t>(begin) * S, to = static_cast<std::size_t>(end) * S;
  piece.begin = begin;
  piece.end = end;
  piece.n_series = S;
  if (!hold_) return read_again(begin, end, piece);
  piece.levels.assign(held_.levels.begin() + static_cast<std::ptrdiff_t>(from),
                      held_.levels.begin() + static_cast<std::ptrdiff_t>(to));
  piece.observed.assign(held_.observed.begin() + static_cast<std::ptrdiff_t>(from),
                        held_.observed.begin() + static_cast<std::ptrdiff_t>(to));
}

void SeriesRows::read_again(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  const std::size_t S = n_series();
  piece.levels.clear();
  piece.observed.clear();
  std::vector<double> last, now(S);
  for (std::int64_t block = begin / k_block; block * k_block < end; ++block) {
    const std::string text = file_.text(block);
    const auto first = before_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(block) * S);
    last.assign(first, first + static_cast<std::ptrdiff_t>(S));
    std::int64_t t = block * k_block;
    lines_of(text, k_inside)([&](const Line& line) {
      if (t >= end || line.text.find_first_not_of(" \t") == std::string_view::npos) return;
      numbers_in(file_, reader_, line.text, columns_, now);
      for (std::size_t s = 0; s < S; ++s)
        if (!std::isnan(now[s])) last[s] = now[s];
      if (t++ < begin) return;
      piece.levels.insert(piece.levels.end(), last.begin(), last.end());
      for (const double v : now) piece.observed.push_back(std::isnan(v) ? 0 : 1);
    });
  }
  if (piece.levels.size() != static_cast<std::size_t>(end - begin) * S) file_.refuse_changed();
}

const SeriesPiece& SeriesCursor::at(std::int64_t begin, std::int64_t end) {
  if (begin < piece_.begin || end > piece_.end)
    rows_.read(begin, std::min(end + k_ahead, rows_.size()), piece_);
  return piece_;
}

Runs targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& o) {
  Runs targets(o.stride);
  std::int64_t next = std::max(begin, o.first + o.window);
  observed.for_each([&](std::int64_t t) {  // is among the values ahead of t - horizon + 1 to t
    for (next = std::max(next, t - o.horizon + 1); next <= t && next + o.horizon <= end; ++next)
      if (targets.empty() || next - targets.last() >= o.stride) targets.add(next);
  });
  return targets;
}

}  // namespace unroll
