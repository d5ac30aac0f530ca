// SPDX-License-Identifier: Apache-2.0
// Block by block equals the whole sequence, for random networks that are causal in time. Sequences are [B,T,C].
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "core/support/tensor_role.h"
#include "tests/support/refusal.h"
#include "unroll/ir/ops.h"
#include "unroll/nn/scope.h"
#include "unroll/passes/block_stream.h"
#include "unroll/passes/run.h"

namespace unroll::test_block_stream {
namespace {

using testing::refusal;
using Random = std::mt19937_64;
constexpr std::int64_t B = 2;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

Tensor drawn(const Shape& shape, std::uint64_t seed, double bound = 0.5) {
  const ParameterSpec spec{"w", {DType::f32, shape}, Initializer::uniform(bound)};
  return std::move(initialize(std::span(&spec, 1), seed).at("w"));
}

// A network of random layers. The same seed gives the same layers and parameters for every T.
class Network {
 public:
  Network(Graph& graph, std::int64_t T, std::uint64_t seed, bool looks_ahead) : random_(seed) {
    values_.push_back(graph.input("x", {DType::f32, {B, T, 3}}));
    const std::int64_t n = between(random_, 2, 7), ahead = looks_ahead ? between(random_, 0, n - 1) : -1;
    for (std::int64_t k = 0; k < n; ++k) values_.push_back(k == ahead ? centered(last()) : layer());
    graph.output("y", last());
  }

 private:
  Value last() const { return values_.back(); }
  std::int64_t up_to(std::int64_t high) { return between(random_, 1, high); }
  Value parameter(const Shape& shape) { return constant(last().graph(), drawn(shape, random_())); }

  Value conv_of(Value x, std::int64_t K, ConvOptions o) {
    const std::int64_t C = x.shape()[2], O = o.groups > 1 ? C : up_to(4);
    const Value weight = parameter({O, K, C / o.groups});
    return conv(x, weight, parameter({O}), o);
  }
  Value centered(Value x) { return conv_of(x, 3, {.axes = {1}, .low = {1}, .high = {1}}); }
  Value convolution() {
    const std::int64_t K = up_to(4), dilation = up_to(3), stride = down_ < 8 ? up_to(2) : 1;
    down_ *= stride;
    const std::int64_t groups = random_() % 3 == 0 ? last().shape()[2] : 1;
    return conv_of(last(), K, {.axes = {1}, .stride = {stride}, .dilation = {dilation},
                               .low = {(K - 1) * dilation}, .groups = groups});
  }
  Value pooling() {
    const std::int64_t K = up_to(3);
    const ConvOptions o{.axes = {1}, .low = {K - 1}};
    return random_() % 2 ? max_pool(last(), {K}, o) : average_pool(last(), {K}, o);
  }
  Value recurrence() {
    const Op cell = random_() % 2 ? Op::lstm : Op::gru;
    const std::int64_t I = last().shape()[2], H = up_to(4), G = cell == Op::lstm ? 4 : 3;
    const Value x = transpose(last(), {1, 0, 2}), start = parameter({1, B, H});
    RecurrentInputs in;
    in.x = x, in.h0 = start;
    if (cell == Op::lstm) in.c0 = parameter({1, B, H});
    for (const Shape& shape : {Shape{G * H, I}, Shape{G * H, H}, Shape{G * H}, Shape{G * H}})
      in.parameters.push_back(parameter(shape));
    return transpose(recurrent(cell, in, {.hidden = H}).y, {1, 0, 2});
  }
  Value skip() {
    for (std::size_t k = values_.size() - 1; k-- > 0;)
      if (values_[k].shape() == last().shape()) return last() + values_[k];
    return sigmoid(last()) * last();
  }
  Value upsampling() {
    const std::int64_t C = last().shape()[2], K = between(random_, 2, 4);
    const Value weight = parameter({C, K, C});
    return conv_transpose(last(), weight, {}, {.axes = {1}, .stride = {2}, .high = {K - 2}});
  }
  Value folding() {  // pairs of steps as channels, or pairs of channels as steps
    const std::int64_t T = last().shape()[1], C = last().shape()[2];
    if (C % 2 == 0) {
      const Value rows = reshape(transpose(last(), {1, 0, 2}), {T, B, 2, C / 2});
      return transpose(reshape(transpose(rows, {0, 2, 1, 3}), {2 * T, B, C / 2}), {1, 0, 2});
    }
    if (down_ >= 8) return tanh(last());
    down_ *= 2;
    const Value pairs = reshape(transpose(last(), {1, 0, 2}), {T / 2, 2, B, C});
    return reshape(transpose(pairs, {2, 0, 1, 3}), {B, T / 2, 2 * C});
  }
  Value previous() { return slice(pad(last(), 1, 2, 0), 1, 0, last().shape()[1]); }
  Value repeated() {
    const Shape shape = last().shape().with(2, 1);
    const Value constant = broadcast(tanh(broadcast(parameter({1}), shape)), shape);
    return concat({last(), constant * scalar_like(constant, 2)}, 2);
  }
  Value layer() {
    switch (random_() % 11) {
      case 0: case 1: return convolution();
      case 2: return pooling();
      case 3: case 4: return recurrence();
      case 5: return cumsum(scalar_like(last(), 0.1) * last(), 1);
      case 6: return skip();
      case 7: return upsampling();
      case 8: return folding();
      case 9: return previous();
      default: return random_() % 2 ? repeated() : softmax(last());
    }
  }

