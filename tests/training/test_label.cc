// SPDX-License-Identifier: Apache-2.0
// Sequence labeling: batches, masks, metrics, labels of new sentences.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/data/tokens/lexicon.h"
#include "core/tasks/common/class_metrics.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/support/error.h"

namespace test_label {

using namespace unroll;
using namespace unroll::testing;

namespace {

// Sentence i has 1 + i % 7 tokens; a token is "up" after an even word and "down" after an odd one, the first is "none".
std::string small_sentences(int n = 50) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    int before = -1;
    for (int t = 0; t <= i % 7; ++t) {
      const int word = (i * 5 + t * 3) % 6;
      text += "w" + std::to_string(word) + "\t" + (before < 0 ? "none" : before % 2 == 0 ? "up" : "down") + "\n";
      before = word;
    }
    text += "\n";
  }
  return text;
}
LabelOptions small_options() {
  LabelOptions o;
  o.model.hidden = 6;
  o.embedding = 4;
  o.batch = 8;
  o.test = 0.3;
  o.label_smoothing = 0.1;
  return o;
}
std::shared_ptr<const Task> small_label(const LabelOptions& o = small_options()) {
  return make_label(o, small_sentences(), "small sentences");
}

struct Sentence {
  std::vector<std::int32_t> ids, labels;
  auto operator<=>(const Sentence&) const = default;
};
// The sentences of a batch without their padding.
std::vector<Sentence> sentences_of(const Batch& b) {
  const Tensor &ids = b.inputs.at("ids"), &labels = b.inputs.at("labels"), &lengths = b.inputs.at("lengths");
  const std::int64_t B = lengths.elements();
  std::vector<Sentence> list;
  for (std::int64_t row = 0; row < B; ++row) {
    Sentence s;
    for (std::int64_t t = 0; t < static_cast<std::int64_t>(lengths.at(row)); ++t) {
      s.ids.push_back(static_cast<std::int32_t>(ids.at(t * B + row)));
      s.labels.push_back(static_cast<std::int32_t>(labels.at(t * B + row)));
    }
    if (!s.ids.empty()) list.push_back(s);
  }
  return list;
}
std::multiset<Sentence> all_sentences(const Task& task, Split split, std::int64_t epoch) {
  std::multiset<Sentence> all;
  for (std::int64_t i = 0; i < task.n_batches(split); ++i)
    for (const Sentence& s : sentences_of(task.batch(split, 3, epoch, i))) all.insert(s);
  return all;
}

// The batch with T longer by `more` steps, and what lies in the padding set to token 2.
Batch with_padding(const Batch& batch, std::int64_t more) {
  Batch padded = batch;
  const Tensor &ids = batch.inputs.at("ids"), &labels = batch.inputs.at("labels"),
               &lengths = batch.inputs.at("lengths");
  const std::int64_t T = ids.shape()[0], B = ids.shape()[1];
  Tensor new_ids = Tensor::filled({DType::i32, {T + more, B}}, 2),
         new_labels = Tensor::filled({DType::i32, {T + more, B}}, -1);
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t b = 0; b < B; ++b) {
      if (t >= static_cast<std::int64_t>(lengths.at(b))) continue;
      new_ids.set(t * B + b, ids.at(t * B + b));
      new_labels.set(t * B + b, labels.at(t * B + b));
    }
  padded.inputs.at("ids") = new_ids;
  padded.inputs.at("labels") = new_labels;
  return padded;
}

}  // namespace

TEST_CASE("every sentence is in one split, and once in the batches of an epoch, in an order of the epoch") {
  const auto task = small_label();
  const auto train = all_sentences(*task, Split::train, 0), test = all_sentences(*task, Split::test, 0),
             validation = all_sentences(*task, Split::validation, 0);
  CHECK(train.size() == 30);
  CHECK(test.size() == 15);
  CHECK(validation.size() == 5);
  CHECK(all_sentences(*task, Split::train, 1) == train);
  const auto first = [&](std::int64_t epoch) { return sentences_of(task->batch(Split::train, 3, epoch, 0)); };
  CHECK(first(0) != first(1));
  CHECK(first(0) == first(0));
}

