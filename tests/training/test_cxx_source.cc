// SPDX-License-Identifier: Apache-2.0
// Models printed as C++: what compilers make of them, with and without optimization, gives the same bits, and what the
// stream on `cpu` gives. UNROLL_MODELS=n tries n random models with every compiler and level; UNROLL_SEED=n repeats.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/setting.h"
#include "unroll/ir/ops.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_cxx_source {

using namespace unroll;
using namespace unroll::testing;

namespace {

namespace fs = std::filesystem;

constexpr int k_steps = 12;
// Both compute in f32, and exp, tanh and sigmoid are within 4 ulp: some hundred roundings of 2^-24 in each output.
constexpr double k_tolerance = 4e-6;

// The same numbers here and in the printed program.
float input_at(std::size_t i) { return static_cast<float>((i * 37 + 11) % 101) / 50.0f - 1.0f; }
constexpr const char* k_program = R"(
#include <cstdio>
#include <cstdlib>
#include <vector>
template <class Model>
void show(Model& model) {
  std::vector<float> x(Model::lanes * Model::inputs), y(Model::lanes * Model::outputs);
  for (int t = 0; t < STEPS; ++t) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = float((((t * x.size() + i) * 37 + 11) % 101)) / 50.0f - 1.0f;
    model.step(x.data(), y.data());
    for (float v : y) std::printf("%a\n", double(v));
  }
}
template <class Model>
void show_inside() {
  static Model model;
  show(model);
}
template <class Model>
void show_separate(const char* path) {
  static Model model;
  static typename Model::Weights weights;
  if (model.load_file(path, weights)) std::exit(1);
  show(model);
}
)";

struct Case {
  std::string cell;
  std::int64_t inputs, lanes;
  StreamModel model;
  WeightFormat weights = WeightFormat::f32;
  bool separate_weights = false;
  TensorMap parameters = {};
  std::vector<float> expected = {};

  void draw_parameters() {
    Graph graph;
    Scope scope(graph, false);
    std::vector<Value> states;
    for (const Shape& shape : model.state_shapes(lanes)) states.push_back(filled(graph, {DType::f32, shape}, 0));
    model.build(scope, graph.input("x", {DType::f32, {1, lanes, inputs}}), states);
    parameters = initialize(scope.parameters(), 7);
  }
  void run() {
    if (!model.whole) draw_parameters();
    const auto backend = make_backend("cpu", {.threads = 1});
    Stream stream(*backend, model, parameters, {.lanes = lanes, .weights = weights});
    std::vector<float> x(static_cast<std::size_t>(lanes * stream.inputs() * stream.block()));
    std::vector<float> y(static_cast<std::size_t>(lanes * stream.outputs() * stream.rows()));
    for (std::size_t t = 0; t < k_steps; ++t) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = input_at(t * x.size() + i);
      REQUIRE(stream.step(x, y));
      expected.insert(expected.end(), y.begin(), y.end());
    }
  }
  CxxSource source(const std::string& name) const {
    return stream_source(model, parameters, {lanes, weights, name, "A model of a test: " + cell, separate_weights});
  }
};

const std::vector<TextCell> k_text_cells = {
    {.name = "own_gate",
     .states = {"h"},
     .step = "f = sigmoid(affine(x, h))\nn = tanh(affine(x, f * h))\nh' = (1 - f) * h + f * n"},
    {.name = "own_output",
     .states = {"h", "m"},
     .step = "n = 0.5 * m + relu(affine(x))\nm' = n\nh' = tanh(affine(n, h))\ny = softmax(affine(n, h))"},
};

// A graph of whole sequences: a convolution with a stride of 2, and a gru whose initial state is not zero.
std::shared_ptr<const Graph> strided_network(std::int64_t T) {
  auto graph = std::make_shared<Graph>();
  const auto parameter = [&](const char* name, const Shape& shape) {
    const ParameterSpec spec{name, {DType::f32, shape}, Initializer::uniform(0.5)};
    return constant(*graph, std::move(initialize(std::span(&spec, 1), 3).at(name)));
  };
  const ConvOptions options{.axes = {1}, .stride = {2}, .low = {3}};
  const Value in_x = graph->input("x", {DType::f32, {1, T, 3}});
  const Value x = conv(in_x, parameter("a", {4, 5, 3}), parameter("b", {4}), options);
  RecurrentInputs in;
  in.x = transpose(relu(x), {1, 0, 2});
  in.h0 = parameter("h", {1, 1, 5});
  in.parameters = {parameter("w", {15, 4}), parameter("u", {15, 5}), parameter("c", {15}), parameter("d", {15})};
  graph->output("y", recurrent(Op::gru, in, {.hidden = 5}).y);
  return graph;
}

