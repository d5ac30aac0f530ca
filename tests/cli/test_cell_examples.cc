// SPDX-License-Identifier: Apache-2.0
// docs/examples/cells: every file is a cell that computes what the built-in one of the same equations computes, where
// there is one; its gradients agree with differences, and every backend agrees with the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "frontends/config/config.h"
#include "frontends/config/text_file.h"
#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/model/model.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t T = 4, B = 3, I = 3, H = 4;

const std::string k_folder = UNROLL_SOURCE_ROOT "/docs/examples/cells/";

RecurrentModelOptions options_of(const std::string& file) {
  cli::Config config;
  config.apply_toml(cli::read_text_file(k_folder + file, 1 << 16), file);
  RecurrentModelOptions o;
  o.cell = config.text("model.cell");
  o.cells = config.cells();
  o.hidden = H;
  return o;
}

std::set<std::string> example_files() {
  std::set<std::string> files;
  for (const auto& item : std::filesystem::directory_iterator(k_folder)) files.insert(item.path().filename().string());
  return files;
}

// A stack with initial states, and lengths when asked for; outputs y and every final state.
std::vector<ParameterSpec> build(Graph& g, DType d, const RecurrentModelOptions& o, bool lengths, bool training) {
  Scope scope(g, training, d);
  const Value x = g.input("x", {d, {T, B, I}});
  std::vector<Value> initial;
  for (const Shape& shape : recurrent_state_shapes(o, B))
    initial.push_back(g.input("initial" + std::to_string(initial.size()), {d, shape}));
  const Value n = lengths ? g.input("lengths", {DType::i32, {B}}) : Value();
  const CellLayerResult r = recurrent_model(scope, x, o, initial, n);
  g.output("y", r.y);
  for (std::size_t i = 0; i < r.states.size(); ++i) g.output("final" + std::to_string(i), r.states[i]);
  return scope.parameters();
}

// Which parts, below each other, make a parameter of the built-in cell; "0" is a part [H] of zeros.
struct Mapped {
  const char* name;
  std::vector<const char*> parts;
};
struct Example {
  const char* file;
  const char* built_in;  // empty: there is none
  std::vector<Mapped> parameters;
  bool kink = false;  // a trajectory may cross the kink of relu: no differences
};

const std::vector<Example>& examples() {
  static const std::vector<Example> rows{
      {"rnn.toml", "rnn",
       {{"weight_ih", {"h.weight_0"}}, {"weight_hh", {"h.weight_1"}}, {"bias_ih", {"h.bias"}}, {"bias_hh", {"0"}}}},
      {"gru.toml", "gru",
       {{"weight_ih", {"r.weight_0", "z.weight_0", "n.weight_0"}},
        {"weight_hh", {"r.weight_1", "z.weight_1", "n2.weight_0"}},
        {"bias_ih", {"r.bias", "z.bias", "n.bias"}},
        {"bias_hh", {"0", "0", "n2.bias"}}}},
      {"lstm.toml", "lstm",
       {{"weight_ih", {"i.weight_0", "f.weight_0", "g.weight_0", "o.weight_0"}},
        {"weight_hh", {"i.weight_1", "f.weight_1", "g.weight_1", "o.weight_1"}},
        {"bias_ih", {"i.bias", "f.bias", "g.bias", "o.bias"}},
        {"bias_hh", {"0", "0", "0", "0"}}}},
      {"peephole.toml", "peephole_lstm",
       {{"weight_ih", {"i.weight_0", "f.weight_0", "g.weight_0", "o.weight_0"}},
        {"weight_hh", {"i.weight_1", "f.weight_1", "g.weight_1", "o.weight_1"}},
        {"bias_ih", {"i.bias", "f.bias", "g.bias", "o.bias"}},
        {"bias_hh", {"0", "0", "0", "0"}},
        {"weight_ci", {"see_i"}},
        {"weight_cf", {"see_f"}},
        {"weight_co", {"see_o"}}}},
      {"layer-norm.toml", "lnlstm",
       {{"weight_ih", {"from_x2.weight_0", "from_x3.weight_0", "from_x4.weight_0", "from_x5.weight_0"}},
        {"weight_hh", {"from_h2.weight_0", "from_h3.weight_0", "from_h4.weight_0", "from_h5.weight_0"}},
        {"norm_ih.weight", {"from_x.weight"}},
        {"norm_ih.bias", {"from_x.bias"}},
        {"norm_hh.weight", {"from_h.weight"}},
        {"norm_hh.bias", {"from_h.bias"}},
        {"norm_c.weight", {"h.weight"}},
        {"norm_c.bias", {"h.bias"}}}},
      {"ligru.toml", "ligru",
       {{"weight_ih", {"from_x2.weight_0", "from_x3.weight_0"}},
        {"weight_hh", {"z.weight_0", "n.weight_0"}},
        {"norm_ih.weight", {"from_x.weight"}},
        {"norm_ih.bias", {"from_x.bias"}}},
       true},
      {"mgu.toml", "mgu",
       {{"forget.weight_0", {"f.weight_0"}},
        {"forget.weight_1", {"f.weight_1"}},
        {"forget.bias", {"f.bias"}},
        {"new.weight_0", {"n.weight_0"}},
        {"new.weight_1", {"n.weight_1"}},
        {"new.bias", {"n.bias"}}}},
      {"sru.toml", "", {}},
      {"mingru.toml", "", {}},
      {"zoneout.toml", "", {}},
      {"slstm.toml", "", {}}};
  return rows;
}