TEST_CASE("what fills a batch up changes neither loss nor gradient, bit for bit") {
  for (const char* cell : {"lstm", "gru", "mgu"}) {
    CAPTURE(cell);
    LabelOptions o = small_options();
    o.model.cell = cell;
    const auto task = small_label(o);
    const Batch batch = task->batch(Split::train, 3, 0, task->n_batches(Split::train) - 1);
    REQUIRE(batch.inputs.at("ids").shape()[0] > batch.inputs.at("lengths").at(0));
    const TensorMap plain = loss_and_gradients(*task, batch);
    CHECK(plain.at("loss").at(0) > 0.5);
    CHECK(same_bits(plain, loss_and_gradients(*task, with_padding(batch, 0))));
    CHECK(same_bits(plain, loss_and_gradients(*task, with_padding(batch, 3))));
  }
}

TEST_CASE("the last token of a short sentence sees the first one and the other way round") {
  const auto task = small_label();
  for (const std::int64_t changed : {0, 1}) {  // of a sentence of two or more tokens
    Batch batch = task->batch(Split::train, 3, 0, 0);
    const TensorMap before = loss_and_gradients(*task, batch);
    Tensor& ids = batch.inputs.at("ids");
    ids.set(changed * ids.shape()[1], 5 - ids.at(changed * ids.shape()[1]));
    CHECK_FALSE(same_bits(before, loss_and_gradients(*task, batch)));
  }
}

TEST_CASE("F1 is what scikit-learn gives for its own example, and leaves out the outside class and padding") {
  const std::vector<std::int32_t> labels{0, 1, 2, 0, 1, 2, -1}, predicted{0, 2, 1, 0, 0, 1, 2};
  const auto all = class_metrics(predicted, labels, {3, -1});
  CHECK(all.at("f1_macro") == doctest::Approx(0.8 / 3));  // f1_score(..., average="macro") = 0.26...
  CHECK(all.at("f1_micro") == doctest::Approx(1.0 / 3));
  CHECK(all.at("accuracy") == doctest::Approx(1.0 / 3));
  // Without class 0: no hit, and 1 and 2 occur.
  CHECK(class_metrics(predicted, labels, {3, 0}).at("f1_macro") == 0);
  const auto perfect = class_metrics(labels, labels, {5, 0});  // classes 3 and 4 never occur and do not count
  CHECK(perfect.at("f1_macro") == 1);
}

TEST_CASE("the graph's metrics, summed over batches, are those of the labels that a labeler gives") {
  for (const char* outside : {"", "none"}) {
    LabelOptions o = small_options();
    o.outside = outside;
    const auto task = small_label(o);
    const auto backend = make_backend("cpu");
    Trainer trainer(task, *backend, small_training(25));
    trainer.fit();
    const Lexicon words = Lexicon::from_lines(task->metadata().at("vocabulary"), "t"),
                  labels = Lexicon::from_lines(task->metadata().at("labels"), "t");
    Labeler labeler(task->metadata(), trainer.parameters(), *backend);
    std::vector<std::int32_t> predicted, wanted;
    for (const Sentence& s : all_sentences(*task, Split::test, 0)) {
      std::vector<std::string> tokens;
      for (const std::int32_t id : s.ids) tokens.push_back(words.text(id));
      for (const std::string& label : labeler.label(tokens)) predicted.push_back(labels.id(label));
      wanted.insert(wanted.end(), s.labels.begin(), s.labels.end());
    }
    const ClassSet classes{labels.size(), *outside ? labels.id(outside) : -1};
    const auto host = class_metrics(predicted, wanted, classes);
    const auto graph = trainer.evaluate(Split::test).metrics;
    REQUIRE(graph.size() == 3);
    for (const auto& metric : graph) {
      CAPTURE(metric.first);
      CHECK(metric.second == doctest::Approx(host.at(metric.first)).epsilon(1e-6));
    }
  }
}

