// SPDX-License-Identifier: Apache-2.0
// Section of `ablation` results: losses of each change and of the baseline, as a table and over time and items.
#include <fmt/format.h>

#include "frontends/cli/report/chart.h"
#include "frontends/cli/report/json_members.h"
#include "frontends/cli/report/page.h"
#include "frontends/cli/terminal/words.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_most_changes = 64, k_most_runs = 64, k_most_ablation_points = 20000;

// "1.234 (1.2 to 1.3)": mean, lowest and highest of the seeds.
std::string spread_of(const Json& spread) {
  const auto mean = number_at(spread, "mean"), low = number_at(spread, "low"), high = number_at(spread, "high");
  if (!mean) return "";
  if (!low || !high || *low == *high) return number_text(*mean);
  return fmt::format("{} ({} to {})", number_text(*mean), number_text(*low), number_text(*high));
}

std::string mean_text(const Json& row, const char* key) {
  const auto mean = number_at(member(row, key), "mean");
  return mean ? value_text(key, *mean) : "";
}

// The measure that runs were compared by; files of earlier versions only have losses.
struct Compared {
  bool has_metric;
  std::string title;  // "Validation loss"
  const char* at_seconds() const { return has_metric ? "metric_at_seconds" : "loss_at_seconds"; }
  const char* at_items() const { return has_metric ? "metric_at_items" : "loss_at_items"; }
  const char* of_point() const { return has_metric ? "metric" : "loss"; }
};

std::vector<Cell> row_of(const Json& change, const Compared& by) {
  const auto bytes = number_at(change, "bytes");
  return {text_cell(text_at(change, "name")),
          number_cell(spread_of(member(change, by.at_seconds()))),
          number_cell(spread_of(member(change, by.at_items()))),
          number_cell(mean_text(change, "items_per_second")),
          number_cell(mean_text(change, "epoch_seconds")),
          number_cell(bytes ? value_text("bytes", *bytes) : ""),
          text_cell(text_at(change, "verdict"))};
}

// Validation curves of all seeds of a change in one color.
std::vector<ChartLine> lines_of(const Json& changes, const char* x, const Compared& by) {
  std::vector<ChartLine> lines;
  int color = 0;
  for (const Json& change : changes) {
    bool first = true;
    std::size_t n = 0;
    for (const Json& run : member(change, "runs")) {
      if (++n > k_most_runs) break;
      Curve curve;
      for (const Json& point : member(run, "points")) {
        const auto at = number_at(point, x), value = number_at(point, by.of_point());
        if (at && value && curve.size() < k_most_ablation_points) curve.emplace_back(*at, *value);
      }
      if (curve.empty()) continue;
      lines.push_back({text_at(change, "name"), color % k_colors, color >= k_colors, std::move(curve), first});
      first = false;
    }
    ++color;
  }
  return lines;
}

}  // namespace

std::string ablation_section(const Attachment& attachment) {
  const Json json = Json::parse(attachment.text, nullptr, /*allow_exceptions=*/false);
  const Json& changes = member(json, "variants");
  if (!changes.is_array() || changes.empty() || changes.size() > k_most_changes) return "";
  std::vector<std::vector<Cell>> rows;
  const std::string metric = text_at(json, "metric");
  const bool is_loss = metric.empty() || metric == "loss";
  const Compared by{!metric.empty(), is_loss ? "Validation loss" : "Validation: " + heading_of(metric)};
  for (const Json& change : changes) rows.push_back(row_of(change, by));
  std::vector<Panel> panels;
  struct Axis {
    const char *key, *title, *name;
  };
  for (const Axis& axis : {Axis{"seconds", "Training time (s)", "over time"},
                           Axis{"items", "Items read in training", "over items"}})
    if (auto lines = lines_of(changes, axis.key, by); !lines.empty())
      panels.push_back(
          chart(fmt::format("{} {}", by.title, axis.name), std::move(lines), {.x = axis.title, .y = by.title}));
  const auto items = number_at(json, "items"), seconds = number_at(json, "seconds");
  std::string note;
  if (items && seconds)
    note = fmt::format("<p class=\"note\">Equal time is {}, equal items are {}. Values: mean of the seeds, lowest and "
                       "highest in parentheses.</p>\n",
                       escaped(time_text(*seconds)), escaped(number_text(*items)));
  return fmt::format("<section class=\"ablation\"><h2>Ablation: {}</h2>\n{}{}{}</section>\n", escaped(attachment.name),
                     html_table({"Change", by.title + " at equal time", by.title + " at equal items",
                                 "Items per second", "Time of an epoch", "Memory", "Verdict"},
                                rows, {.as_cards = true}),
                     note, figures(panels));
}

}  // namespace unroll::cli
