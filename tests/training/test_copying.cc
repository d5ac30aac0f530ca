// SPDX-License-Identifier: Apache-2.0
// Translation with the decoder's options: gradients, an extended vocabulary, copying of unknown words.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/tasks/decode/pair_text.h"
#include "tests/training/attention_networks.h"
#include "tests/training/small_summaries.h"
#include "tests/training/small_tasks.h"
#include "tests/training/text_scorer.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

using Tokens = std::vector<std::int32_t>;

const std::string k_named = "the rain of spain came";  // rain and spain are unknown
TranslateOptions name_options() {
  TranslateOptions o;
  o.tokens = "words";
  o.model.hidden = 24;
  o.embedding = 12;
  o.batch = 8;
  o.test = 0.1;
  o.pointer = true;
  return o;
}

}  // namespace

TEST_CASE("gradients of the network are those by differences, in f64, with words that the vocabulary lacks") {
  for (const char* attention : {"dot", "additive"})
    for (const bool input_feeding : {false, true})
      for (const bool pointer : {false, true}) {
        CAPTURE(attention);
        CAPTURE(input_feeding);
        CAPTURE(pointer);
        AttentionNetwork n;
        n.model = {.cell = "lstm", .hidden = 3, .layers = 2, .bidirectional = true};
        n.attention = attention;
        n.embedding = 2;
        n.sources = 7;
        n.targets = 8;
        n.input_feeding = input_feeding;
        n.pointer = pointer;
        n.coverage = input_feeding && n.attention == "additive";
        n.tied = pointer;
        CHECK(worst_gradient(n) < k_worst_gradient);
      }
}

TEST_CASE("a source word has its number in the target vocabulary or, where that lacks it, one of its own") {
  TranslateOptions o = name_options();
  std::string text;
  for (int i = 0; i < 12; ++i) text += i % 2 == 0 ? "a b a\ta c\n" : "b\tc\n";
  const PairCoder coder = PairCoder::of(make_translate(o, text, "words")->metadata());
  const auto V = static_cast<std::int32_t>(coder.tokens());
  CHECK(coder.source_tokenizer().size() == 3);  // a, b and the unknown token
  CHECK(V == 4);                                // a, c, the unknown token and the end
  const std::int32_t unknown = coder.target_tokenizer().unknown();
  const Tokens known = coder.target("a c", {}, "test").ids;
  const SourceTokens source = coder.source("a b c x b", "test");
  CHECK(source.n_unknown == 2);  // c and x
  CHECK(source.copies == Tokens{known[0], V, known[1], V + 1, V});
  CHECK(source.extended == std::vector<std::string>{" b", " x"});
  CHECK(coder.target("x a y b", source, "test").ids == Tokens{V + 1, known[0], unknown, V});
  CHECK(coder.text_of(source.copies, source) == "a b c x b");
  CHECK(coder.known(V + 1) == unknown);
  CHECK(coder.source_words("a b c x b", source) == std::vector<std::string>{" a", " b", " c", " x", " b"});

  o.pointer = false;
  const PairCoder plain = PairCoder::of(make_translate(o, text, "words")->metadata());
  CHECK(plain.target("x", plain.source("x", "test"), "test").ids == Tokens{unknown});
}

TEST_CASE("every tokenizer copies: a token without a place in the target vocabulary has a number, or is not copied") {
  for (const char* tokens : {"characters", "bytes", "bpe"}) {
    CAPTURE(tokens);
    TranslateOptions o = name_options();
    o.tokens = tokens;
    o.scheduled_sampling = 0.5;
    std::string text;
    for (int i = 0; i < 30; ++i) text += i % 2 == 0 ? "abcabc abc\txy xy\n" : "abc\txyz\n";
    const Trained m(make_translate(o, text, "letters"), 3);
    const PairCoder coder = PairCoder::of(m.metadata);
    const SourceTokens source = coder.source("abc x", "test");
    CHECK(source.extended.empty() == (std::string(tokens) != "characters"));
    CHECK((std::count(source.copies.begin(), source.copies.end(), k_no_source) > 0) == (std::string(tokens) == "bpe"));
    if (std::string(tokens) != "bpe") CHECK(coder.text_of(source.copies, source) == "abc x");
    Translator translator(m.metadata, m.parameters, *m.backend);
    const std::string line[] = {"abc \xC3\xA9 x"};
    const auto result = translator.predict(line, {.beam = 4})[0];
    for (const ScoredText& target : result.targets)
      CHECK(target.text.find("\xEF\xBF\xBD") == std::string::npos);
  }
}