  Random random_;
  std::int64_t down_ = 1;
  std::vector<Value> values_;
};

GraphOfLength network(std::uint64_t seed, bool looks_ahead = false) {
  return [=](std::int64_t T) {
    auto graph = std::make_shared<Graph>();
    Network(*graph, T, seed, looks_ahead);
    return graph;
  };
}

// Rows of y for the rows of x: the first axis of both is time.
std::vector<float> streamed(const BlockStream& stream, Backend& backend, std::span<const float> x, std::int64_t T) {
  TensorMap inputs = evaluate(*stream.initial, backend, {});
  Program program(*stream.graph, backend);
  const Value in = const_cast<Graph&>(*stream.graph).find_input("x");
  const auto width = static_cast<std::size_t>(in.shape().elements() / stream.block);
  std::vector<float> y;
  const std::int64_t wanted = stream.length(T);
  std::size_t row_width = 1;
  for (std::int64_t k = 0; k * stream.rows < stream.delay + wanted; ++k) {
    Tensor block(in.type());
    for (std::size_t i = 0; i < width * stream.block; ++i) {
      const std::size_t at = k * stream.block * width + i;
      block.set(static_cast<std::int64_t>(i), at < x.size() ? x[at] : 1e6);  // nothing may read beyond the end
    }
    inputs.insert_or_assign("x", block);
    for (const BlockStream::End& end : stream.ends) {
      const std::int64_t left = end.length(T) - (k * end.rows - end.delay);
      inputs.insert_or_assign(end.name, Tensor::scalar(DType::i32, static_cast<double>(
                                                                      std::clamp<std::int64_t>(left, 0, end.rows))));
    }
    TensorMap results = program.run(inputs);
    const auto rows = results.at("y").values<float>();
    row_width = rows.size() / static_cast<std::size_t>(stream.rows);
    y.insert(y.end(), rows.begin(), rows.end());
    results.erase("y");
    inputs = std::move(results);
  }
  y.erase(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(stream.delay * row_width));
  y.resize(wanted * row_width);
  return y;
}

// [B,T,C] with time first.
std::vector<float> time_first(const Tensor& x) {
  const std::int64_t T = x.shape()[1], C = x.shape()[2];
  std::vector<float> rows(x.elements());
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t c = 0; c < C; ++c)
        rows[(t * B + b) * C + c] = static_cast<float>(x.at((b * T + t) * C + c));
  return rows;
}

// Compares with the whole sequence.
void check_equal(const GraphOfLength& graph_of, const BlockStreamOptions& options, std::int64_t T) {
  const auto backend = make_backend("reference");
  const Tensor x = drawn({B, T, 3}, 7, 1);
  const Tensor whole = evaluate(*graph_of(T), *backend, {{"x", x}}).at("y");
  const BlockStream stream = block_stream(graph_of, options);
  const std::vector<float> wanted = time_first(whole), got = streamed(stream, *backend, time_first(x), T);
  REQUIRE(stream.length(T) == whole.shape()[1]);
  CHECK(got == wanted);
}

TEST_CASE("random causal networks give the same bits block by block") {
  Random random(1);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const std::int64_t smallest = block_stream(network(seed)).block;
    check_equal(network(seed), {.block = smallest * between(random, 1, 3)}, 16 * between(random, 2, 4));
  }
}

