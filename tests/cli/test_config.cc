// SPDX-License-Identifier: Apache-2.0
// What a config accepts, refuses and says; hostile TOML; the reference page.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "frontends/config/config.h"
#include "frontends/config/run/job.h"
#include "frontends/config/toml_reader.h"
#include "tests/support/text.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace {

using namespace unroll;
using namespace unroll::testing;
using namespace unroll::cli;

Config config_of(const std::string& text) {
  Config config;
  config.apply_toml(text, "c.toml");
  return config;
}

// The error's text after checking its kind; empty when nothing was thrown.
std::string refusal(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  return "";
}
std::string file_refusal(const std::string& text) {
  return refusal(ErrorKind::input_file, [&] { config_of(text); });
}

}  // namespace

TEST_CASE("a config starts from the table's defaults and takes what the file says") {
  CHECK(Config().text("model.cell") == "lstm");
  CHECK(Config().is_default("model.hidden"));
  const Config config = config_of("[model]\nhidden = 7\nbidirectional = true\n[train]\nlr = 1\noptimizer = \"sgd\"\n");
  CHECK(config.integer("model.hidden") == 7);
  CHECK_FALSE(config.is_default("model.hidden"));
  CHECK(config.boolean("model.bidirectional"));
  CHECK(config.number("train.lr") == 1.0);
  CHECK(config.text("train.optimizer") == "sgd");
}

TEST_CASE("a kind of task may have a default of its own, which what is set goes before") {
  CHECK_FALSE(config_of("[task]\nkind = \"classify\"\n").boolean("model.bidirectional"));
  CHECK(config_of("[task]\nkind = \"label\"\n").boolean("model.bidirectional"));
  CHECK_FALSE(config_of("[model]\nbidirectional = false\n[task]\nkind = \"label\"\n").boolean("model.bidirectional"));
  Config config = config_of("[task]\nkind = \"label\"\n");
  CHECK(config.text("data.tokens") == "words");
  config.apply_setting("task.kind=forecast");
  CHECK_FALSE(config.boolean("model.bidirectional"));
}

TEST_CASE("a key has in each task the default of the task's options") {
  const auto of = [](const std::string& kind) { return config_of("[task]\nkind = \"" + kind + "\"\n"); };
  CHECK(of("document").integer("train.batch") == DocumentOptions().batch);
  CHECK(of("document").text("model.pooling") == DocumentOptions().pooling);
  CHECK(of("classify").text("data.missing") == ClassifyOptions().missing);
  CHECK(of("forecast").text("data.missing") == ForecastOptions().missing);
  CHECK(of("summarize").boolean("model.pointer") == SummarizeOptions().pointer);
  CHECK(of("language-model").number("data.test") == LanguageModelOptions().test.share);
  CHECK(of("translate").number("data.test") == TranslateOptions().test.share);
}

TEST_CASE("a key is read by the tasks whose options have its field") {
  const auto readers = [](std::string_view path) { return find_key(path)->uses; };
  CHECK(readers("data.outside") == k_label);
  CHECK(readers("data.steps") == (k_language_model | k_classify | k_regress));
  CHECK(readers("train.batch_tokens") == (k_label | k_translate | k_summarize | k_document));
  CHECK(readers("train.scheduled_sampling") == (k_translate | k_summarize));
  CHECK(readers("train.batch") == k_trained);
  CHECK(readers("train.lr") == k_trained);
  CHECK(readers("model.hidden") == k_every);
}

