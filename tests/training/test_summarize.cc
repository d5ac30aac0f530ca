// SPDX-License-Identifier: Apache-2.0
// Training of the pointer-generator network: extended vocabularies, batches, masks, gradients, resume, data.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/tasks/decode/attention_network.h"
#include "core/tasks/decode/pair_text.h"
#include "tests/support/memory_vfs.h"
#include "tests/training/attention_networks.h"
#include "tests/training/small_summaries.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/data/data_check.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

using Ids = std::vector<std::int32_t>;

std::shared_ptr<const PairTask> small_summarize(const SummarizeOptions& o = small_summary_options()) {
  return make_summarize(o, small_summaries(), "small summaries");
}

PairCoder coder_of(const PairTask& task) { return PairCoder::of(task.metadata()); }

std::size_t n_pairs(const PairTask& task, Split split) {
  std::size_t n = 0;
  task.for_each_pair(split, [&](const PairTask::Pair&) { ++n; });
  return n;
}

}  // namespace

TEST_CASE("every pair is in one split and once in an epoch") {
  const auto task = small_summarize();
  const std::size_t train = n_pairs(*task, Split::train);
  CHECK(train + n_pairs(*task, Split::validation) + n_pairs(*task, Split::test) == 60);
  const std::int32_t end = coder_of(*task).end();
  for (const std::int64_t epoch : {0, 1}) {
    std::int64_t sources = 0, ends = 0;
    for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
      const Batch b = task->batch(Split::train, 1, epoch, i);
      for (const std::int32_t length : b.inputs.at("lengths").values<std::int32_t>()) sources += length > 0;
      for (const std::int32_t label : b.inputs.at("labels").values<std::int32_t>()) ends += label == end;
    }
    CHECK(sources == static_cast<std::int64_t>(train));
    CHECK(ends == sources);
  }
}

TEST_CASE("words that the vocabulary lacks have numbers of their own, by source") {
  const auto task = make_summarize({}, "a b a b\tb a\na b\ta\na b a\tb b\na b\ta\na\tb\na a\tb\n", "words");
  const PairCoder coder = coder_of(*task);
  const auto V = static_cast<std::int32_t>(coder.tokens());
  const std::int32_t unknown = coder.target_tokenizer().unknown();
  CHECK(V == 4);  // a, b, the unknown token and the end
  const SourceTokens source = coder.source("x a y x b", "test");
  CHECK(source.ids == Ids{unknown, source.ids[1], unknown, unknown, source.ids[4]});
  CHECK(source.copies == Ids{V, source.ids[1], V + 1, V, source.ids[4]});
  CHECK(source.extended == std::vector<std::string>{" x", " y"});
  CHECK(coder.target("y z a", source, "test").ids == Ids{V + 1, unknown, source.ids[1]});
  CHECK(coder.text_of(Ids{V + 1, source.ids[1], V}, source) == "y a x");
  CHECK(coder.known(V + 1) == unknown);
  CHECK(coder.known(source.ids[1]) == source.ids[1]);
  const SourceTokens none = coder.source("a b", "test");
  CHECK(none.extended.empty());
  CHECK(none.copies == none.ids);
}

TEST_CASE("characters can be copied as well, and bytes are never unknown") {
  for (const char* tokens : {"characters", "bytes", "bpe"}) {
    SummarizeOptions o;
    o.tokens = tokens;
    o.min_count = 1;
    const auto task = make_summarize(o, "ab\tb\nba\ta\nab\tb\nba\ta\nab\tb\n", "letters");
    const PairCoder coder = coder_of(*task);
    const SourceTokens source = coder.source("aéb", "test");
    CHECK(coder.text_of(source.copies, source) == "aéb");
    CHECK(source.n_unknown == (std::string(tokens) == "characters" ? 1 : 0));
  }
}

TEST_CASE("what fills sources and targets up changes neither loss nor gradient, bit for bit") {
  for (const bool pointer : {true, false})
    for (const std::int64_t chunk : {0, 4}) {
      CAPTURE(pointer);
      CAPTURE(chunk);
      SummarizeOptions o = small_summary_options();
      o.pointer = o.coverage = pointer;
      o.chunk = chunk;
      o.scheduled_sampling = chunk > 0 ? 0.5 : 0;
      const auto task = small_summarize(o);
      const Batch batch = task->batch(Split::train, 1, 0, 1);
      const TensorMap plain = loss_and_gradients(*task, batch);
      CHECK(plain.at("loss").at(0) > 0.5);
      CHECK(same_bits(plain, loss_and_gradients(*task, with_other_padding(batch))));
    }
}

TEST_CASE("chunks as long as the source change nothing, shorter ones do") {
  const auto loss = [](std::int64_t chunk) {
    SummarizeOptions o = small_summary_options();
    o.chunk = chunk;
    const auto task = small_summarize(o);
    return loss_and_gradients(*task, task->batch(Split::train, 1, 0, 0)).at("loss").at(0);
  };
  CHECK(loss(0) == loss(64));
  CHECK(loss(0) != loss(2));
}

