// SPDX-License-Identifier: Apache-2.0
// What belongs to training alone: vocabularies know nothing of held-out rows, smoothed labels are in no evaluation.
#include <doctest/doctest.h>

#include <string>

#include "tests/training/small_tasks.h"

namespace test_training_only {

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr int k_rows = 60;
constexpr double k_validation = 0.1, k_test = 0.2;
constexpr std::size_t k_training_rows = 42;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Every row has a word of its own: "uaa", "uab", ..., the only ones with a u.
std::string own_word(int row) {
  return {'u', static_cast<char>('a' + row / 20), static_cast<char>('a' + row % 20)};
}

template <class TaskOptions>
TaskOptions rows_with(const std::string& tokens) {
  TaskOptions o;
  o.model.hidden = o.embedding = 4;
  o.batch = 8;
  o.min_count = 1;
  o.validation = k_validation;
  o.test = k_test;
  if constexpr (requires { o.tokens; }) o.tokens = tokens;
  return o;
}

std::shared_ptr<const Task> labels() {
  std::string text;
  for (int i = 0; i < k_rows; ++i) text += own_word(i) + "\tA\nsame\tB\n\n";
  return make_label(rows_with<LabelOptions>("words"), text, "t");
}
std::shared_ptr<const Task> documents() {
  std::string text;
  for (int i = 0; i < k_rows; ++i) text += std::string(i % 2 ? "odd" : "even") + "\tThe " + own_word(i) + " is same.\n";
  return make_document(rows_with<DocumentOptions>(""), text, "t");
}
std::shared_ptr<const Task> pairs() {
  std::string text;
  for (int i = 0; i < k_rows; ++i) text += own_word(i) + " same\tsame " + own_word(i) + "\n";
  return make_translate(rows_with<TranslateOptions>("words"), text, "t");
}

// The loss of a task whose parameters are those of its seed, as it is evaluated.
double evaluated(const std::shared_ptr<const Task>& task) {
  const auto backend = make_backend("cpu", {.threads = 1});
  return Trainer(task, *backend, small_training(1)).evaluate(Split::validation).loss;
}
double trained(const std::shared_ptr<const Task>& task) {
  const auto backend = make_backend("cpu", {.threads = 1});
  TrainerOptions o = small_training(1);
  o.log_every = 1;
  o.validate_every = 0;
  double loss = 0;
  Trainer(task, *backend, o).fit([&](const Progress& p) { loss = p.loss; });
  return loss;
}

}  // namespace

TEST_CASE("a vocabulary has the words of training rows and of no others") {
  CHECK(count(labels()->metadata().at("vocabulary"), "u") == k_training_rows);
  CHECK(count(documents()->metadata().at("vocabulary"), "u") == k_training_rows);
  const Metadata both = pairs()->metadata();
  CHECK(count(both.at("source.vocabulary"), "u") == k_training_rows);
  CHECK(count(both.at("target.vocabulary"), "u") == k_training_rows);
}

TEST_CASE("smoothed labels change the loss of training and not that of an evaluation") {
  struct Row {
    std::string what;
    std::shared_ptr<const Task> (*make)(double smoothing);
  };
  const Row rows[] = {
      {"language-model", [](double s) {
         LanguageModelOptions o = small_language_options();
         o.model.dropout = 0;
         o.label_smoothing = s;
         return small_language_model(o);
       }},
      {"classify", [](double s) {
         ClassifyOptions o;
         o.model.hidden = 5;
         o.steps = 4;
         o.label_smoothing = s;
         return make_classify(o, small_rows(), "t");
       }},
      {"label", [](double s) {
         LabelOptions o = rows_with<LabelOptions>("words");
         o.label_smoothing = s;
         return make_label(
             o, "a\tx\nb\ty\n\nb\tx\n\na\ty\n\nb\tx\na\tx\n\na\ty\n\na\ty\n\nb\tx\n\nb\tx\n\nb\tx\n\na\tx\n\n", "t");
       }},
      {"document", [](double s) {
         DocumentOptions o = rows_with<DocumentOptions>("");
         o.label_smoothing = s;
         std::string text;
         for (int i = 0; i < 60; ++i) text += std::string(i % 5 ? "odd" : "even") + "\tThe word is same.\n";
         return make_document(o, text, "t");
       }},
      {"translate", [](double s) -> std::shared_ptr<const Task> {
         TranslateOptions o = rows_with<TranslateOptions>("characters");
         o.label_smoothing = s;
         std::string text;
         for (int i = 0; i < 20; ++i) text += std::string(i % 2 ? "ab\tba" : "ba\tab") + "\n";
         return make_translate(o, text, "t");
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto plain = row.make(0), smoothed = row.make(0.4);
    CHECK(evaluated(smoothed) == evaluated(plain));
    CHECK(trained(smoothed) != trained(plain));
  }
}

}  // namespace test_training_only