Case case_of(const Example& e, int layers, bool bidirectional, bool lengths) {
  RecurrentModelOptions o = options_of(e.file);
  o.layers = layers;
  o.bidirectional = bidirectional;
  Graph probe;
  std::map<std::string, Range> ranges{{"lengths", {.low = 0, .high = T}}, {"key", {.low = 0, .high = 99999}}};
  // Sizes that default initialization gives; a normalizer is at least 1.
  for (const ParameterSpec& p : build(probe, DType::f64, o, lengths, true))
    ranges[p.name] = {.low = -0.7, .high = 0.7};
  if (std::string(e.file) == "slstm.toml") ranges["initial2"] = {.low = 1.25, .high = 2};
  const int depth = static_cast<int>((I + 4 * H) * T * layers);  // numbers summed: products, and norms over 4 H
  return {.name = std::string(e.file) + (lengths ? " lengths" : ""),
          .build = [=](Graph& g, DType d) { build(g, d, o, lengths, true); },
          .ranges = ranges,
          .agreement = {Rule::norm, depth}};
}

// Parts below each other; a part "0" is [H].
Tensor stacked(const Type& type, const std::vector<const char*>& parts, const std::string& suffix,
               const TensorMap& values) {
  Tensor whole(type);
  std::int64_t at = 0;
  for (const std::string part : parts) {
    if (part == "0") {
      at += H;
      continue;
    }
    const Tensor& from = values.at(part + suffix);
    REQUIRE(at + from.elements() <= whole.elements());
    for (std::int64_t i = 0; i < from.elements(); ++i) whole.set(at++, from.at(i));
  }
  CHECK(at == whole.elements());
  return whole;
}

// A stack's gradients in f64, by the name of the input.
struct Both {
  RecurrentModelOptions options;
  std::vector<ParameterSpec> parameters;
  TensorMap run(const TensorMap& inputs) {
    Graph g;
    parameters = build(g, DType::f64, options, true, false);
    append_gradient(g, 1);
    TensorMap all = make_inputs(g, {{"lengths", {.low = 0, .high = T}}}, "cells");
    for (const auto& [name, tensor] : inputs) all.at(name) = tensor;
    return evaluate(g, *make_backend("reference"), all);
  }
};

}  // namespace

TEST_CASE("every example of a cell is in the table of this test") {
  std::set<std::string> known;
  for (const Example& e : examples()) known.insert(e.file);
  CHECK(example_files() == known);
}

