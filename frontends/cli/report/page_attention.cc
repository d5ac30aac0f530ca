// SPDX-License-Identifier: Apache-2.0
// The page of `predict --explain-attention`.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/cli/report/page.h"
#include "frontends/cli/report/panel.h"
#include "frontends/cli/terminal/words.h"

namespace unroll::cli {
namespace {

constexpr const char* k_attention_style = R"css(
.attention td { max-width: none; } .attention td:first-child { white-space: nowrap; font-weight: 600; }
.attention span { border-radius: 2px; white-space: pre-wrap; }
.gate { display: inline-block; width: 64px; height: 9px; margin-right: 8px; border: 1px solid var(--soft); }
.gate i { display: block; height: 100%; background: var(--c0); }
)css";

// Shows the complete source, each word shaded by its weight.
std::string shaded_source(const WrittenAttention& map, std::size_t step) {
  std::string html;
  const std::size_t S = map.source.size();
  for (std::size_t s = 0; s < S; ++s) {
    const float weight = map.weights[step * S + s];
    const int percent = static_cast<int>(std::clamp(weight, 0.0F, 1.0F) * 70 + 0.5F);  // keeps text readable
    if (percent == 0) html += escaped(map.source[s]);
    else
      html += fmt::format("<span data-weight=\"{:.4f}\" title=\"{}\" style=\"background:color-mix(in srgb,var(--c1) "
                          "{}%,transparent)\">{}</span>",
                          weight, share_text(static_cast<double>(weight)), percent, escaped(map.source[s]));
  }
  return html;
}

std::string gate(float p_gen) {
  return fmt::format("<div class=\"gate\"><i style=\"width:{0:.0f}%\"></i></div>{1:.2f}",
                     100 * std::clamp(p_gen, 0.0F, 1.0F), p_gen);
}

std::string attention_table(const WrittenAttention& map) {
  const bool copies = !map.p_gen.empty();
  std::vector<std::string> head{"Written"};
  if (copies) head.emplace_back("p_gen");
  head.emplace_back("Source, shaded by attention");
  std::vector<std::vector<Cell>> rows;
  for (std::size_t t = 0; t < map.target.size(); ++t) {
    std::vector<Cell> row{text_cell(map.target[t].empty() ? "(end)" : map.target[t])};
    if (copies) row.push_back({gate(map.p_gen[t]), true});
    row.push_back({shaded_source(map, t)});
    rows.push_back(std::move(row));
  }
  return html_table(head, rows);
}

}  // namespace

std::string attention_page(const std::string& title, const std::vector<WrittenAttention>& maps) {
  std::string body;
  for (const WrittenAttention& map : maps) {
    std::string written;
    for (const std::string& token : map.target) written += token;
    body += fmt::format("<section class=\"attention\"><h2>{}</h2>\n{}</section>\n", escaped(written),
                        attention_table(map));
  }
  const bool copies = std::any_of(maps.begin(), maps.end(), [](const auto& map) { return !map.p_gen.empty(); });
  return page_head(title, k_attention_style) +
         fmt::format("<p class=\"note\">Each row is a written word and the source that it was written from. The "
                     "weights of a row sum to 1; the pointer over a word shows its weight.{}</p>\n{}</body></html>\n",
                     copies ? " p_gen is the probability that the word comes from the vocabulary; near 0 it is copied."
                            : "",
                     body);
}

}  // namespace unroll::cli