TEST_CASE("a key of the library fills the fields that its row names") {
  const Config config = config_of("[train]\nclip_norm = 0.5\nseed = 7\nmax_rollbacks = 9\nbatch = 3\n"
                                  "[model]\nlayers = 2\ncell = \"gru\"\nbias = false\n"
                                  "[data]\ncolumns = [\"a\", \"b\"]\n");
  TrainerOptions trainer;
  config.fill(trainer);
  config.fill(trainer.clip);
  CHECK(trainer.clip.norm == 0.5);
  CHECK(trainer.seed == 7);
  CHECK(trainer.max_rollbacks == 9);
  RecurrentModelOptions model;
  config.fill(model);
  CHECK(model.layers == 2);
  CHECK(model.cell == "gru");
  CHECK_FALSE(model.bias);
  ForecastOptions forecast;
  config.fill(forecast);
  CHECK(forecast.columns == std::vector<std::string>{"a", "b"});
  CHECK(forecast.batch == 3);
  TranslateOptions translate;
  config.fill<TextRowsOptions>(translate);
  CHECK(translate.batch == 3);
}

// Where the command and the library differ on purpose: a run of the command is estimated.
TEST_CASE("a field of the library has the default of the key that fills it") {
  std::vector<std::string_view> other;
  const TrainerOptions trainer;
  for (const Option& option : k_options<TrainerOptions>)
    if (default_value(*find_key(option.key.path)) != option.get(&trainer, option.key.allowed.words))
      other.push_back(option.key.path);
  CHECK(other == std::vector<std::string_view>{"run.estimate_seconds"});
}

TEST_CASE("every key of training reaches the options of the trainer") {
  const Config config = config_of("[train]\naverage = \"mean\"\non_bad = \"rollback\"\nprecision = \"bf16\"\n"
                                  "[run]\nchunk_steps = 16\nmemory_limit = \"1MiB\"\n");
  const TrainerOptions o = trainer_options(config);
  CHECK(o.average.kind == Average::mean);
  CHECK(o.on_bad == OnBad::rollback);
  CHECK(o.precision == Precision::bf16);
  CHECK(o.chunk_steps == 16);
  CHECK(o.memory_limit == 1 << 20);
  CHECK(trainer_options(Config()).estimate_seconds == 3);
}

TEST_CASE("every default lies in its own range and reads back from its own text") {
  for (const KeySpec& key : config_schema()) {
    CAPTURE(key.path);
    Config config;
    CHECK_NOTHROW(config.set(key.path, default_value(key), "test"));
    CHECK_FALSE(key.meaning.empty());
  }
}

TEST_CASE("a resolved config reads back to the same config") {
  Config config = config_of("[data]\npath = \"a \\\"b\\\" \\u0007 ü\"\n[train]\nlr = 3e-4\nseed = 123456789012\n");
  for (const unsigned uses : {k_every}) CHECK(config_of(config.toml(uses)) == config);
}

TEST_CASE("an unknown key is refused with its place and the nearest known one") {
  const std::string text = file_refusal("[model]\nhiden = 3\n");
  CHECK(mentions(text, "c.toml:2:1"));
  CHECK(mentions(text, "unknown key model.hiden"));
  CHECK(mentions(text, "Did you mean model.hidden?"));
  CHECK(mentions(file_refusal("hidden = 3"), "Did you mean model.hidden?"));
  CHECK(mentions(file_refusal("[train]\nmodel.lr = 3"), "Did you mean train.lr?"));
  CHECK(mentions(file_refusal("[model.hidden]\nx = 1"), "unknown key model.hidden.x"));
}

