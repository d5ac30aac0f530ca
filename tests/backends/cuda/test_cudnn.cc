// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of the cuda backend by cuDNN: which are claimed and by which algorithm, and that values and
// gradients agree with the bodies in every format, in graphs and where calls refuse to be captured. On the library of
// the tests (tests/backends/cuda/shim/cudnn.cc), which refuses what the real one forbids.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "backends/cuda/library/recurrent.h"
#include "tests/backends/cuda/cuda_layers.h"
#include "unroll/support/error.h"

namespace test_cudnn {

using namespace unroll;
using namespace unroll::cuda;
using namespace unroll::cuda_layers;

namespace {

std::string report_of(const Layer& layer, bool gradient, Precision precision = Precision::f32) {
  PlanOptions options;
  options.precision = precision;
  const auto cuda = make_backend("cuda");
  const auto graph = graph_of(layer, gradient);
  Program program(*graph, *cuda, options);
  std::string text;
  for (const ReportLine& line : program.executable().report()) text += line.implementation + "\n";
  return text;
}
std::string refusal_of(const Layer& layer, Precision precision = Precision::f32) {
  const auto cuda = make_backend("cuda");
  const auto graph = graph_of(layer, false);
  for (const Node& node : graph->nodes())
    if (node.op == layer.cell) {
      const Claim claim = cuda->claim_in(*graph, node, precision);
      CHECK(claim.yes == claim.reason.empty());
      return claim.reason;
    }
  return "no such node";
}
// Forms that cuDNN has.
std::vector<Layer> layers() {
  std::vector<Layer> list{{Op::rnn}, {Op::gru}, {Op::lstm}};
  Layer layer{Op::rnn};
  layer.options.relu = true;
  list.push_back(layer);
  for (const Op cell : {Op::rnn, Op::gru, Op::lstm}) {
    layer = {cell};
    layer.options.bidirectional = true, layer.options.layers = 2;
    list.push_back(layer);
    layer.options.bias = false;
    list.push_back(layer);
  }
  layer = {Op::lstm};
  layer.options.projection = 2;
  list.push_back(layer);
  layer.options.layers = 2, layer.options.bidirectional = true;
  list.push_back(layer);
  return list;
}

}  // namespace

TEST_CASE("values and gradients are those of the bodies in every format, run after run and captured") {
  if (!has_shim()) return;
  const auto reference = make_backend("reference");
  // 32 roundings: 5 steps of 2 layers, there and back, of a product and what follows it.
  constexpr double k_roundings = 32;
  const struct {
    Precision precision;
    DType dtype;
    double rounding;
  } formats[] = {
      {Precision::f32, DType::f32, 0x1p-24}, {Precision::f32, DType::f64, 0x1p-53},
      {Precision::tf32, DType::f32, 0x1p-11}, {Precision::bf16, DType::f32, 0x1p-8},
      {Precision::f16, DType::f32, 0x1p-11},
  };
  for (Layer layer : layers())
    for (const auto& format : formats) {
      CAPTURE(std::string(op_info(layer.cell).name));
      CAPTURE(layer.options.layers);
      CAPTURE(std::string(precision_name(format.precision)));
      layer.dtype = format.dtype;
      Layer exact = layer;
      exact.dtype = DType::f64;
      // A kink that rounded numbers may cross changes a gradient by more than roundings.
      const bool gradient = !layer.options.relu || format.rounding < 0x1p-20;
      const auto graph = graph_of(layer, gradient);
      const TensorMap inputs = numbers_for(*graph);
      TensorMap wide;
      for (const auto& input : inputs) wide.emplace(input.first, input.second.cast(DType::f64));
      const TensorMap expected = evaluate(*graph_of(exact, gradient), *reference, wide);
      PlanOptions options;
      options.precision = format.precision;
      const auto cuda = make_backend("cuda");
      Bound program(*graph, *cuda, options, inputs);
      const int forward = forward_calls(), gradients = gradient_calls();
      TensorMap first;
      for (int run = 0; run < 3; ++run) {
        const TensorMap got = program.run();
        CHECK(difference(got, expected) < k_roundings * format.rounding);
        if (run == 0) first = got;
        else CHECK(difference(got, first) == 0);
      }
      // The second time in a graph, which the third run launches, too; a call that is alone needs no graph.
      const bool is_alone = !gradient && format.precision == Precision::tf32;
      CHECK(forward_calls() == forward + (is_alone ? 3 : 2));
      CHECK(gradient_calls() == gradients + (gradient ? 2 : 0));
    }
  CHECK(objects() == 0);
}

TEST_CASE("parameters that are constants are in the library's block from the beginning, and a run is one call") {
  if (!has_shim()) return;
  for (const Precision precision : {Precision::f32, Precision::f16}) {
    Graph graph;
    Graph shapes;
    std::vector<Value> wrt;
    Layer layer{Op::gru};
    layer.options.layers = 2;
    add_layer(shapes, layer, wrt);
    const TensorMap inputs = numbers_for(shapes);
    RecurrentInputs in;
    in.x = graph.input("x", wrt[0].type()), in.h0 = graph.input("h0", wrt[1].type());
    for (std::size_t k = 2; k < wrt.size(); ++k)
      in.parameters.push_back(constant(graph, inputs.at(shapes.inputs()[k].name)));
    RecurrentOptions options = layer.options;
    options.hidden = layer.sizes.H;
    graph.output("y", recurrent(Op::gru, in, options).y);
    PlanOptions how;
    how.precision = precision;
    const auto cuda = make_backend("cuda");
    Bound program(graph, *cuda, how, inputs);
    const TensorMap given{{"x", inputs.at("x")}, {"h0", inputs.at("h0")}};
    const TensorMap expected = evaluate(graph, *make_backend("reference"), given);
    const double tolerance = precision == Precision::f32 ? 0x1p-19 : 0x1p-6;  // 32 roundings, as above
    for (int run = 0; run < 3; ++run) CHECK(difference(program.run(), expected) < tolerance);
    if (precision == Precision::f32) CHECK(contains(program.report(), "1 launch: cuDNN"));
  }
}

TEST_CASE("calls that refuse to be captured run between two graphs") {
  if (!has_shim()) return;
  setenv("UNROLL_SHIM_DNN_CAPTURE", "0", 1);
  const auto graph = graph_of({Op::gru}, true);
  const TensorMap inputs = numbers_for(*graph);
  const auto cuda = make_backend("cuda");
  Bound program(*graph, *cuda, {}, inputs);
  const TensorMap expected = evaluate(*graph, *make_backend("reference"), inputs);
  const int before = forward_calls();
  for (int run = 0; run < 4; ++run) CHECK(difference(program.run(), expected) < 0x1p-18);
  CHECK(forward_calls() == before + 4);
  unsetenv("UNROLL_SHIM_DNN_CAPTURE");
}

TEST_CASE("what is refused, and why") {
  if (!has_shim()) return;
  const auto with = [](Op cell, auto change) {
    Layer layer{cell};
    change(layer);
    return layer;
  };
  CHECK(contains(refusal_of(with(Op::lstm, [](Layer& l) { l.lengths = true; })), "it has lengths"));
  CHECK(contains(refusal_of(with(Op::lstm, [](Layer& l) { l.options.peephole = true; })), "peepholes"));
  CHECK(contains(refusal_of(with(Op::gru, [](Layer& l) { l.options.reset_after = false; })), "reset gate"));
  const auto drops = [](Layer& l) { l.options.layers = 2, l.options.dropout = 0.5; };
  CHECK(contains(refusal_of(with(Op::gru, drops)), "dropout"));
  CHECK(contains(refusal_of(with(Op::rnn, [](Layer& l) { l.sizes.T = 65536; })), "65,535 steps"));
  CHECK(refusal_of(with(Op::rnn, [](Layer& l) { l.sizes.T = 65535, l.sizes.H = 1, l.sizes.B = 1; })).empty());
  CHECK(contains(refusal_of(with(Op::rnn, [](Layer& l) { l.sizes.B = 0; })), "nothing to compute"));
  CHECK(refusal_of({Op::gru}).empty());
}

TEST_CASE("the algorithm follows PyTorch's rule, with the limits of the gradient where one follows") {
  common::Recurrent r{};
  r.cell = Op::lstm, r.dtype = r.format = DType::f32, r.T = 8, r.B = 16, r.I = 256, r.H = r.P = 192, r.L = r.D = 1;
  r.bias = true;
  using A = dnn::Algorithm;
  const auto algorithm = [&](bool training, int arch = 90, int n = 132) { return algorithm_for(r, training, arch, n); };
  CHECK(algorithm(false) == A::small_h);
  CHECK(algorithm(true) == A::standard);
  r.H = r.P = 128;
  CHECK(algorithm(true) == A::small_h);
  r.format = DType::bf16;
  CHECK(algorithm(true) == A::standard);
  r.format = DType::f16, r.H = r.P = 512;
  CHECK(algorithm(true) == A::persist_static);
  CHECK(algorithm(true, 75) == A::standard);
  CHECK(algorithm(true, 86) == A::standard);
  CHECK(algorithm(true, 90, 80) == A::standard);
  const auto differs = [&](auto change) {
    const common::Recurrent before = r;
    change();
    const A got = algorithm(true);
    r = before;
    return got == A::standard;
  };
  CHECK(differs([&] { r.cell = Op::gru; }));
  CHECK(differs([&] { r.L = 2; }));
  CHECK(differs([&] { r.D = 2; }));
  CHECK(differs([&] { r.B = 12; }));
  CHECK(differs([&] { r.B = 136; }));
  CHECK(differs([&] { r.I = 100; }));
  CHECK(differs([&] { r.H = r.P = 1152; }));
  CHECK(differs([&] { r.projects = true, r.P = 64; }));
  CHECK(differs([&] { r.format = DType::f32; }));
  CHECK(differs([&] { r.cell = Op::rnn, r.B = 96, r.H = r.P = 896; }));
}

TEST_CASE("where the library does not run a persistent algorithm that it accepts, layers take STANDARD") {
  if (!has_shim()) return;
  setenv("UNROLL_SHIM_DNN_STANDARD", "1", 1);
  for (const bool gradient : {false, true})
    CHECK(contains(report_of({Op::lstm}, gradient), "cuDNN 9.19 STANDARD in f32"));
  unsetenv("UNROLL_SHIM_DNN_STANDARD");
}

TEST_CASE("reports name the algorithm, the format and sizes that tensor cores would like better") {
  if (!has_shim()) return;
  CHECK(contains(report_of({Op::lstm}, false),
                 "cuDNN 9.19 PERSIST_STATIC_SMALL_H in f32; chosen by rule: no cache folder"));
  Layer large{Op::lstm};
  large.sizes = {2, 2, 8, 136};
  CHECK(contains(report_of(large, false), "SMALL_H in f32"));
  CHECK(contains(report_of(large, true), "cuDNN 9.19 STANDARD in f32"));
  CHECK(contains(report_of({Op::gru}, true, Precision::bf16),
                 "STANDARD in bf16; faster with multiples of 8: B 3, I 4, H 6"));
  CHECK(contains(report_of({Op::gru}, true, Precision::tf32), "in tf32; faster with multiples of 4: B 3, H 6"));
}

TEST_CASE("own kernels where that is asked for, and where the library is not installed") {
  if (!has_shim()) return;
  const auto claims = [](const BackendOptions& options) {
    const auto cuda = make_backend("cuda", options);
    const auto graph = graph_of({Op::lstm}, false);
    const int before = forward_calls();
    evaluate(*graph, *cuda, numbers_for(*graph));
    return forward_calls() > before;
  };
  CHECK(claims({}));
  CHECK(claims({.specific = {{"rnn", "cudnn"}}}));
  CHECK(claims({.specific = {{"rnn", "cudnn"}, {"loops", "whole"}}}));
  CHECK_FALSE(claims({.specific = {{"rnn", "own"}}}));
  CHECK_FALSE(claims({.specific = {{"loops", "whole"}}}));
  CHECK_FALSE(claims({.specific = {{"products", "own"}}}));
  const DnnLibraries before = dnn_libraries();
  dnn_libraries() = {{"libno-such.so.9", "libno-such.so"}};
  const auto cuda = make_backend("cuda");
  CHECK(contains(cuda->describe().device, "no cuDNN"));
  const BackendOptions wanted{.specific = {{"rnn", "cudnn"}}};
  CHECK_THROWS_WITH_AS(make_backend("cuda", wanted), doctest::Contains("no libno-such.so.9"), Error);
  dnn_libraries() = before;
  set_dnn_tamper([](DnnFunctions& f) {
    f.Create = [](dnn::Context**) { return dnn::Status::not_initialized; };
  });
  CHECK(contains(make_backend("cuda")->describe().device, "no cuDNN"));
  set_dnn_tamper(nullptr);
}

}  // namespace test_cudnn