TEST_CASE("a labeler learns what depends on the word before, and beats the baselines") {
  LabelOptions o = small_options();
  o.model.hidden = 12;
  const auto task = small_label(o);
  const auto backend = make_backend("cpu");
  Trainer trainer(task, *backend, small_training(300));
  trainer.fit();
  const double accuracy = trainer.evaluate(Split::test).metrics.at("accuracy");
  CHECK(accuracy > 0.95);
  for (const auto& [method, metrics] : task->baselines(Split::test)) CHECK(metrics.at("accuracy") < 0.8);
  Labeler labeler(task->metadata(), trainer.parameters(), *backend);
  CHECK(labeler.label(labeler.cut(" w0 w3\tw0  ")) == std::vector<std::string>{"none", "up", "down"});
  CHECK(labeler.label({}).empty());
  const std::vector<std::string> long_one(4097, "w0");
  CHECK_THROWS_WITH_AS(labeler.label(long_one), doctest::Contains("4096"), Error);
}

TEST_CASE("most_frequent_of_token knows each token's usual label") {
  LabelOptions o = small_options();
  std::string text;
  for (int i = 0; i < 20; ++i) text += "a\tx\nb\ty\na\tx\n\n";
  const auto baselines = make_label(o, text, "t")->baselines(Split::test);
  CHECK(baselines.at("most_frequent").at("accuracy") == doctest::Approx(2.0 / 3));
  CHECK(baselines.at("most_frequent_of_token").at("f1_macro") == 1);
}

TEST_CASE("tokens may be characters, which a plain line is then cut into") {
  LabelOptions o = small_options();
  o.tokens = "characters";
  std::string text;
  for (int i = 0; i < 30; ++i) text += "a\tvowel\n\xC3\xA9\tvowel\nb\tother\n\n";
  const auto task = make_label(o, text, "t");
  const auto backend = make_backend("reference");
  Trainer trainer(task, *backend, small_training(1));
  Labeler labeler(task->metadata(), trainer.parameters(), *backend);
  CHECK(labeler.cut("a \xC3\xA9") == std::vector<std::string>{"a", " ", "\xC3\xA9"});
  CHECK_THROWS_WITH_AS(make_label(o, text + "ab\tvowel\n", "t"), doctest::Contains("line 121"), Error);
}

TEST_CASE("a line that is not UTF-8 is refused with its byte, by models of words and of characters") {
  for (const char* tokens : {"words", "characters"}) {
    CAPTURE(tokens);
    LabelOptions o = small_options();
    o.tokens = tokens;
    std::string text;
    for (int i = 0; i < 30; ++i) text += "a\tx\nb\ty\n\n";
    const auto task = make_label(o, text, "t");
    const auto backend = make_backend("reference");
    Trainer trainer(task, *backend, small_training(1));
    Labeler labeler(task->metadata(), trainer.parameters(), *backend);
    CHECK_THROWS_WITH_AS(labeler.cut("a \xFF"), doctest::Contains("not UTF-8 at byte 3"), Error);
  }
}

namespace {

struct LabelForm {
  const char* name;  // of the file
  const char *before, *token, *between, *label, *after;  // around each token
  const char* found;                                     // in the notes
};
// Twenty sentences of three tokens, in a form.
std::string text_in(const LabelForm& form) {
  constexpr std::array<std::pair<const char*, const char*>, 3> k_tokens{
      {{"EU", "B-ORG"}, {"rejects", "O"}, {"German", "B-MISC"}}};
  std::string text = form.before;
  for (int s = 0; s < 20; ++s) {
    for (std::size_t t = 0; t < k_tokens.size(); ++t) {
      const auto& [token, label] = k_tokens[(t + static_cast<std::size_t>(s)) % k_tokens.size()];
      // The column of sentences has a text at the first token of each.
      text += std::string(form.token[0] == '#' ? (t == 0 ? "Sentence: " + std::to_string(s) + "," : ",") : form.token) +
              token + form.between + label + form.label;
    }
    text += form.after;
  }
  return text;
}

}  // namespace