std::vector<Case> random_cases(std::uint64_t n, std::uint64_t seed) {
  std::vector<std::string> cells = cell_names();
  for (const TextCell& cell : k_text_cells) cells.push_back(cell.name);
  for (const char* name : {"rnn", "gru", "lstm"}) cells.emplace_back(name);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % most); };
  std::vector<Case> cases;
  for (std::uint64_t i = 0; i < n; ++i) {
    RecurrentModelOptions o;
    o.cell = cells[i < cells.size() && n >= cells.size() ? i : static_cast<std::size_t>(below(cells.size()))];
    o.cells = k_text_cells;
    o.hidden = 1 + below(40);
    o.layers = static_cast<int>(1 + below(3));
    if (o.cell == "lstm" && o.hidden > 1 && below(2))
      o.projection = 1 + below(static_cast<std::uint64_t>(o.hidden - 1));
    if (o.cell == "gru") o.reset_after = below(2);
    const std::int64_t inputs = 1 + below(12), lanes = 1 + below(3);
    const WeightFormat weights = below(4) ? WeightFormat::f32 : WeightFormat::bf16;
    cases.push_back({o.cell, inputs, lanes, recurrent_stream(o, inputs), weights, below(2) == 0});
    INFO(o.cell, " of ", o.hidden, ", ", o.layers, " layers, ", inputs, " inputs, ", lanes, " lanes");
    CHECK_NOTHROW(cases.back().run());
  }
  for (const bool is_separate : {false, true}) {
    cases.push_back({"a graph", 3, 1, graph_stream(strided_network), WeightFormat::f32, is_separate});
    cases.back().run();
  }
  return cases;
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "unroll-cxx.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

// What a program prints that runs all sources, compiled so; empty and a failure when the compiler refuses them.
std::vector<float> outputs_of(const Folder& folder, const std::string& compiler, const std::string& options) {
  const std::string program = (folder / "program").string(), log = (folder / "log").string();
  const std::string compile = compiler + " -std=c++17 -Wall -Wextra -Werror " + options + " -o '" + program + "' '" +
                              (folder / "main.cc").string() + "' > '" + log + "' 2>&1";
  if (std::system(compile.c_str()) != 0) {
    std::stringstream told;
    told << std::ifstream(log).rdbuf();
    FAIL_CHECK(compiler << " " << options << ": " << told.str().substr(0, 2000));
    return {};
  }
  REQUIRE(std::system(("'" + program + "' > '" + log + "'").c_str()) == 0);
  std::ifstream lines(log);
  std::vector<float> values;
  for (std::string line; std::getline(lines, line);) values.push_back(std::strtof(line.c_str(), nullptr));
  return values;
}

void write(const Folder& folder, const std::string& name, const CxxSource& source) {
  std::ofstream(folder / (name + ".h")) << source.header;
  if (!source.weights.empty()) std::ofstream(folder / (name + ".bin"), std::ios::binary) << source.weights;
}

std::string program_text() {
  std::string text = k_program;
  return text.replace(text.find("STEPS"), 5, std::to_string(k_steps));
}

void write_program(const Folder& folder, const std::vector<Case>& cases) {
  std::ofstream main(folder / "main.cc");
  std::string calls;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = "Model" + std::to_string(i);
    write(folder, name, cases[i].source(name));
    main << "#include \"" << name << ".h\"\n";
    calls += cases[i].separate_weights
                 ? "  show_separate<" + name + ">(\"" + (folder / (name + ".bin")).string() + "\");\n"
                 : "  show_inside<" + name + ">();\n";
  }
  main << program_text() << "int main() {\n" << calls << "}\n";
}