TEST_CASE("a name of other tools is answered with the key that does it, and nonsense with no key") {
  const std::pair<const char*, const char*> names[] = {
      {"train.learning_rate", "train.lr"},       {"train.batch_size", "train.batch"},
      {"train.num_epochs", "train.epochs"},      {"train.max_epochs", "train.epochs"},
      {"train.max_steps", "train.max_updates"},  {"train.early_stopping", "train.patience"},
      {"train.grad_clip", "train.clip_norm"},    {"train.max_grad_norm", "train.clip_norm"},
      {"train.scheduler", "train.schedule"},     {"train.warmup_steps", "train.warmup"},
      {"train.Learning-Rate", "train.lr"},       {"train.gradient_accumulation_steps", "train.accumulate"},
      {"train.optimiser", "train.optimizer"},    {"model.hidden_size", "model.hidden"},
      {"model.num_layers", "model.layers"},      {"model.rnn_type", "model.cell"},
      {"model.dropout_rate", "model.dropout"},   {"model.embedding_dim", "model.embedding"},
      {"data.sequence_length", "data.steps"},    {"data.lookback", "data.window"},
      {"data.val_split", "data.validation"},     {"data.delimiter", "data.separator"},
      {"data.vocab_size", "data.vocabulary"},    {"run.device", "run.backend"},
      {"train.mixed_precision", "train.precision"}, {"train.optimzer", "train.optimizer"},     {"trian.lr", "train.lr"},
      {"train.batch_tokens_max", "train.batch_tokens"}};
  for (const auto& pair : names) {
    const std::string given = pair.first, key = pair.second;
    CAPTURE(given);
    CHECK(nearest_key(given) == key);
    CHECK(mentions(file_refusal(given + " = 1"), "Did you mean " + key + "?"));
  }
  CHECK(nearest_key("train.zzqqxxkkww").empty());
  CHECK(mentions(file_refusal("train.zzqqxxkkww = 1"), "docs/config.md lists all keys"));
  CHECK_FALSE(mentions(file_refusal("train.zzqqxxkkww = 1"), "Did you mean"));
  for (const char* name : {"learning_rate", "batch-size", "epochs", "hidden_dim", "lookback"}) {
    CAPTURE(name);
    REQUIRE_FALSE(key_named(name).empty());
    CHECK(find_key(key_named(name)));
  }
}

TEST_CASE("a setting without effect is named with what it needs, others and defaults are not") {
  const auto lines = [](const std::string& settings) {
    Config config;
    config.apply_setting("task.kind=classify");
    std::istringstream words(settings);
    for (std::string word; words >> word;) config.apply_setting(word);
    std::string text;
    for (const std::string& line : config.settings_without_effect()) text += line + "\n";
    return text;
  };
  CHECK(lines("train.momentum=0.9") ==
        "train.momentum = 0.9 has no effect: it needs train.optimizer = sgd|rmsprop\n");
  const char* const without[] = {
      "train.beta1=0.8 train.optimizer=sgd",  "train.nesterov=true train.optimizer=sgd",
      "train.epsilon=1e-6 train.optimizer=lion", "train.alpha=0.9",
      "train.decay_vectors=true",             "train.final_fraction=0.1",
      "train.lr_factor=0.1 train.schedule=cosine", "train.min_lr=1e-5",
      "train.step_every=10",                  "train.plateau_patience=2 train.schedule=step",
      "train.average_decay=0.9",              "train.average_start=5",
      "train.loss_scale=8",                   "train.max_updates=5 train.epochs=2",
      "train.patience=3 train.validate_every=0", "train.max_rollbacks=2",
      "model.variational=true",               "model.stack=residual",
      "data.divide=4 data.normalize=true",    "run.chunk_steps=8"};
  for (const char* settings : without) {
    CAPTURE(settings);
    const std::string said = lines(settings);
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
    CHECK(mentions(said, "has no effect: it needs "));
  }
  const char* const with[] = {
      "", "train.momentum=0.9 train.optimizer=rmsprop", "train.nesterov=true train.optimizer=sgd train.momentum=0.5",
      "train.final_fraction=0.1 train.cooldown=5", "train.final_fraction=0.1 train.schedule=cosine",
      "train.average_decay=0.9 train.average=ema", "train.beta1=0.9 train.optimizer=sgd", "model.dropout=0.3",
      "model.variational=true model.recurrent_dropout=0.1", "model.stack=highway model.layers=2"};
  for (const char* settings : with) {
    CAPTURE(settings);
    CHECK(lines(settings).empty());
  }
}