TEST_CASE("files of labels as people have them give the sentences of the plain form, and say how they were read") {
  const LabelForm plain = {"l.tsv", "", "", "\t", "\n", "\n", "2 columns between tabs"};
  const LabelForm forms[] = {
      {"l.tsv", "", "", "\t", " \n", "\n", "label in column 2, no header"},
      {"l.tsv", "", "", "\t ", "\r\n", "\r\n", "2 columns between tabs"},
      {"l.tsv", "\xEF\xBB\xBF", "", "\t", "\n", "\n\xEF\xBB\xBF", "2 columns between tabs"},
      {"l.tsv", "word\ttag\n", "", "\t", "\n", "\n", "header found"},
      {"l.tsv", "Token\tNER_tag\n\n", "", "\t", "\n", "\n", "header found"},
      {"l.tsv", "# a comment\n", "", "\t", "\n", "\n# sent_id = 7\n", "21 comments skipped"},
      {"l.tsv", "", "", "\t", "\n", "   \n", "2 columns between tabs"},
      {"l.tsv", "", "", "\t", "\n", "\t\n", "2 columns between tabs"},
      {"l.txt", "", "", " ", "\n", "\n", "2 columns between blanks"},
      {"l.txt", "", "", "    ", " \n", " \n", "2 columns between blanks"},
      {"l.conll", "-DOCSTART- -X- -X- O\n\n", "", " NNP B-NP ", "\n", "\n",
       "4 columns between blanks, token in column 1, label in column 4, no header; 1 -DOCSTART- line skipped"},
      {"l.conll", "", "", "\tNNP\tB-NP\t", "\n", "\n-DOCSTART-\tO\n\n", "20 -DOCSTART- lines skipped"},
      {"l.csv", "", "\"", "\",\"", "\"\n", "\n",
       "2 columns between commas, token in column 1, label in column 2, no header"},
      {"l.csv", "token;label\n", "", ";", "\n", ";\n", "2 columns between semicolons"},
      {"ner.csv", "Sentence #,Word,POS,Tag\n", "#", ",NNP,", "\n", "",
       "token in column 2, label in column 4, header found, sentences in column 1"},
      {"ner", "Sentence #,Word,POS,Tag\n", "#", ",NNP,", "\n", "", "4 columns between commas"},
  };
  const LabelOptions o = small_options();
  const std::shared_ptr<const Task> wanted = make_label(o, text_in(plain), plain.name);
  for (const LabelForm& form : forms) {
    const std::string text = text_in(form);
    CAPTURE(text);
    const std::shared_ptr<const Task> task = make_label(o, text, form.name);
    CHECK(task->metadata() == wanted->metadata());
    CHECK(all_sentences(*task, Split::train, 0) == all_sentences(*wanted, Split::train, 0));
    CHECK_MESSAGE(task->notes()[0].find(form.found) != std::string::npos, task->notes()[0]);
    CHECK(check_data(o, text, form.name).findings.size() == check_data(o, text_in(plain), plain.name).findings.size());
  }
}

