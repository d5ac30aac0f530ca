// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: rows of known tokens and labels are kept by their text, new ones are initialized.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/data/tokens/lexicon.h"
#include "tests/support/refusal.h"
#include "unroll/tasks/label.h"
#include "unroll/tasks/language_model.h"
#include "unroll/tasks/transfer.h"
#include "unroll/train/trainer.h"

namespace unroll::test_transfer {
namespace {

using testing::refusal;

// Sentences of "token label" lines over these words; word i has label i % n_labels.
std::shared_ptr<const Task> labeler(const std::vector<std::string>& words, int n_labels, bool crf = true) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    for (int t = 0; t < 3; ++t) {
      const std::size_t k = (i * 2 + t) % words.size();
      text += words[k] + "\tlabel" + std::to_string(k % n_labels) + "\n";
    }
    text += "\n";
  }
  LabelOptions o;
  o.model.hidden = 5;
  o.embedding = 4;
  o.batch = 8;
  o.output = crf ? "crf" : "softmax";
  return make_label(o, text, "sentences");
}

// Different numbers everywhere.
TensorMap numbered(const TensorMap& like) {
  TensorMap parameters = like;
  double next = 1;
  for (auto& [name, tensor] : parameters)
    for (std::int64_t k = 0; k < tensor.elements(); ++k) tensor.set(k, next++);
  return parameters;
}
TensorMap parameters_of(const std::shared_ptr<const Task>& task) {
  const auto backend = make_backend("reference");
  return Trainer(task, *backend, {}).parameters();
}
const Transfer::Row& row_of(const Transfer& transfer, const std::string& name) {
  return *std::ranges::find(transfer.rows, name, &Transfer::Row::name);
}

TEST_CASE("tokens and labels keep their rows by their text, in every parameter that has them") {
  const auto old = labeler({"a", "b", "c", "d"}, 2), task = labeler({"d", "x", "c", "b", "y"}, 3);
  const TensorMap trained = numbered(parameters_of(old)), drawn = parameters_of(task);
  const Transfer transfer = transfer_parameters(task->metadata(), 0, old->metadata(), trained);
  CHECK(row_of(transfer, "recurrent.weight_hh_l0").kind == Transfer::Kind::kept);
  CHECK(row_of(transfer, "embedding.weight").kind == Transfer::Kind::rows);
  CHECK(row_of(transfer, "embedding.weight").note == "4 of 6 tokens");  // b, c, d and the unknown token
  CHECK(row_of(transfer, "crf.transition").note == "2 of 3 labels");

  const Lexicon words = Lexicon::from_lines(old->metadata().at("vocabulary"), "old");
  const Lexicon new_words = Lexicon::from_lines(task->metadata().at("vocabulary"), "new");
  const Tensor &from = trained.at("embedding.weight"), &to = transfer.parameters.at("embedding.weight");
  for (std::int32_t k = 0; k <= new_words.size(); ++k) {
    const bool is_unknown = k == new_words.size();
    const std::int64_t at = is_unknown ? words.size() : words.id(new_words.text(k));
    const bool is_new = !is_unknown && at == words.size();
    for (std::int64_t e = 0; e < 4; ++e)
      CHECK(to.at(4 * k + e) == (is_new ? drawn.at("embedding.weight").at(4 * k + e) : from.at(4 * at + e)));
  }
  const Lexicon labels = Lexicon::from_lines(old->metadata().at("labels"), "old");
  const Lexicon new_labels = Lexicon::from_lines(task->metadata().at("labels"), "new");
  for (std::int32_t a = 0; a < 3; ++a)
    for (std::int32_t b = 0; b < 3; ++b) {
      const std::int64_t x = labels.id(new_labels.text(a)), y = labels.id(new_labels.text(b));
      const double wanted = x < 2 && y < 2 ? trained.at("crf.transition").at(2 * x + y) : 0;
      CHECK(transfer.parameters.at("crf.transition").at(3 * a + b) == wanted);
    }
}