TEST_CASE("a network that looks ahead is refused, or delayed by a look-ahead that is allowed") {
  Random random(2);
  int n_refused = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const GraphOfLength graph_of = network(seed, true);
    const std::string refused = refusal([&] { block_stream(graph_of); });
    n_refused += refused.find("output 'y' looks ahead ") != std::string::npos;
    const BlockStreamOptions allowed{.look_ahead = 100};
    const std::int64_t block = block_stream(graph_of, allowed).block * between(random, 1, 3);
    check_equal(graph_of, {.block = block, .look_ahead = 100}, 16 * between(random, 2, 4));
  }
  CHECK(n_refused > 50);  // later layers may take the look-ahead back: a stride, or the previous steps
}

TEST_CASE("what needs the whole sequence is refused by the name of the op") {
  using Build = Value (*)(Value);
  const std::pair<Build, const char*> cases[] = {
      {[](Value x) { return broadcast(mean(x, 1, true), x.shape()); }, "reduce_sum f32[2,1,3] reduces over time"},
      {[](Value x) { return x - slice(x, 1, 0, 1); }, "slice f32[2,1,3] reads single steps"},
      {[](Value x) { return x * slice(x, 1, x.shape()[1] - 1, 1); }, "slice f32[2,1,3] reads single steps"},
      {[](Value x) { return matmul(softmax(matmul(x, x, {.b = true})), x); }, "matmul f32[2,T,T] combines steps with"},
      {[](Value x) { return transpose(softmax(transpose(x, {0, 2, 1})), {0, 2, 1}); }, "reduces over time"},
      {[](Value x) { return x * cast(iota(x.graph(), x.shape(), 1), DType::f32); }, "depends on the position in time"},
      {[](Value x) { return reshape(x, {x.shape()[1], 2, 3}); }, "the time axis of output 'y' has others in it"},
      {[](Value x) {
         const auto step = [](const StepValues& v) {
           return StepResult{{v.states[0] + v.sequences[0]}, {v.states[0]}};
         };
         const Value rows = transpose(x, {1, 0, 2}), zero = filled(x.graph(), {DType::f32, {2, 3}}, 0);
         ScanOptions options;
         options.reverse = true;
         return transpose(scan({zero}, {rows}, {}, step, options).outputs[0], {1, 0, 2});
       }, "is a loop from the end to the start"},
  };
  for (const auto& [build, text] : cases) {
    const auto graph_of = [build = build](std::int64_t T) {
      auto graph = std::make_shared<Graph>();
      graph->output("y", build(graph->input("x", {DType::f32, {B, T, 3}})));
      return graph;
    };
    const std::string refused = refusal([&] { block_stream(graph_of); });
    CAPTURE(refused);
    CHECK(refused.find(text) != std::string::npos);
  }
}

TEST_CASE("blocks, outputs and inputs that do not exist are refused") {
  const auto pairs = [](std::int64_t T) {
    auto graph = std::make_shared<Graph>();
    const Value x = graph->input("x", {DType::f32, {1, T, 3}});
    graph->output("sum", sum(x));
    graph->output("pairs", reshape(x, {T / 2, 2, 3}));
    return graph;
  };
  const BlockStream stream = block_stream(pairs);
  CHECK(stream.block == 2);
  CHECK(stream.rows == 1);
  CHECK(stream.output == "pairs");
  CHECK(stream.others == std::vector<std::string>{"sum"});
  CHECK(refusal([&] { block_stream(pairs, {.block = 3}); }).find("a multiple of 2 steps; got 3") != std::string::npos);
  CHECK(refusal([&] { block_stream(pairs, {.output = "sum"}); }).find("whole sequence") != std::string::npos);
  CHECK(refusal([&] { block_stream(pairs, {.output = "z"}); }).find("no output 'z'") != std::string::npos);
  const auto fixed = [](std::int64_t) {
    auto graph = std::make_shared<Graph>();
    graph->output("y", graph->input("x", {DType::f32, {4, 3}}));
    return graph;
  };
  CHECK(refusal([&] { block_stream(fixed); }).find("a position for each step") != std::string::npos);
}

}  // namespace
}  // namespace unroll::test_block_stream