TEST_CASE("a model with a pointer learns to copy names that it has never seen, one without does not") {
  for (const bool input_feeding : {false, true})
    for (const bool pointer : {true, false}) {
      CAPTURE(input_feeding);
      CAPTURE(pointer);
      TranslateOptions o = name_options();
      o.input_feeding = input_feeding;
      o.pointer = pointer;
      const Trained m(make_translate(o, small_summaries(400, "kam", "ging"), "names"), 150);
      Translator translator(m.metadata, m.parameters, *m.backend);
      std::vector<std::string> sources, targets;
      dynamic_cast<const PairTask&>(*m.task).for_each_pair(Split::test, [&](const PairTask::Pair& pair) {
        sources.push_back(pair.source);
        targets.push_back(pair.target);
      });
      for (const std::int64_t beam : {1, 4}) {
        const auto results = translator.predict(sources, {.beam = beam});
        std::size_t right = 0;
        for (std::size_t i = 0; i < targets.size(); ++i) right += results[i].text == targets[i];
        if (pointer) CHECK(right * 10 >= targets.size() * 9);
        else CHECK(right == 0);
      }
      if (!pointer) continue;
      CHECK(translator.translate(k_named) == "rain kam");
      const Translator::Attention a = translator.attention(k_named, "rain kam");
      CHECK(a.source == std::vector<std::string>{" the", " rain", " of", " spain", " came"});
      CHECK(a.target == std::vector<std::string>{" rain", " kam", ""});
      REQUIRE(a.weights.size() == 15);
      CHECK(a.weights[1] > 0.5);  // " rain" is copied from the second word
      REQUIRE(a.p_gen.size() == 3);
      CHECK(a.p_gen[0] < 0.1);
    }
}

TEST_CASE("what a search with a pointer writes has the probability that the network gives it, in a batch and alone") {
  const std::vector<std::string> lines{k_named, "", "the a of b left", "x", "today the c of d came today the c of d"};
  struct Row {
    const char* attention;
    bool input_feeding, coverage;
  };
  for (const Row& row : {Row{"additive", false, false}, Row{"dot", false, false}, Row{"additive", true, true},
                         Row{"dot", true, false}}) {
    CAPTURE(row.attention);
    CAPTURE(row.input_feeding);
    TranslateOptions o = name_options();
    o.model.hidden = 8;
    o.model.layers = 2;
    o.attention = row.attention;
    o.input_feeding = row.input_feeding;
    o.coverage = row.coverage;
    Scorer s(Trained(make_translate(o, small_summaries(60, "kam", "ging"), "names"), 15), k_named);
    Translator translator(s.trained.metadata, s.trained.parameters, *s.trained.backend);
    for (const DecodeOptions& how : {DecodeOptions{.max_length = 6}, DecodeOptions{.beam = 3, .max_length = 6}}) {
      const auto many = translator.predict(lines, how);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        CAPTURE(lines[i]);
        s.source = s.coder.source(lines[i], "test");
        const auto one = translator.predict({&lines[i], 1}, how)[0];
        REQUIRE(one.targets.size() == many[i].targets.size());
        CHECK(one.targets.empty() == lines[i].empty());
        for (std::size_t k = 0; k < one.targets.size(); ++k) {
          const ScoredText& target = one.targets[k];
          CHECK(target.text == many[i].targets[k].text);
          CHECK(target.text.find("\xEF\xBF\xBD") == std::string::npos);
          CHECK(target.log_probability == doctest::Approx(many[i].targets[k].log_probability).epsilon(1e-4));
          const Tokens text = s.coder.target(target.text, s.source, "test").ids;
          if (text.size() < 6)  // else it is cut and has no end
            CHECK(target.log_probability == doctest::Approx(s.score(text).log_probability).epsilon(1e-4));
        }
      }
    }
  }
}

TEST_CASE("models of before there was a pointer still translate") {
  TranslateOptions o = name_options();
  o.tokens = "characters";
  o.pointer = false;
  const Trained m(make_translate(o, small_summaries(), "before"), 20);
  Metadata before = m.metadata;
  for (const char* key : {"chunk", "input_feeding", "pointer", "coverage", "shared_embedding"})
    REQUIRE(before.erase(key) == 1);
  const std::string lines[] = {"abc", "ccab"};
  const auto now = Translator(m.metadata, m.parameters, *m.backend).predict(lines);
  const auto then = Translator(before, m.parameters, *m.backend).predict(lines);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(then[i].text == now[i].text);
    CHECK(then[i].log_probability == now[i].log_probability);
  }
}
