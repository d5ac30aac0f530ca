// SPDX-License-Identifier: Apache-2.0
// Documents: how they are cut, batched and read by a hierarchy.
#include <doctest/doctest.h>

#include <numeric>

#include <cmath>
#include <string>
#include <vector>

#include "core/data/corpus/documents.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/support/error.h"

namespace test_document {

using namespace unroll;
using namespace unroll::testing;

namespace {

// The label is the color in the sentence that has a "here": what another sentence says of colors does not count.
std::string small_documents(int n = 120) {
  const char* colors[] = {"red", "green", "blue"};
  std::string text;
  for (int i = 0; i < n; ++i) {
    const int label = i * 7 % 3, at = i % 4;
    text += std::string(colors[label]) + "\t";
    for (int s = 0; s < 4; ++s)
      text += std::string(s == at ? "A here " : "A there ") + colors[s == at ? label : (i * 5 + s) % 3] + " thing. ";
    text += "\n";
  }
  return text;
}
DocumentOptions small_options() {
  DocumentOptions o;
  o.model.cell = "gru";
  o.model.hidden = 8;
  o.embedding = 6;
  o.batch = 8;
  return o;
}

}  // namespace

TEST_CASE("a document is sentences of words in small letters without the marks around them") {
  const Document d = document_of("  The \"cat\" sat -- there! Did it?  It's No. 12, (yes.) na\xC3\xAFve ... ");
  const Document expected{
      {"the", "cat", "sat", "there"}, {"did", "it"}, {"it's", "no"}, {"12", "yes"}, {"na\xC3\xAFve"}};
  CHECK(d == expected);
  CHECK(document_of(" ... -- ").empty());
  CHECK(excess_of(d).empty());
  CHECK(excess_of(Document(257, {"a"})).find("257 sentences") != std::string::npos);
  CHECK(excess_of({std::vector<std::string>(257, "a")}).find("257 words") != std::string::npos);
}

TEST_CASE("the hierarchy learns what one sentence of a document says, with every pooling but the last state's") {
  for (const char* pooling : {"attention", "max"}) {
    CAPTURE(pooling);
    DocumentOptions o = small_options();
    o.pooling = pooling;
    const auto task = make_document(o, small_documents(), "t");
    const auto backend = make_backend("cpu");
    Trainer trainer(task, *backend, small_training(200));
    trainer.fit();
    CHECK(trainer.evaluate(Split::test).metrics.at("accuracy") > 0.9);
    CHECK(task->baselines(Split::test).at("naive_bayes").at("accuracy") < 0.9);
    DocumentClassifier reader(task->metadata(), trainer.parameters(), *backend);
    CHECK(reader.label("A there red thing. A here blue thing.") == "blue");
    CHECK(reader.label(" . ").empty());
    const auto seen = reader.attention("A there red thing. A here blue thing.").sentences;
    CHECK(reader.attention(" . ").sentences.empty());
    if (o.pooling == "attention") {
      REQUIRE(seen.size() == 2);
      CHECK(seen[1].weight > seen[0].weight);  // of the sentence that says it
      CHECK(seen[0].weight + seen[1].weight == doctest::Approx(1));
      CHECK(seen[1].words == std::vector<std::string>{"a", "here", "blue", "thing"});
      CHECK(std::accumulate(seen[1].weights.begin(), seen[1].weights.end(), 0.0) == doctest::Approx(1));
    } else {
      CHECK(seen.empty());
    }
    std::string long_one;
    for (int i = 0; i < 300; ++i) long_one += "a. ";
    CHECK_THROWS_WITH_AS(reader.label(long_one), doctest::Contains("300 sentences"), Error);
  }
}

TEST_CASE("what fills a batch up changes neither loss nor gradient of documents") {
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += i % 2 ? "odd\t" : "even\t";
    for (int s = 0; s <= i % 5; ++s) {
      for (int w = 0; w <= (i + s) % 6; ++w) text += "w" + std::to_string((i + w) % 4) + " ";
      text += "w. ";
    }
    text += "\n";
  }
  for (const char* pooling : {"final", "mean", "max", "attention"}) {
    CAPTURE(pooling);
    DocumentOptions o = small_options();
    o.pooling = pooling;
    o.batch = 5;
    const auto task = make_document(o, text, "t");
    const Batch batch = task->batch(Split::train, 1, 0, task->n_batches(Split::train) - 1);
    const Tensor& ids = batch.inputs.at("ids");
    const Tensor &words = batch.inputs.at("words"), &sentences = batch.inputs.at("sentences");
    const std::int64_t W = ids.shape()[0], B = sentences.elements(), S = words.elements() / B;
    // Two more words, one more sentence and one more row, with words in them that nobody counts.
    Batch padded = batch;
    Tensor wide = Tensor::filled({DType::i32, {W + 2, (S + 1) * (B + 1)}}, 1), n_words(DType::i32, {(S + 1) * (B + 1)}),
           n_sentences(DType::i32, {B + 1}), labels = Tensor::filled({DType::i32, {B + 1}}, -1);
    for (std::int64_t b = 0; b < B; ++b) {
      n_sentences.set(b, sentences.at(b));
      labels.set(b, batch.inputs.at("labels").at(b));
      for (std::int64_t s = 0; s < S; ++s) {
        n_words.set(s * (B + 1) + b, words.at(s * B + b));
        for (std::int64_t w = 0; w < static_cast<std::int64_t>(words.at(s * B + b)); ++w)
          wide.set(w * (S + 1) * (B + 1) + s * (B + 1) + b, ids.at(w * S * B + s * B + b));
      }
    }
    padded.inputs.at("ids") = wide;
    padded.inputs.at("words") = n_words;
    padded.inputs.at("sentences") = n_sentences;
    padded.inputs.at("labels") = labels;
    const TensorMap plain = loss_and_gradients(*task, batch), more = loss_and_gradients(*task, padded);
    CHECK(plain.at("loss").at(0) > 0.3);
    for (const auto& output : plain)
      for (std::int64_t i = 0; i < output.second.elements(); ++i) {
        CAPTURE(output.first);
        // f32 sums with more zeros between, in another order: some tens of terms of order 1.
        CHECK(std::fabs(output.second.at(i) - more.at(output.first).at(i)) < 2e-6);
      }
  }
}

TEST_CASE("a budget counts all words of a batch of documents, padding among them") {
  DocumentOptions o = small_options();
  o.batch_tokens = 100;
  const auto task = make_document(o, small_documents(), "t");
  for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i)
    CHECK(task->batch(Split::train, 1, 0, i).inputs.at("ids").elements() <= 100);
}

TEST_CASE("documents without a word, too long ones and labels that the model lacks are refused with the line") {
  const auto refused = [](const std::string& text, const char* says, const Metadata& fitted = {}) {
    CHECK_THROWS_WITH_AS(make_document(small_options(), text, "t", fitted), doctest::Contains(says), Error);
  };
  const std::string good = small_documents(10);
  refused(good + "red\t...\n", "line 11: the text has no word");
  std::string long_one = "red\t";
  for (int i = 0; i < 300; ++i) long_one += "a. ";
  refused(good + long_one + "\n", "line 11: the text has 300 sentences");
  refused(good + "pink\ta\n", "no label 'pink'", make_document(small_options(), good, "t")->metadata());
}

}  // namespace test_document