TEST_CASE("columns whose meaning nothing tells are refused, and a label that only the first line has is doubtful") {
  const LabelOptions o = small_options();
  const auto refused = [&](const std::string& text, const std::string& name, const char* what) {
    CHECK_THROWS_WITH_AS(make_label(o, text, name), doctest::Contains(what), Error);
  };
  refused("1\tThe\tthe\tDET\n\n2\tcat\tcat\tNOUN\n", "l.conllu", "4 columns, and neither a header that names");
  refused("1\tThe\tthe\tDET\n", "l.conllu", "awk -F'\\t' '!/^#/ && NF {$0 = $2 \"\\t\" $4} 1' OLD > NEW");
  refused("one\ntwo\n", "l.txt", "line 1: expected a token, one tab and its label");
  refused("EU B-ORG\nrejects\n", "l.txt", "line 2: expected a token, one tab and its label");
  refused("EU NNP O\nrejects VB B-NP O\n", "l.txt", "line 2: 4 columns, but the first line has 3");
  refused("a,\"O\nb,O\n", "l.csv", "line 1:");
  const std::string text = "Wort\tEtikett\n" + small_sentences();
  CHECK(make_label(o, text, "l.tsv")->warnings() ==
        std::vector<std::string>{
            "line 1 has a label that occurs nowhere else, 'Etikett': if the line is a header, remove it"});
  const DataCheck check = check_data(o, text, "l.tsv");
  const auto warns = [](const DataCheck& data, std::string_view what) {
    return std::any_of(data.findings.begin(), data.findings.end(),
                       [&](const DataFinding& f) { return !f.error && f.what.find(what) != std::string::npos; });
  };
  CHECK(warns(check, "line 1 has a label"));
  std::string mixed, iob1;
  for (int i = 0; i < 9; ++i) {
    mixed += "a\tB-X\nb\tI-X\nc\tO\nd\tI-X\n\n";
    iob1 += "a\tI-X\nb\tB-X\nc\tO\nd\tI-Y\n\n";
  }
  CHECK(warns(check_data(o, mixed, "l.tsv"), "9 entities begin with B- (IOB2), 9 entities with I- (IOB1)"));
  CHECK_FALSE(warns(check_data(o, iob1, "l.tsv"), "IOB1"));
}

TEST_CASE("a crf of so many labels that its pairs take minutes is refused, and one of many says what it costs") {
  LabelOptions o = small_options();
  o.output = "crf";
  o.label_smoothing = 0;
  const auto with = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "t\tL" + std::to_string(i) + "\n\n";
    return text;
  };
  CHECK_THROWS_WITH_AS(make_label(o, with(1025), "l.tsv"), doctest::Contains("1025 labels are 1050625 pairs"), Error);
  CHECK(make_label(o, with(200), "l.tsv")->warnings().back().find("scores 40000 pairs") != std::string::npos);
  CHECK(make_label(o, with(20), "l.tsv")->warnings().empty());
}

TEST_CASE("bad labeled files and options are refused with the line or the rule") {
  const LabelOptions o = small_options();
  const std::string good = "a\tx\n\nb\ty\n\nc\tx\n\nd\ty\n";
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\n\nb y\n", "l.tsv"), doctest::Contains("line 3: expected a token"), Error);
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\nb\ty\tz\n", "l.tsv"), doctest::Contains("line 2: expected a token"), Error);
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\n\ty\n", "l.tsv"), doctest::Contains("line 2: the token is empty"), Error);
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\r\nb\t\r\n", "l.tsv"), doctest::Contains("line 2: the label is empty"),
                       Error);
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\n \t  \nb\ty\n", "l.tsv"), doctest::Contains("line 2: the label is empty"),
                       Error);  // a blank line that separates nothing
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\n\nb\xFF\ty\n", "l.tsv"), doctest::Contains("line 3: is not UTF-8"), Error);
  CHECK_THROWS_WITH_AS(make_label(o, "\n\n", "l.tsv"), doctest::Contains("has no sentences"), Error);
  CHECK_THROWS_WITH_AS(make_label(o, "a\tx\n", "l.tsv"), doctest::Contains("no rows are left for training"), Error);
  LabelOptions outside = o;
  outside.outside = "O";
  CHECK_THROWS_WITH_AS(make_label(outside, good, "l.tsv"), doctest::Contains("outside label 'O'"), Error);
  const Metadata fitted = make_label(o, good, "l.tsv")->metadata();
  CHECK_THROWS_WITH_AS(make_label(o, good + "\ne\tz\n", "l.tsv", fitted),
                       doctest::Contains("line 9: the model has no label 'z'"), Error);
}

}  // namespace test_label