TEST_CASE("what a key needs names keys and values that exist") {
  for (const KeySpec& key : config_schema()) {
    CAPTURE(key.path);
    std::istringstream words{std::string(key.needs)};
    for (std::string path, is, value, joined; words >> path >> is >> value;) {
      CAPTURE(path);
      REQUIRE(find_key(path));
      CHECK((is == "=" || is == ">"));
      std::istringstream choices(value);
      for (std::string one; std::getline(choices, one, '|');)
        CHECK_NOTHROW(Config().apply_setting(path + "=" + one));
      if (words >> joined) CHECK((joined == "and" || joined == "or"));
    }
  }
}

TEST_CASE("a value of the wrong type is refused with both types") {
  CHECK(mentions(file_refusal("[model]\nhidden = \"3\"\n"), "model.hidden is of type string"));
  CHECK(mentions(file_refusal("[model]\nhidden = 3.0\n"), "must be of type integer"));
  CHECK(mentions(file_refusal("[model]\nbias = 1\n"), "must be of type boolean"));
  CHECK(mentions(file_refusal("[model]\ncell = [\"lstm\"]\n"), "model.cell is of type array"));
  CHECK(mentions(file_refusal("[model]\ncell = 1979-05-27\n"), "model.cell is of type date"));
}

TEST_CASE("a value out of range is refused with the range") {
  CHECK(mentions(file_refusal("[model]\nhidden = 0\n"), "must lie between 1 and"));
  CHECK(mentions(file_refusal("[model]\nhidden = -9223372036854775808\n"), "must lie between"));
  CHECK(mentions(file_refusal("[train]\nlr = nan\n"), "must be a finite number"));
  CHECK(mentions(file_refusal("[train]\nlr = inf\n"), "must be a finite number"));
  CHECK(mentions(file_refusal("[train]\nwarmup = -1\n"), "must be at least 0"));
  CHECK(mentions(file_refusal("[train]\nwarmup = 1000000000000001\n"), "must be at most 1000000000000000"));
  CHECK(mentions(file_refusal("[train]\noptimizer = \"adem\"\n"), "Use one of sgd|adam"));
}

TEST_CASE("--set overrides a key and is a usage error when it does not fit") {
  Config config;
  config.apply_setting("model.hidden=9");
  config.apply_setting("model.cell=gru");
  config.apply_setting("data.path=\"a=b.txt\"");
  CHECK(config.integer("model.hidden") == 9);
  CHECK(config.text("model.cell") == "gru");
  CHECK(config.text("data.path") == "a=b.txt");
  const auto usage = [&](const std::string& setting) {
    return refusal(ErrorKind::usage, [&] { config.apply_setting(setting); });
  };
  CHECK(mentions(usage("model.hidden"), "no value"));
  CHECK(mentions(usage("model.hiden=3"), "Did you mean model.hidden?"));
  CHECK(mentions(usage("model.hidden=three"), "not of type integer"));
  CHECK(mentions(usage("model.hidden=3\nmodel.layers=2"), "not of type integer"));
  CHECK(mentions(usage("model.hidden=0"), "must lie between"));
}

TEST_CASE("text that is not TOML is refused with line and column") {
  CHECK(mentions(file_refusal("[model]\nhidden = \n"), "c.toml:2:"));
  CHECK(mentions(file_refusal("[model]\nhidden = 1\nhidden = 2\n"), "c.toml:3:"));
  CHECK(mentions(file_refusal("\xff\xfe\n"), "not TOML"));
  CHECK(mentions(file_refusal(std::string("[model]\nhidden\0= 1\n", 20)), "not TOML"));
  CHECK(file_refusal("") == "");
}