TEST_CASE("characters of a language model keep their rows, in a tied output too") {
  LanguageModelOptions o;
  o.model.hidden = 4;
  o.steps = 5;
  o.batch = 2;
  o.evaluation_batch = 2;
  const auto make = [&](const char* letters) {
    std::string text;
    for (int k = 0; k < 300; ++k) text += letters[k % 5];
    return make_language_model(o, text, "text");
  };
  const auto old = make("abcde"), task = make("bxéd");
  const TensorMap trained = numbered(parameters_of(old));
  const Transfer transfer = transfer_parameters(task->metadata(), 0, old->metadata(), trained);
  CHECK(row_of(transfer, "output.bias").kind == Transfer::Kind::rows);
  // Characters are in the order of their code points: b d x é, then the unknown one.
  const Tensor &from = trained.at("output.bias"), &to = transfer.parameters.at("output.bias");
  CHECK(to.at(0) == from.at(1));
  CHECK(to.at(1) == from.at(3));
  CHECK(to.at(to.elements() - 1) == from.at(from.elements() - 1));
}

TEST_CASE("tokens that cannot be matched by their text are refused, even if there are as many") {
  LanguageModelOptions o;
  o.model.hidden = 4;
  o.steps = 5;
  o.batch = o.evaluation_batch = 2;
  std::string text;
  for (int k = 0; k < 300; ++k) text += "abcab"[k % 5];
  o.tokens = "bytes";
  const auto bytes = make_language_model(o, text, "text");
  o.tokens = "characters";
  const auto characters = make_language_model(o, text, "text");
  const TensorMap trained = parameters_of(characters);
  const std::string refused =
      refusal([&] { transfer_parameters(bytes->metadata(), 0, characters->metadata(), trained); });
  CHECK(refused.find("different texts in 'vocabulary', which cannot be matched") != std::string::npos);
}

TEST_CASE("pieces of a bpe vocabulary keep their rows by their text") {
  LanguageModelOptions o;
  o.model.hidden = 4;
  o.steps = 5;
  o.batch = o.evaluation_batch = 2;
  o.tokens = "bpe";
  o.vocabulary = 258;
  const auto make = [&](const char* word) {
    std::string text;
    for (int k = 0; k < 200; ++k) text += word;
    return make_language_model(o, text, "text");
  };
  const auto old = make("abc "), task = make("xyz ");
  const Transfer transfer = transfer_parameters(task->metadata(), 0, old->metadata(), parameters_of(old));
  CHECK(row_of(transfer, "output.bias").kind == Transfer::Kind::rows);
}

TEST_CASE("parameters of another shape or name are new, others are left out, and nothing in common is refused") {
  const auto old = labeler({"a", "b", "c"}, 2, true), task = labeler({"a", "b", "c"}, 2, false);
  TensorMap trained = numbered(parameters_of(old));
  trained.insert_or_assign("recurrent.weight_hh_l0", Tensor(DType::f32, {4, 1}));
  const Transfer transfer = transfer_parameters(task->metadata(), 0, old->metadata(), trained);
  CHECK(row_of(transfer, "recurrent.weight_hh_l0").kind == Transfer::Kind::fresh);
  CHECK(row_of(transfer, "recurrent.weight_hh_l0").note.starts_with("was [4,1], is ["));
  CHECK(row_of(transfer, "crf.transition").kind == Transfer::Kind::dropped);
  CHECK(row_of(transfer, "embedding.weight").kind == Transfer::Kind::kept);
  const std::string refused = refusal([&] { transfer_parameters(task->metadata(), 0, old->metadata(), {}); });
  CHECK(refused.find("no parameter in common") != std::string::npos);
}

TEST_CASE("training starts from the given values, and refuses values that do not fit") {
  const auto task = labeler({"a", "b", "c"}, 2);
  const auto backend = make_backend("reference");
  TrainerOptions options;
  options.start = numbered(parameters_of(task));
  const TensorMap started = Trainer(task, *backend, options).parameters();
  for (const auto& [name, tensor] : options.start) CHECK(std::ranges::equal(started.at(name).bytes(), tensor.bytes()));
  options.start = {{"embedding.weight", Tensor(DType::f32, {1, 1})}};
  CHECK(refusal([&] { Trainer(task, *backend, options); }).find("'embedding.weight' must be") != std::string::npos);
  options.start = {{"nothing", Tensor(DType::f32, {1, 1})}};
  CHECK(refusal([&] { Trainer(task, *backend, options); }).find("no parameter 'nothing'") != std::string::npos);
}

}  // namespace
}  // namespace unroll::test_transfer
