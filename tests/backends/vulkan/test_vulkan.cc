// SPDX-License-Identifier: Apache-2.0
// The vulkan backend on the device that is there: functions where drivers are known to fail, known numbers, loops
// within the device's limits, the choice of a device. Skips with the reason when there is no device.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/program/times.h"
#include "core/support/philox.h"
#include "tests/support/long_sum.h"
#include "tests/support/or_skip.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_vulkan {

using namespace unroll;

namespace {

constexpr float k_infinite = std::numeric_limits<float>::infinity();
constexpr float k_points[] = {0,     1e-30f, 0.5f, 20,  88,  89,   1e4f,        k_infinite,
                              -0.5f, -20,    -88,  -89, -1e4f, -k_infinite, 1e-3f};
constexpr std::int64_t k_n_points = std::size(k_points);
constexpr double k_tolerance = 4 * 0x1p-23;  // relative

std::unique_ptr<Backend> open_or_skip(const BackendOptions& options = {}) {
  return testing::or_skip([&] { return make_backend("vulkan", options); });
}

bool agrees(double got, double wanted) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted) || std::isinf(got)) return got == wanted;
  // Results below the smallest normal number may be flushed.
  return std::abs(got - wanted) <= k_tolerance * std::abs(wanted) + double{std::numeric_limits<float>::min()};
}

Tensor counting(const Type& type, std::int64_t period, std::int64_t shift) {
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>(i % period - shift));
  return t;
}

// Whole numbers, so that every order of a sum gives the same result.
struct Sums {
  TensorMap results;
  explicit Sums(Backend& backend) {
    constexpr std::int64_t m = 37, k = 1300, n = 19;
    Graph graph;
    const Value a = graph.input("a", {DType::f32, {m, k}}), b = graph.input("b", {DType::f32, {k, n}});
    const Value i = graph.input("i", {DType::i32, {k}});
    graph.output("product", matmul(a, b));
    graph.output("sum", sum(a));
    graph.output("columns", reduce_sum(a, {0}));
    graph.output("largest", reduce_max(a, {1}));
    graph.output("rows", scatter_add(i, b, 7));
    graph.output("many rows", scatter_add(i, b, 1000));  // more elements than updates
    graph.output("first largest", argmax(a, 1));
    Tensor at(Type{DType::i32, {k}});
    for (std::int64_t e = 0; e < k; ++e) at.set(e, static_cast<double>(e % 9 - 1));
    results = evaluate(graph, backend,
                       {{"a", counting({DType::f32, {m, k}}, 7, 3)}, {"b", counting({DType::f32, {k, n}}, 5, 2)},
                        {"i", at}});
  }
};

}  // namespace

TEST_CASE("exp, tanh, sigmoid, erf and logarithms are right where drivers are known to fail") {
  const auto backend = open_or_skip();
  if (!backend) return;
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {k_n_points}});
  graph.output("exp", exp(x));
  graph.output("expm1", expm1(x));
  graph.output("tanh", tanh(x));
  graph.output("sigmoid", sigmoid(x));
  graph.output("erf", erf(x));
  graph.output("log", log(x));
  graph.output("log1p", log1p(x));
  Tensor points(Type{DType::f32, {k_n_points}});
  for (std::int64_t i = 0; i < k_n_points; ++i) points.set(i, k_points[i]);
  const TensorMap results = evaluate(graph, *backend, {{"x", points}});
  for (std::int64_t i = 0; i < k_n_points; ++i) {
    const double at = k_points[i];
    CAPTURE(at);
    // beyond f32 a result is infinite there
    const auto f32 = [](double y) { return static_cast<double>(static_cast<float>(y)); };
    CHECK(agrees(results.at("exp").at(i), f32(std::exp(at))));
    CHECK(agrees(results.at("expm1").at(i), f32(std::expm1(at))));
    CHECK(agrees(results.at("tanh").at(i), std::tanh(at)));
    CHECK(agrees(results.at("sigmoid").at(i), 1 / (1 + std::exp(-at))));
    CHECK(agrees(results.at("erf").at(i), std::erf(at)));
    CHECK(agrees(results.at("log").at(i), std::log(at)));
    CHECK(agrees(results.at("log1p").at(i), std::log1p(at)));
  }
}

