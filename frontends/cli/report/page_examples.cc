// SPDX-License-Identifier: Apache-2.0
// Examples of a model's test results for a page: pictures, correct and wrong predictions, samples.
#include <fmt/format.h>

#include "frontends/cli/report/page.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/terminal/words.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_most_maps = 4, k_most_letters = 400, k_most_row_letters = 120, k_most_tokens = 200;

std::string class_table(const std::vector<ClassExample>& examples, std::size_t most_letters) {
  std::vector<std::vector<Cell>> rows;
  for (const ClassExample& e : examples)
    rows.push_back({text_cell(e.predicted == e.truth ? "right" : "wrong"),
                    text_cell(shortened(e.input, most_letters)), text_cell(e.truth), text_cell(e.predicted),
                    number_cell(share_text(e.probability))});
  return html_table({"Prediction", "Input", "True label", "Predicted label", "Probability"}, rows, {.as_cards = true});
}

// Shows the sentence with labels below the tokens; wrong ones are marked.
std::string sentence_table(const std::vector<SentenceExample>& examples) {
  std::string html;
  for (const SentenceExample& e : examples) {
    std::vector<Cell> truth{text_cell("True label")}, predicted{text_cell("Predicted label")};
    std::vector<std::string> head{"Token"};
    for (std::size_t i = 0; i < std::min(e.tokens.size(), k_most_tokens); ++i) {
      head.push_back(e.tokens[i]);
      truth.push_back(text_cell(e.truth[i]));
      predicted.push_back(text_cell(e.predicted[i]));
      if (e.predicted[i] != e.truth[i]) predicted.back().html = "<mark>" + predicted.back().html + "</mark>";
    }
    html += html_table(head, {truth, predicted});
  }
  return html;
}

std::string translation_table(const std::vector<TranslationExample>& examples) {
  std::vector<std::vector<Cell>> rows;
  for (const TranslationExample& e : examples)
    rows.push_back({text_cell(e.written == e.target ? "right" : "differs"),
                    text_cell(shortened(e.source, k_most_letters)), text_cell(shortened(e.target, k_most_letters)),
                    text_cell(shortened(e.written, k_most_letters))});
  return html_table({"Prediction", "Source", "Target", "Written by the model"}, rows, {.as_cards = true});
}

}  // namespace

std::vector<Panel> panels_of(const Examples& e) {
  std::vector<Panel> panels;
  for (std::size_t s = 0; s < std::min(e.forecasts.size(), k_most_series); ++s)
    for (Panel& panel : forecast_panels(e.forecasts[s])) panels.push_back(std::move(panel));
  if (!e.confusion.labels.empty())
    panels.push_back(
        confusion_panel(e.confusion, e.sentences.empty() ? "Confusion matrix" : "Confusion matrix of tokens"));
  std::size_t n_maps = 0;
  for (const TranslationExample& t : e.translations)
    if (t.attention.source.size() > 2 && n_maps++ < k_most_maps)  // a map of fewer tokens is uninformative
      panels.push_back(attention_panel(t.attention, fmt::format("Attention: {}", shortened(t.source, 40))));
  for (const ClassExample& c : e.classes)
    if (!c.attention.sentences.empty() && n_maps++ < k_most_maps)
      panels.push_back(attention_panel(
          c.attention, fmt::format("Attention: {}, predicted {}", shortened(c.truth, 20), shortened(c.predicted, 20))));
  return panels;
}

std::string examples_html(const Examples& e) {
  std::string html = figures(panels_of(e));
  if (e.forecasts.size() > k_most_series)
    html += fmt::format("<p class=\"note\">The first {} of {} series.</p>\n", k_most_series, e.forecasts.size());
  const std::size_t letters = e.are_rows ? k_most_row_letters : k_most_letters;
  const auto add = [&](bool any, const char* title, const auto& table) {
    if (any) html += fmt::format("<h4>{}</h4>\n{}", title, table());
  };
  add(!e.classes.empty(), "Predictions", [&] { return class_table(e.classes, letters); });
  add(!e.sentences.empty(), "Predictions", [&] { return sentence_table(e.sentences); });
  add(!e.translations.empty(), "Translations", [&] { return translation_table(e.translations); });
  add(!e.text.empty(), "Sample of text", [&] { return "<pre class=\"text\">" + escaped(e.text) + "</pre>\n"; });
  return html;
}

}  // namespace unroll::cli