TEST_CASE("scheduled sampling reads what the network predicts, all of it at 1, none at 0") {
  for (const bool pointer : {true, false}) {
    CAPTURE(pointer);
    SummarizeOptions o = small_summary_options();
    o.pointer = o.coverage = pointer;
    const auto loss = [&](double share, const char* schedule = "constant", std::int64_t batches = 1) {
      o.scheduled_sampling = share;
      o.sampling_schedule = schedule;
      o.sampling_batches = batches;
      const auto task = small_summarize(o);
      return loss_and_gradients(*task, task->batch(Split::train, 1, 0, 0)).at("loss").at(0);
    };
    CHECK(loss(0) != loss(0.5));
    CHECK(loss(0.5) != loss(1));
    CHECK(loss(0.8, "linear", 4) == loss(0.4));  // the key of batch 2, from 0
    CHECK_THROWS_WITH_AS(loss(0.5, "cosine"), doctest::Contains("inverse-sigmoid"), Error);
    CHECK_THROWS_WITH_AS(loss(2), doctest::Contains("train.scheduled_sampling is 2. It must"), Error);
  }
}

TEST_CASE("the likeliest word is written or copied, whichever is more probable") {
  AttentionNetwork n;
  n.input_feeding = true;
  n.targets = 3;
  for (const bool pointer : {true, false}) {
    n.pointer = pointer;
    Graph graph;
    const auto input = [&](const char* name, DType type, const Shape& shape) {
      return graph.input(name, {type, shape});
    };
    const AttentionNetwork::Written w{input("logits", DType::f32, {1, 3, 3}),
                                      pointer ? input("switched", DType::f32, {1, 3, 1}) : Value(),
                                      input("weights", DType::f32, {1, 3, 2}),
                                      {}};
    graph.output("ids", n.likeliest(w, pointer ? input("words", DType::i32, {3, 2}) : Value()));
    // Lane 0 writes, lane 1 copies its second place, lane 2 copies its first one although the gate is even.
    TensorMap feed{{"logits", Tensor::from<float>({1, 3, 3}, {0, 5, 0, 5, 0, 0, 1, 1.1F, 1})},
                   {"weights", Tensor::from<float>({1, 3, 2}, {0.9F, 0.1F, 0.2F, 0.8F, 0.7F, 0.3F})}};
    if (pointer) {
      feed.emplace("switched", Tensor::from<float>({1, 3, 1}, {4, -4, 0}));
      feed.emplace("words", Tensor::from<std::int32_t>({3, 2}, {2, 2, 0, 2, 2, 0}));
    }
    const auto backend = make_backend("reference");
    const auto ids = Program(graph, *backend).run(feed).at("ids");
    const auto found = ids.values<std::int32_t>();
    CHECK(Ids(found.begin(), found.end()) == (pointer ? Ids{1, 2, 2} : Ids{1, 0, 1}));
  }
}

TEST_CASE("dropout acts in training only, and no word is dropped from the source") {
  SummarizeOptions o = small_summary_options();
  o.model.dropout = 0.5;
  const auto dropped = small_summarize(o), plain = small_summarize();
  const Batch batch = plain->batch(Split::train, 1, 0, 0);
  CHECK(loss_and_gradients(*dropped, batch).at("loss").at(0) != loss_and_gradients(*plain, batch).at("loss").at(0));
}

TEST_CASE("gradients of the network are those by differences, in f64") {
  for (const std::string cell : {"lstm", "gru", "mgu"})
    for (const bool coverage : {false, true}) {
      CAPTURE(cell);
      CAPTURE(coverage);
      AttentionNetwork n;
      n.model = {.cell = cell, .hidden = 3, .layers = coverage ? 1 : 2, .bidirectional = true};
      n.embedding = 3;
      n.sources = n.targets = 8;
      n.chunk = coverage ? 0 : 3;
      n.input_feeding = n.pointer = true;
      n.coverage = coverage;
      n.shared_embedding = coverage;
      n.tied = coverage;
      CHECK(worst_gradient(n) < k_worst_gradient);
    }
}

