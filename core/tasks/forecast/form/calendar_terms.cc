// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/form/calendar_terms.h"

#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_most_pairs = 100;

std::int64_t month_of_year(Timestamp at) { return static_cast<unsigned>(calendar_day(at).month()) - 1; }

struct NamedTerm {
  std::string_view name;
  CalendarTerm term;
};
const NamedTerm k_terms[] = {
    {"minute", {60, [](Timestamp at) { return time_of_day(at) / (60 * k_second) % 60; }}},
    {"hour", {24, [](Timestamp at) { return time_of_day(at) / (3600 * k_second); }}},
    {"weekday", {7, [](Timestamp at) -> std::int64_t {  // from Monday
       return std::chrono::weekday(std::chrono::sys_days(calendar_day(at))).iso_encoding() - 1;
     }}},
    {"day", {31, [](Timestamp at) -> std::int64_t { return static_cast<unsigned>(calendar_day(at).day()) - 1; }}},
    {"month", {12, month_of_year}},
    {"quarter", {4, [](Timestamp at) { return month_of_year(at) / 3; }}},
};

// Steps since 1970; those of a calendar of business days or hours since its first Monday.
double steps_since_epoch(Timestamp at, DateStep step) {
  constexpr std::int64_t k_monday = 4 * k_day;
  if (step.months == 0 && (step.weekdays != DateStep::k_all_days || step.slots > 0))
    if (const auto n = steps_between({k_monday + step.open}, at, step)) return static_cast<double>(*n);
  if (step.months == 0) return static_cast<double>(at.micros) / static_cast<double>(step.micros);
  const std::int64_t months = (static_cast<int>(calendar_day(at).year()) - 1970) * 12 + month_of_year(at);
  return static_cast<double>(months) / static_cast<double>(step.months);
}

}  // namespace

void CalendarTerm::append(Timestamp at, DateStep step, std::vector<double>& to) const {
  if (classes > 0) return to.push_back(static_cast<double>(category(at)));
  const double turns = std::fmod(steps_since_epoch(at, step), period) / period;
  for (std::int64_t k = 1; k <= pairs; ++k) {
    const double angle = 2 * std::numbers::pi * std::fmod(turns * static_cast<double>(k), 1.0);
    to.insert(to.end(), {std::sin(angle), std::cos(angle)});
  }
}

CalendarTerm calendar_term(const std::string& text) {
  for (const NamedTerm& named : k_terms)
    if (named.name == text) return named.term;
  constexpr std::string_view k_fourier = "fourier(";
  const char* const last = text.data() + text.size();
  CalendarTerm term;
  if (text.starts_with(k_fourier)) {
    const auto [comma, error] = std::from_chars(text.data() + k_fourier.size(), last, term.period);
    const bool has_both = error == std::errc() && comma < last && *comma == ',';
    const bool ends = has_both && std::string_view(std::from_chars(comma + 1, last, term.pairs).ptr, last) == ")";
    if (ends && term.period >= 2 && term.period <= 1e9 && term.pairs >= 1 && term.pairs <= k_most_pairs) return term;
  }
  std::string names;
  for (const NamedTerm& named : k_terms) names += std::string(named.name) + ", ";
  throw Error(ErrorKind::usage, "forecast", "data.calendar has no term " + in_quotes(text),
              "Use " + names + "or fourier(PERIOD,PAIRS) with a period of at least 2 steps and 1 to " +
                  std::to_string(k_most_pairs) + " pairs of sine and cosine, such as fourier(24,3)");
}

}  // namespace unroll