TEST_CASE("random numbers are Philox's, also far into a stream") {
  const auto backend = open_or_skip();
  if (!backend) return;
  constexpr std::int64_t n = 1 << 20, rng_stream = 5;
  constexpr std::int64_t step = 9000;  // 9000 * 2^20 needs 34 bits
  Graph graph;
  const Value input = graph.input("key", {DType::i32, {3}});
  graph.output("u", random_uniform(input, {n}, rng_stream, graph.input("step", {DType::i32, {}})));
  Tensor key(Type{DType::i32, {3}}), at(Type{DType::i32, {}});
  const std::uint32_t words[] = {7, 11, 13};
  for (std::int64_t i = 0; i < 3; ++i) key.set(i, words[i]);
  at.set(0, static_cast<double>(step));
  const Tensor u = evaluate(graph, *backend, {{"key", key}, {"step", at}}).at("u");
  int wrong = 0;
  for (std::int64_t e = 0; e < n; e += 997) {
    const auto index = static_cast<std::uint64_t>(step * n + e), block = index / 4;
    const PhiloxBlock made = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                     static_cast<std::uint32_t>(rng_stream), words[2]}, {words[0], words[1]});
    wrong += u.at(e) != double{philox_uniform(made[index % 4])};
  }
  CHECK(wrong == 0);
}

TEST_CASE("an elementwise group with more operands than a shader binds is computed in parts") {
  const auto backend = open_or_skip();
  if (!backend) return;
  constexpr int k_inputs = 44;
  Graph graph;
  TensorMap inputs;
  std::vector<Value> x;
  for (int i = 0; i < k_inputs; ++i) {
    const std::string name = "x" + std::to_string(i);
    x.push_back(graph.input(name, {DType::f32, {5, 7}}));
    inputs.emplace(name, counting({DType::f32, {5, 7}}, 3 + i % 5, i % 3));
  }
  Value sum = x[0];
  for (std::size_t i = 1; i < k_inputs; ++i) sum = i % 2 ? sum + x[i] : sum - x[i];
  graph.output("sum", sum);
  graph.output("other", sum * x[2] + x[1]);
  graph.output("is negative", less(sum, x[3]));
  const TensorMap got = evaluate(graph, *backend, inputs), wanted = evaluate(graph, *make_backend("reference"), inputs);
  for (const auto& [name, tensor] : wanted)
    for (std::int64_t i = 0; i < tensor.elements(); ++i) CHECK(got.at(name).at(i) == tensor.at(i));
}

TEST_CASE("a fused reduction with more operands than a shader binds reads those of the arena through one buffer") {
  const auto backend = open_or_skip();
  if (!backend) return;
  constexpr std::int64_t k_values = 40;
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {9, 5}}), at = graph.input("at", {DType::i32, {k_values, 7}});
  Value sum;
  for (std::int64_t i = 0; i < k_values; ++i) {
    const Value rows = gather(x, reshape(slice(at, 0, i, 1), {7}));  // a value of the arena
    sum = i == 0 ? rows : sum * 0.5 + rows;
  }
  graph.output("y", sum - reduce_max(sum, {1}, true));
  const TensorMap inputs{{"x", counting({DType::f32, {9, 5}}, 11, 4)},
                         {"at", counting({DType::i32, {k_values, 7}}, 9, 0)}};
  const TensorMap got = evaluate(graph, *backend, inputs), wanted = evaluate(graph, *make_backend("reference"), inputs);
  for (std::int64_t i = 0; i < 35; ++i) CHECK(got.at("y").at(i) == wanted.at("y").at(i));
}

TEST_CASE("work is the same when loops must be short: no loop ends early in silence") {
  const auto backend = open_or_skip();
  if (!backend) return;
  const TensorMap wanted = Sums(*make_backend("reference")).results;
  for (const char* iterations : {"", "50", "7"}) {
    BackendOptions options;
    if (*iterations) options.specific["iterations"] = iterations;
    const auto limited = make_backend("vulkan", options);
    const TensorMap got = Sums(*limited).results;
    for (const auto& result : wanted) {
      CAPTURE(iterations);
      CAPTURE(result.first);
      int wrong = 0;
      for (std::int64_t i = 0; i < result.second.elements(); ++i)
        wrong += got.at(result.first).at(i) != result.second.at(i);
      CHECK(wrong == 0);
    }
  }
}