TEST_CASE("a resumed run is byte for byte the one that was not interrupted") {
  const auto run = [](Vfs& vfs, std::int64_t updates, bool resume) {
    TrainerOptions o = small_training(14);
    o.folder = "run";
    o.vfs = &vfs;
    o.resume = resume;
    o.max_updates = updates;
    const auto backend = make_backend("cpu", {.threads = 2});
    Trainer(small_summarize(), *backend, o).fit();
    const Bytes bytes = vfs.read("run/last.safetensors", 1u << 24);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  MemoryVfs whole, parts;
  const std::string expected = run(whole, 14, false);
  TrainerOptions o = small_training(14);
  o.folder = "run";
  o.vfs = &parts;
  o.stop_at = 5;
  const auto backend = make_backend("cpu", {.threads = 1});
  Trainer(small_summarize(), *backend, o).fit();
  CHECK(run(parts, 14, true) == expected);
}

TEST_CASE("texts beyond the limits are cut, and the notes say how many") {
  SummarizeOptions o = small_summary_options();
  o.source_tokens = 3;
  o.target_tokens = 1;
  const auto task = small_summarize(o);
  const Batch b = task->batch(Split::train, 1, 0, 0);
  for (const std::int32_t length : b.inputs.at("lengths").values<std::int32_t>()) CHECK(length <= 3);
  const std::vector<std::string> notes = task->notes();
  REQUIRE(notes.size() == 3);
  CHECK(notes[1] == "60 sources of 60 cut to source_tokens = 3");
  CHECK(notes[2] == "60 targets of 60 cut to target_tokens = 1");
  CHECK(coder_of(*task).source("the a of b came", "test").cut == 2);
}

TEST_CASE("a column names the splits, and others the sides") {
  SummarizeOptions o;
  o.split = "1";
  o.min_count = 1;
  const auto task = make_summarize(o, "train\ta b\ta\ntest\tc d\tc\ntrain\te f\te\nvalidation\tg\tg\n", "three.tsv");
  CHECK(n_pairs(*task, Split::train) == 2);
  CHECK(n_pairs(*task, Split::validation) == 1);
  task->for_each_pair(Split::test, [](const PairTask::Pair& pair) {
    CHECK(pair.source == "c d");
    CHECK(pair.target == "c");
  });
  o.split = "part";
  o.source = "body";
  const auto named = make_summarize(o, "title,part,body\n\"A, b\",train,\"x, y\"\nC,test,z\n", "named.csv");
  named->for_each_pair(Split::train, [](const PairTask::Pair& pair) {
    CHECK(pair.source == "x, y");
    CHECK(pair.target == "A, b");
  });
  o = {};
  o.split = "1";
  CHECK_THROWS_WITH_AS(make_summarize(o, "train\ta\tb\ndev\tc\td\n", "p.tsv"),
                       doctest::Contains("line 2: the split is 'dev'"), Error);
  CHECK_THROWS_WITH_AS(make_summarize(o, "test\ta\tb\n", "p.tsv"), doctest::Contains("no row has the split 'train'"),
                       Error);
  CHECK_THROWS_WITH_AS(make_summarize(o, "a\tb\n", "p.tsv"), doctest::Contains("must be a third one"), Error);
  o.test = split_from_text("a\tb\tc\n", "t.tsv");
  CHECK_THROWS_WITH_AS(make_summarize(o, "train\ta\tb\n", "p.tsv"), doctest::Contains("by a column and by files"),
                       Error);
}

TEST_CASE("bad pairs and options are refused with the line or the rule") {
  const SummarizeOptions o;
  const auto refuses = [&](const std::string& text, const char* what) {
    CHECK_THROWS_WITH_AS(make_summarize(o, text, "p.tsv"), doctest::Contains(what), Error);
  };
  refuses("a\tb\n\nab\n", "line 3: expected a source, one tab and its target");
  refuses("a\tb\n\tb\n", "line 2: the source is empty");
  refuses("a\t\n", "line 1: the target is empty");
  refuses("a\xFF\tb\n", "line 1: is not UTF-8");
  refuses("", "has no pairs");
  refuses(std::string((1u << 20) + 1, 'a') + "\tb\n", "line 1: the source has more than 1048576 bytes");
  const auto refuses_option = [](auto change, const char* what) {
    SummarizeOptions other = small_summary_options();
    change(other);
    CHECK_THROWS_WITH_AS(small_summarize(other), doctest::Contains(what), Error);
  };
  refuses_option([](auto& other) { other.tokens = "syllables"; }, "bpe");
  refuses_option([](auto& other) { other.source_tokens = 0; }, "source_tokens");
  refuses_option([](auto& other) { other.chunk = -1; }, "model.chunk is -1");
  refuses_option([](auto& other) { other.embedding = 0; }, "model.embedding is 0");
  refuses_option([](auto& other) { other.coverage_weight = -1; }, "coverage_weight");
  refuses_option([](auto& other) { other.label_smoothing = 1; }, "label_smoothing");
  refuses_option([](auto& other) { other.model.cell = "lsmt"; }, "unknown cell");
}

TEST_CASE("the data check counts what is cut, unknown and can be copied") {
  SummarizeOptions o = small_summary_options();
  o.target_tokens = 1;
  const DataCheck check = check_data(o, small_summaries(), "f");
  const auto figure = [&](const std::string& name) {
    for (const auto& [known, value] : check.figures)
      if (known == name) return value;
    FAIL("no figure " << name);
    return 0.0;
  };
  CHECK(figure("source tokens, 50 %") == 5);  // "the <name> of <name> came", a third of them after "today"
  CHECK(figure("source tokens, 90 %") == 6);
  CHECK(figure("target tokens, 99 %") == 2);  // before the cut
  CHECK(figure("sources cut") == 0);
  CHECK(figure("targets cut") == 1);
  CHECK(figure("unknown target tokens that can be copied") == 1);
  for (const DataFinding& finding : check.findings) {
    CAPTURE(finding.what);
    CHECK(finding.check == "vocabulary");  // names are in no vocabulary
    CHECK(!finding.error);
  }
  CHECK(check_data(o, "no tab\n", "f").findings.at(0).what.find("one tab") != std::string::npos);
}