TEST_CASE("a cell of text gives what the built-in cell of its equations gives, and its gradients") {
  for (const Example& e : examples()) {
    if (std::string(e.built_in).empty()) continue;
    CAPTURE(e.file);
    Both text{options_of(e.file), {}}, built_in;
    text.options.layers = 2;
    text.options.bidirectional = true;
    built_in.options = text.options;
    built_in.options.cells.clear();
    built_in.options.cell = e.built_in;
    Graph probe;
    const auto specs = build(probe, DType::f64, text.options, true, false);
    const TensorMap values = initialize(specs, 5);
    Graph other;
    TensorMap mapped;
    std::size_t used = 0;
    const auto find = [&](const std::string& name) {
      const auto at = name.find("_l0") == std::string::npos ? name.find("_l1") : name.find("_l0");
      for (const Mapped& m : e.parameters)
        if (m.name == name.substr(0, at)) return std::make_pair(&m, name.substr(at));
      FAIL("no row for ", name);
      return std::make_pair(static_cast<const Mapped*>(nullptr), std::string());
    };
    for (const ParameterSpec& p : build(other, DType::f64, built_in.options, true, false)) {
      const auto [row, suffix] = find(p.name);
      mapped.emplace(p.name, stacked(p.type, row->parts, suffix, values));
      for (const std::string part : row->parts) used += part != "0";
    }
    CHECK(used == specs.size());
    const TensorMap got = text.run(values), expected = built_in.run(mapped);
    // Sums in another order: T * (I + H) products per element, eps 1e-16, in values and gradients of order 10.
    constexpr double k_rounding = 1e-12;
    for (const auto& [key, tensor] : expected) {
      const std::string& name = key;  // clang 14 captures no structured binding
      CAPTURE(name);
      if (name.starts_with("d1_") && mapped.contains(name.substr(3))) continue;
      CHECK(largest_difference(tensor, got.at(name)) < k_rounding);
    }
    TensorMap gradients;
    for (const auto& [name, tensor] : got)
      if (name.starts_with("d1_")) gradients.emplace(name.substr(3), tensor);
    for (const auto& [key, tensor] : mapped) {
      const std::string& name = key;  // clang 14 captures no structured binding
      CAPTURE(name);
      const auto [row, suffix] = find(name);
      // A bias that the text does not have is left out of the comparison: its gradient is that of the other bias.
      Tensor wanted = expected.at("d1_" + name);
      const Tensor whole = stacked(tensor.type(), row->parts, suffix, gradients);
      std::int64_t at = 0;
      for (const std::string part : row->parts) {
        if (part == "0")
          for (std::int64_t i = 0; i < H; ++i) wanted.set(at + i, 0);
        at += part == "0" ? H : gradients.at(part + suffix).elements();
      }
      CHECK(largest_difference(whole, wanted) < k_rounding);
    }
  }
}

TEST_CASE("gradients of every example agree with differences in f64, masks of dropout included") {
  double tightest = 0;
  std::int64_t elements = 0;
  for (const Example& e : examples()) {
    if (e.kink) continue;
    CAPTURE(e.file);
    for (const bool lengths : {false, true}) {
      const GradientCheck check = check_gradient(case_of(e, 2, true, lengths), 1);
      CHECK_MESSAGE(check.ratio <= 1, check.worst);
      tightest = std::max(tightest, check.ratio);
      elements += check.elements;
    }
  }
  std::printf("%lld derivatives, at most %.1f %% of the allowed error\n", static_cast<long long>(elements),
              100 * tightest);
}

TEST_CASE("values and gradients of every example agree with the truth on every backend, threads and dtype") {
  constexpr int k_gradient_depth = 1024;  // none of these gradients sums more numbers
  for (const Example& e : examples()) {
    const Case c = case_of(e, 2, true, true);
    const auto truth_graph = gradient_graph(c, DType::f64, 1);
    const TensorMap inputs = make_inputs(*truth_graph, c.ranges, c.name);
    const TensorMap truth = run_truth(*truth_graph, inputs);
    for (const std::string& name : verified_backends())
      for (const DType d : float_dtypes(name)) {
        CAPTURE(e.file);
        CAPTURE(name);
        const auto graph = gradient_graph(c, d, 1);
        const TensorMap one = evaluate(*graph, *make_backend(name, {.threads = 1}), in_dtype(inputs, d));
        const TensorMap two = evaluate(*graph, *make_backend(name, {.threads = 2}), in_dtype(inputs, d));
        for (const auto& [key, wanted] : truth) {
          const std::string& output = key;  // clang 14 captures no structured binding
          CAPTURE(output);
          const bool own = !output.starts_with("d1_");
          const Comparison r = compare(one.at(output), wanted, nullptr,
                                       own ? c.agreement : Agreement{Rule::norm, k_gradient_depth}, !own);
          CHECK_MESSAGE(r.ratio <= 1, r.worst);
          CHECK(same_bits(one.at(output), two.at(output)));
        }
      }
  }
}