bool is_there(const char* compiler) {
  return std::system((std::string(compiler) + " --version > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace

TEST_CASE("models printed as C++ give the stream's outputs, and the same bits with every compiler") {
  const std::uint64_t n = setting("UNROLL_MODELS", 4), seed = setting("UNROLL_SEED", std::random_device()());
  const bool all = std::getenv("UNROLL_MODELS") != nullptr;
  std::printf("UNROLL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const std::vector<Case> cases = random_cases(n, seed);
  const Folder folder;
  write_program(folder, cases);
  struct Way {
    const char *compiler, *options;
    bool always;
  };
  constexpr Way k_ways[] = {
      {"g++", "-O2", true}, {"g++", "-Os", false}, {"clang++", "-O2", false}, {"clang++", "-Os", true}};
  std::vector<float> first;
  for (const Way& way : k_ways) {
    if (!is_there(way.compiler)) {
      std::printf("skipped: %s is not installed\n", way.compiler);
      continue;
    }
    if (!all && !way.always) continue;
    const std::vector<float> values = outputs_of(folder, way.compiler, way.options);
    if (first.empty()) first = values;
    CHECK_MESSAGE(values == first, way.compiler, " ", way.options, " gives other bits");
  }
  if (first.empty()) return;
  std::size_t at = 0;
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    double squares = 0, size = 0;
    REQUIRE(at + c.expected.size() <= first.size());
    for (const float wanted : c.expected) {
      const double d = static_cast<double>(first[at++]) - wanted;
      squares += d * d;
      size += static_cast<double>(wanted) * wanted;
    }
    const double relative = std::sqrt(size > 0 ? squares / size : squares);  // relu may leave nothing but zeros
    worst = std::max(worst, relative);
    INFO("model ", i, ", ", c.cell, ", seed ", seed);
    CHECK(relative <= k_tolerance);
  }
  CHECK(at == first.size());
  std::printf("%zu models, at most %.2g from the stream\n", cases.size(), worst);
}

TEST_CASE("weights in a file of their own give the bits of weights in the header, in each format") {
  if (!is_there("g++")) return;
  const Folder folder;
  std::string includes, calls;
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    Case c{"lstm", 70, 1, recurrent_stream({.cell = "lstm", .hidden = 24, .layers = 2}, 70), format};
    c.run();
    const std::string name = "Model" + std::to_string(static_cast<int>(format));
    write(folder, name + "In", c.source(name + "In"));
    c.separate_weights = true;
    const CxxSource apart = c.source(name + "Out");
    CHECK(apart.header.size() < 20'000);
    CHECK(apart.weights.size() % 64 == 0);
    write(folder, name + "Out", apart);
    includes += "#include \"" + name + "In.h\"\n#include \"" + name + "Out.h\"\n";
    calls += "  show_inside<" + name + "In>();\n  show_separate<" + name + "Out>(\"" +
             (folder / (name + "Out.bin")).string() + "\");\n";
  }
  std::ofstream(folder / "main.cc") << includes << program_text() << "int main() {\n" << calls << "}\n";
  for (const char* compiler : {"g++", "clang++"}) {
    if (!is_there(compiler)) continue;
    const std::vector<float> values = outputs_of(folder, compiler, "-O1");
    constexpr std::size_t k_outputs = k_steps * 24;
    REQUIRE(values.size() == 6 * k_outputs);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i / k_outputs % 2 == 0) CHECK(values[i] == values[i + k_outputs]);
    CHECK(values[0] != values[2 * k_outputs]);
    CHECK(values[0] != values[4 * k_outputs]);
  }
}

TEST_CASE("a file of weights that is cut, longer, damaged, missing or of another model is reported and not used") {
  if (!is_there("g++")) return;
  Case c{"gru", 3, 1, recurrent_stream({.cell = "gru", .hidden = 5}, 3), WeightFormat::f32, true};
  c.run();
  const Folder folder;
  const CxxSource source = c.source("Model");
  write(folder, "Model", source);
  for (auto& [name, tensor] : c.parameters) tensor.set(0, 0.25);
  const std::string other = c.source("Model").weights;
  REQUIRE(other.size() == source.weights.size());
  const auto changed = [&](std::size_t at) {
    std::string bytes = source.weights;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  const std::pair<std::string, const char*> files[] = {
      {source.weights.substr(0, source.weights.size() - 1), "is cut"},
      {source.weights + "x", "is cut, or was written with another header"},
      {"", "is cut"},
      {other, "use those of the same export"},
      {changed(0), "no file of weights"},
      {changed(8), "this processor is not"},
      {changed(16), "use those of the same export"},
      {changed(64), "are damaged"},
      {changed(source.weights.size() - 1), "are damaged"}};
  std::string calls;
  for (std::size_t i = 0; i < std::size(files); ++i) {
    const fs::path path = folder / ("wrong" + std::to_string(i));
    std::ofstream(path, std::ios::binary) << files[i].first;
    calls += "  refuses(model.load_file(\"" + path.string() + "\", memory), \"" + files[i].second + "\");\n";
  }
  std::ofstream(folder / "main.cc") << R"(#include "Model.h"
static Model model;
static Model::Weights memory, good;
static void say(bool holds) { std::printf("%d\n", holds); }
static bool is_nan() {
  float x[3] = {1, 2, 3}, y[5] = {};
  model.step(x, y);
  for (float v : y)
    if (v == v) return false;
  return true;
}
static void refuses(const char* wrong, const char* text) { say(wrong && std::strstr(wrong, text) && is_nan()); }
int main(int, char**) {
  say(is_nan());
  say(!model.load_file(PATH, good) && !is_nan());
)" << calls << R"(  refuses(model.load_file("/no/such/file", memory), "cannot be opened");
  refuses(model.load(nullptr, sizeof memory), "must have");
  alignas(64) static unsigned char shifted[sizeof good + 8];
  std::memcpy(shifted + 8, &good, sizeof good);
  refuses(model.load(shifted + 8, sizeof good), "multiple of 64");
  say(!model.load(&good, sizeof good) && !is_nan() && model.state()[0] != 0);
  say(!model.load(&good, sizeof good) && model.state()[0] == 0);
}
)";
  const std::string path = "-DPATH='\"" + (folder / "Model.bin").string() + "\"'";
  for (const char* compiler : {"g++", "clang++"})
    if (is_there(compiler)) CHECK(outputs_of(folder, compiler, path) == std::vector<float>(std::size(files) + 7, 1));
}

TEST_CASE("a model of tokens reads ids, its state is saved, and int8 weights change the outputs a little") {
  if (!is_there("g++")) return;
  constexpr std::int64_t V = 20, H = 48;
  const StreamModel tokens{
      .input = DType::i32,
      .state_shapes = [](std::int64_t lanes) { return std::vector<Shape>{{1, lanes, H}}; },
      .build = [](Scope& scope, Value ids, std::span<const Value> states) {
        const Value x = embedding_layer(scope.child("embedding"), ids, V, 8);
        return recurrent_model(scope, x, {.cell = "gru", .hidden = H}, states);
      }};
  Graph graph;
  Scope scope(graph, false);
  const Value h = filled(graph, {DType::f32, {1, 1, H}}, 0);
  tokens.build(scope, graph.input("x", {DType::i32, {1, 1}}), std::vector{h});
  const TensorMap parameters = initialize(scope.parameters(), 3);
  const Folder folder;
  std::ofstream(folder / "Tokens.h") << stream_source(tokens, parameters, {.name = "Tokens"}).header;
  std::ofstream(folder / "Small.h")
      << stream_source(tokens, parameters, {.weights = WeightFormat::int8, .name = "Small"}).header;
  std::ofstream(folder / "main.cc") << R"(#include "Tokens.h"
#include "Small.h"
#include <cstdio>
int main() {
  static Tokens a, b;
  static Small s;
  const std::int32_t ids[] = {3, 19, 7, 1, 0};
  float ya[5 * 48], yb[48], ys[5 * 48];
  a.run(ids, ya, 2);
  std::memcpy(b.state(), a.state(), sizeof(float) * Tokens::state_size);
  a.run(ids + 2, ya + 96, 3);
  for (int t = 2; t < 5; ++t) b.step(ids + t, yb);
  s.run(ids, ys, 5);
  a.reset();
  for (float v : ya) std::printf("%a\n", double(v));
  for (float v : yb) std::printf("%a\n", double(v));
  for (float v : ys) std::printf("%a\n", double(v));
  return a.state()[0] != 0;
}
)";
  const std::vector<float> values = outputs_of(folder, "g++", "-O1");
  REQUIRE(values.size() == 5 * H + H + 5 * H);
  const auto backend = make_backend("cpu", {.threads = 1});
  Stream stream(*backend, tokens, parameters);
  const std::int32_t ids[] = {3, 19, 7, 1, 0};
  std::vector<float> y(H);
  // As for streams in int8 (test_stream.cc): three pre-activations, each off by at most K |h| e; e: error of a weight.
  const double int8_error = 1.5 * H / std::sqrt(H) / 254;
  for (std::size_t t = 0; t < 5; ++t) {
    REQUIRE(stream.step(std::span(ids).subspan(t, 1), y));
    for (std::size_t i = 0; i < H; ++i) {
      CHECK(std::fabs(values[t * H + i] - y[i]) <= k_tolerance);
      CHECK(std::fabs(values[6 * H + t * H + i] - y[i]) <= int8_error);
    }
  }
  for (std::size_t i = 0; i < H; ++i) CHECK(values[5 * H + i] == values[4 * H + i]);
}

TEST_CASE("what has no C++ form is refused by name") {
  const StreamModel noisy{.inputs = 2,
                          .state_shapes = [](std::int64_t) { return std::vector<Shape>{}; },
                          .build = [](Scope& scope, Value x, std::span<const Value>) {
                            const Value key = constant(scope.graph(), Tensor::from<std::int32_t>({3}, {1, 2, 3}));
                            return CellLayerResult{x + random_uniform(key, x.shape(), 0), {}};
                          }};
  CHECK_THROWS_WITH_AS(stream_source(noisy, {}), doctest::Contains("random_uniform has no C++ form"), Error);
  Case plain{"rnn", 2, 1, recurrent_stream({.cell = "rnn", .hidden = 3}, 2)};
  plain.run();
  CHECK_THROWS_WITH_AS(plain.source("9x"), doctest::Contains("'9x' is no name"), Error);
  CHECK_THROWS_WITH_AS(stream_source(plain.model, {}, {}), doctest::Contains("missing: bias_hh_l0"), Error);
  CHECK_THROWS_WITH_AS(stream_source(plain.model, plain.parameters, {.lanes = 0}),
                       doctest::Contains("lanes must be at least 1"), Error);
}

}  // namespace test_cxx_source