TEST_CASE("nesting and size are bounded before the parser runs") {
  constexpr int k_deep = 100000;
  CHECK(mentions(file_refusal("a = " + repeated("[", k_deep)), "nesting deeper than 64"));
  CHECK(mentions(file_refusal("a = " + repeated("{a=", k_deep)), "nesting deeper than 64"));
  CHECK(mentions(file_refusal("a" + repeated(".a", k_deep) + " = 1"), "nesting deeper than 64"));
  CHECK(mentions(file_refusal("[a" + repeated(" . \"a\"", k_deep) + "]"), "nesting deeper than 64"));
  CHECK(mentions(file_refusal("a = '''\n'''" + repeated("\n[", 3) + repeated("[", k_deep)), "nesting deeper than 64"));
  CHECK(mentions(file_refusal(std::string(k_max_toml_bytes + 1, '#')), "at most"));
  // What only looks deep is not.
  CHECK(mentions(file_refusal("a = \"" + repeated("[", 1000) + "\" # " + repeated("[", 1000) + "\n"), "unknown key a"));
  CHECK(mentions(file_refusal("a = '''" + repeated("[\n", 1000) + "'''\n"), "unknown key a"));
  CHECK(mentions(file_refusal("a = [" + repeated("1.5, ", 1000) + "]\n"), "unknown key a"));
  CHECK(mentions(file_refusal("a = \"\\\"" + repeated("[", 100) + "\"\n"), "unknown key a"));
}

TEST_CASE("a cell of text is read from a table of its own and kept by the resolved config") {
  const std::string text =
      "[model]\ncell = \"mine\"\n[cells.mine]\nstates = [\"h\", \"c\"]\nstep = \"\"\"\n"
      "c' = tanh(affine(x, h))  # \\\\ and \\\" in a comment\n\th' = c'\n\"\"\"\ny = \"2 * h'\"\n"
      "[cells.also]\nstates = [\"s\"]\nstep = \"s' = s\"\n";
  const Config config = config_of(text);
  const std::vector<TextCell> cells = config.cells();
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].name == "also");
  CHECK(cells[1].name == "mine");
  CHECK(cells[1].states == std::vector<std::string>{"h", "c"});
  CHECK(cells[1].step == "c' = tanh(affine(x, h))  # \\ and \" in a comment\n\th' = c'\n");
  CHECK(cells[1].y == "2 * h'");
  const Config again = config_of(config.toml(k_every));
  CHECK(again == config);
  CHECK(again.cells()[1].step == cells[1].step);
  CHECK(again.cells()[1].y == cells[1].y);
  CHECK_FALSE(config == Config());
}

TEST_CASE("a mistake in a cell of text is refused with its place in the file") {
  struct Row {
    const char* text;
    const char* says;
  };
  const Row below_states[] = {
      {"step = \"h' = g\"\n", "[c.toml:3:14] cell 'mine', step line 1, column 6: unknown name 'g'"},
      {"step = \"\"\"\nh' = h\nf = g\n\"\"\"\n", "[c.toml:5:5] cell 'mine', step line 2, column 5: "},
      {"step = \"\"\"h' = g\"\"\"\n", "[c.toml:3:16] cell 'mine', step line 1, column 6: "},
      {"step = \"\"\"\r\nh' = h\r\nf = g\"\"\"\r\n", "[c.toml:5:5] cell 'mine', step line 2, column 5: "},
      {"step = \"h' = h\\nf = g\"\n", "[c.toml] cell 'mine', step line 2, column 5: "},
      {"step = \"h' = h\"\ny = '2 * g'\n", "[c.toml:4:10] cell 'mine', y line 1, column 5: "},
      {"", "state 'h' has no next value"},
      {"stap = \"\"\n", "[c.toml:3:1] unknown key cells.mine.stap. Did you mean step?"},
      {"hidden = 3\n", "unknown key cells.mine.hidden. [cells.NAME] has states, step, y"},
      {"step = 3\n", "cells.mine.step is of type integer. It must be a text"}};
  for (const Row& row : below_states) {
    CAPTURE(row.text);
    CHECK(mentions(file_refusal(std::string("[cells.mine]\nstates = [\"h\"]\n") + row.text), row.says));
  }
  const Row whole[] = {
      {"[cells.mine]\nstates = []\nstep = \"\"\n", "[c.toml:2:1] cell 'mine': it has no states"},
      {"[cells.mine]\nstep = \"h' = h\"\n", "it has no states"},
      {"[cells.mine]\nstates = \"h\"\n", "cells.mine.states is of type string"},
      {"[cells.mine]\nstates = [1]\n", "It must be an array of names"},
      {"[cells.lstm]\nstates = [\"h\"]\nstep = \"h' = h\"\n", "a built-in cell has this name"},
      {"[cells.\"a.b\"]\nstep = \"\"\n", "cell 'a.b': this is no name for a cell"},
      {"cells.mine = 3\n", "cells.mine is of type integer. Write a table [cells.mine]"},
      {"cells = 3\n", "unknown key cells"}};
  for (const Row& row : whole) {
    CAPTURE(row.text);
    CHECK(mentions(file_refusal(row.text), row.says));
  }
  Config config;
  CHECK(mentions(refusal(ErrorKind::usage, [&] { config.apply_setting("cells.mine.y=h"); }), "a table [cells.NAME]"));
}