TEST_CASE("every example streams step by step what it gives for the whole sequence") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const Example& e : examples()) {
    CAPTURE(e.file);
    RecurrentModelOptions o = options_of(e.file);
    o.layers = 2;
    Graph g;
    Scope scope(g, /*training=*/false);
    const Value x = g.input("x", {DType::f32, {T, B, I}});
    g.output("y", recurrent_model(scope, x, o).y);
    TensorMap inputs = initialize(scope.parameters(), 7);
    Stream stream(*backend, recurrent_stream(o, I), inputs, {.lanes = B});
    const Tensor values = initialize(std::vector<ParameterSpec>{{"x", x.type(), Initializer::uniform(1)}}, 1).at("x");
    inputs.emplace("x", values);
    const Tensor whole = evaluate(g, *backend, inputs).at("y");
    Tensor stepped(whole.type());
    constexpr auto n = static_cast<std::size_t>(B * I), m = static_cast<std::size_t>(B * H);
    for (std::size_t t = 0; t < static_cast<std::size_t>(T); ++t)
      REQUIRE(stream.step(values.values<float>().subspan(t * n, n), stepped.values<float>().subspan(t * m, m)));
    // Products of a step and of all steps at once may round apart: as another order of the same sums.
    const Comparison r = compare(stepped, whole, nullptr, {Rule::norm, static_cast<int>((I + 4 * H) * T * 2)});
    CHECK_MESSAGE(r.ratio <= 1, r.worst);
  }
}

// x of every size that raw data have, and long sequences: what a cell computes stays finite, and so do its gradients.
// relu lets the state of ligru grow without bound, so that runs few steps only.
TEST_CASE("every cell stays finite for inputs of any size, over 5,000 steps and in 16 bits") {
  constexpr std::int64_t k_long = 5000;
  const auto backend = make_backend("cpu", {.threads = 1});
  std::vector<std::pair<std::string, RecurrentModelOptions>> cells;
  for (const Example& e : examples()) cells.emplace_back(e.file, options_of(e.file));
  for (const auto& names : {cell_names(), built_in_cell_names()})
    for (const std::string& name : names) {
      RecurrentModelOptions o;
      o.cell = name, o.hidden = H;
      cells.emplace_back(name, o);
    }
  for (const auto& [cell, options] : cells)
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f16})
      for (const double scale : {1.0, 100.0, 1e4}) {
        const std::string& name = cell;  // clang 14 captures no structured binding
        CAPTURE(name);
        CAPTURE(precision_name(precision));
        CAPTURE(scale);
        const bool is_long = scale == 1e4 && precision == Precision::f32 && !name.starts_with("ligru");
        Graph g;
        Scope scope(g, /*training=*/false);
        const Value x = g.input("x", {DType::f32, {is_long ? k_long : 20, 1, I}});
        const Value y = recurrent_model(scope, x, options).y;
        g.output("y", y);
        output_gradients(scope, mean(square(y)));
        TensorMap inputs = initialize(scope.parameters(), 3);
        const std::vector<ParameterSpec> drawn{{"x", x.type(), Initializer::uniform(scale)}};
        inputs.emplace("x", initialize(drawn, 1).at("x"));
        for (const auto& [key, tensor] : evaluate(g, *backend, inputs, {.precision = precision})) {
          const std::string& output = key;
          CAPTURE(output);
          const auto values = tensor.values<float>();
          CHECK(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
        }
      }
}

// The first step of sLSTM, with gates far below the forget gate's logarithm, which once gave 0 / 0.
TEST_CASE("sLSTM begins with its input, however small the input gate is") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const double bias : {0.0, -120.0, -1e6, -1e30, 1e30}) {
    CAPTURE(bias);
    Graph g;
    Scope scope(g, /*training=*/false);
    const Value x = g.input("x", {DType::f32, {2, 1, I}});
    g.output("y", recurrent_model(scope, x, options_of("slstm.toml")).y);
    TensorMap inputs = initialize(scope.parameters(), 7);
    inputs.insert_or_assign("i.bias_l0", Tensor::filled({DType::f32, {H}}, bias));
    inputs.emplace("x", Tensor::filled(x.type(), 0.5));
    const Tensor y = evaluate(g, *backend, inputs).at("y");
    inputs.insert_or_assign("i.bias_l0", Tensor::filled({DType::f32, {H}}, 0));
    const Tensor wanted = evaluate(g, *backend, inputs).at("y");
    for (std::int64_t k = 0; k < H; ++k) CHECK(y.at(k) == doctest::Approx(wanted.at(k)));  // o * z
    for (std::int64_t k = 0; k < 2 * H; ++k) CHECK(std::isfinite(y.at(k)));
  }
}