// llvmpipe leaves loops after 65,535 iterations without a word: one product and one sum beyond that.
TEST_CASE("a product and a reduction with more terms than a shader may loop are complete") {
  const auto backend = open_or_skip();
  if (!backend) return;
  constexpr std::int64_t k = 1'200'000;
  Graph graph;
  const Value a = graph.input("a", {DType::f32, {1, k}}), b = graph.input("b", {DType::f32, {k, 1}});
  const Value i = graph.input("i", {DType::i32, {k}});
  graph.output("product", matmul(a, b));
  graph.output("sum", sum(a));
  graph.output("rows", scatter_add(i, reshape(b, {k}), 2));
  Tensor ones(Type{DType::f32, {1, k}});
  for (std::int64_t e = 0; e < k; ++e) ones.set(e, 1);
  const TensorMap got = evaluate(graph, *backend, {{"a", ones}, {"b", counting({DType::f32, {k, 1}}, 2, 0)},
                                                   {"i", counting({DType::i32, {k}}, 2, 0)}});
  CHECK(got.at("product").at(0) == k / 2);
  CHECK(got.at("sum").at(0) == k);
  CHECK(got.at("rows").at(0) == 0);
  CHECK(got.at("rows").at(1) == k / 2);
}

TEST_CASE("a product of many terms adds up at most 1,024 of them in a row") {
  const auto backend = open_or_skip();
  if (!backend) return;
  for (const std::int64_t k : {4096, 40000}) CHECK(testing::long_sum_error(*backend, k) <= 1);
}

TEST_CASE("what loops too long and cannot be cut is refused by name") {
  const auto backend = open_or_skip({.specific = {{"iterations", "10"}}});
  if (!backend) return;
  Graph graph;
  graph.output("y", softmax(graph.input("x", {DType::f32, {3, 20000}})));
  try {
    Program program(graph, *backend);
    FAIL("rows of 20,000 columns are accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(std::string(error.what()).find("fused_reduction over") != std::string::npos);
  }
}

TEST_CASE("a device is chosen by number or by a part of its name") {
  const auto backend = open_or_skip();
  if (!backend) return;
  const std::string device = backend->describe().device;
  std::printf("device: %s\n", device.c_str());
  const std::string word = device.substr(0, device.find(' '));
  CHECK(make_backend("vulkan:" + word)->describe().device.find(word) == 0);
  CHECK_THROWS_AS(make_backend("vulkan:no such device"), Error);
  CHECK_THROWS_AS(make_backend("vulkan:99"), Error);
  CHECK(make_backend("vulkan:lavapipe")->describe().runs == false);  // a profile keeps its name
  CHECK_THROWS_AS(make_backend("vulkan", {.specific = {{"iterations", "0"}}}), Error);
}

// Tests of vulkan run under the validation layer where it is installed, see tests/meson.build.
TEST_CASE("a mistake that the validation layer reports ends the program of a test") {
  if (!std::getenv("VK_INSTANCE_LAYERS") || !open_or_skip()) {
    std::printf("skipped: no validation layer\n");
    return;
  }
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      vulkan::Device device({}, false, 0);
      VkSemaphoreCreateInfo info{};
      info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
      VkSemaphore never_destroyed = VK_NULL_HANDLE;
      device.f().CreateSemaphore(device.handle(), &info, nullptr, &never_destroyed);
    } catch (const Error&) {
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTRAP);
}

TEST_CASE("f64 is refused with the reason") {
  const auto backend = open_or_skip();
  if (!backend) return;
  Graph graph;
  const Value x = graph.input("x", {DType::f64, {2}});
  graph.output("y", x + x);
  try {
    Program program(graph, *backend);
    FAIL("f64 is accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unsupported);
  }
}

TEST_CASE("the time of all runs never shrinks when a later run is timed as shorter") {
  const vulkan::NodeWork* const work = nullptr;  // only a key
  vulkan::SampledTimes times;
  CHECK(times.total(2).empty());
  times.add({{work, 10}}, 2);  // milliseconds; a cold run
  CHECK(times.total(3).at(work) == 30);
  CHECK(times.total(18).at(work) == 180);
  times.add({{work, 1}}, 18);
  CHECK(times.total(19).at(work) == 181);
  CHECK(times.total(34).at(work) == 196);
}

}  // namespace test_vulkan