TEST_CASE("an array of texts is read from a file and from the command line, and kept by the resolved config") {
  using Names = std::vector<std::string>;
  Config config = config_of("[task]\nkind = \"forecast\"\n[data]\ncolumns = [\"a b\", \"c\\\"d\"]\n");
  CHECK(config.texts("data.columns") == Names{"a b", "c\"d"});
  CHECK(config_of(config.toml(k_every)) == config);
  for (const char* setting : {"data.columns=x,y z", "data.columns=[\"x\", \"y z\"]"}) {
    config.apply_setting(setting);
    CHECK(config.texts("data.columns") == Names{"x", "y z"});
  }
  config.apply_setting("data.columns=x");
  CHECK(config.texts("data.columns") == Names{"x"});
  config.apply_setting("data.columns=[]");
  CHECK(config.texts("data.columns").empty());
  CHECK(mentions(refusal(ErrorKind::usage, [&] { config.apply_setting("data.columns=[1]"); }),
                 "data.columns=[\"a\", \"b\"]"));
  CHECK(mentions(file_refusal("[data]\ncolumns = \"a\"\n"), "such as [\"a\", \"b\"]"));
  CHECK(mentions(file_refusal("[data]\ncolumns = [\"a\", 2]\n"), "data.columns is of type array"));
}

TEST_CASE("groups of parameters are read in the order of the file and kept by the resolved config") {
  const Config config = config_of(
      "[task]\nkind = \"forecast\"\n[groups.later]\nmatch = \"*\"\nlr_scale = 2\n"
      "[groups.also]\nmatch = \"bias*\"\nlr_scale = 0.5\nweight_decay = 0\n");
  const std::vector<ParameterGroup> groups = config.groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].match == "*");
  CHECK(groups[0].lr_scale == 2);
  CHECK_FALSE(groups[0].weight_decay);
  CHECK(groups[1].match == "bias*");
  CHECK(groups[1].weight_decay == 0.0);
  CHECK(config_of(config.toml(k_every)) == config);
  CHECK(config.toml(k_tensors).find("[groups") == std::string::npos);
}

TEST_CASE("a mistake in a group is refused with its place in the file") {
  struct Row {
    const char* text;
    const char* says;
  };
  const Row rows[] = {
      {"[groups.a]\nlr_scale = 1\n", "[c.toml:2] [groups.a] has no match"},
      {"[groups.a]\nlr = 1\n", "[c.toml:2:1] unknown key groups.a.lr"},
      {"[groups.a]\nmatch = 1\n", "groups.a.match is of type integer. It must be a text"},
      {"[groups.a]\nweight_decay = true\n", "groups.a.weight_decay is of type boolean. It must be a number"},
      {"[groups.\"a b\"]\nmatch = \"*\"\n", "a group has a name of other characters"},
      {"groups.a = 3\n", "groups.a is of type integer. Write a table [groups.a]"}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(mentions(file_refusal(row.text), row.says));
  }
}

TEST_CASE("docs/config.md is the program's own table") {
  std::ifstream file(UNROLL_SOURCE_ROOT "/docs/config.md");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK_MESSAGE(text.str() == config_reference(), "write it again: unroll new --reference > docs/config.md");
}
