// SPDX-License-Identifier: Apache-2.0
// The reference verifies every other backend, so it is itself checked against numbers worked out by hand.
#include <doctest/doctest.h>

#include <limits>

#include "backends/reference/kernels.h"
#include "backends/registry.h"
#include "tests/support/simple_plan.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using testing::run_plan;
using testing::simple_plan;

namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

using Doubles = std::vector<double>;

Tensor tensor(DType dtype, Shape shape, const Doubles& values) {
  Tensor t(dtype, shape);
  REQUIRE(static_cast<std::size_t>(shape.elements()) == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}

Doubles numbers(const Tensor& t) {
  Doubles values;
  for (std::int64_t i = 0; i < t.elements(); ++i) values.push_back(t.at(i));
  return values;
}

// A graph made of constants, run at once.
class Bench {
 public:
  Value operator()(DType dtype, Shape shape, const Doubles& values) {
    return constant(*graph_, tensor(dtype, shape, values));
  }
  Doubles run(Value value) {
    graph_->output("out" + std::to_string(graph_->outputs().size()), value);
    const auto backend = make_reference_backend({});
    return numbers(run_plan(simple_plan(graph_), *backend, {}).at(graph_->outputs().back().name));
  }

 private:
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
};

void check_near(const Doubles& got, const Doubles& wanted, double tolerance = 1e-15) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (wanted[i] != wanted[i]) CHECK(got[i] != got[i]);
    else if (std::abs(wanted[i]) == k_inf) CHECK(got[i] == wanted[i]);
    else CHECK(std::abs(got[i] - wanted[i]) <= tolerance * std::max(1.0, std::abs(wanted[i])));
  }
}

}  // namespace

TEST_CASE("every primitive has exactly one reference kernel") {
  std::vector<int> count(op_table().size());
  for (const auto rows : {reference::elementwise_kernels(), reference::move_kernels(), reference::linear_kernels(),
                          reference::reduce_kernels(), reference::index_kernels()})
    for (const reference::KernelRow& row : rows) ++count[static_cast<std::size_t>(row.op)];
  for (const OpInfo& info : op_table()) {
    CAPTURE(std::string(info.name));
    // A plan places inputs and constants; the interpreter walks bodies; composites are never handed over.
    const bool wanted = info.tier == OpTier::primitive && info.op != Op::input && info.op != Op::constant;
    CHECK(count[static_cast<std::size_t>(info.op)] == (wanted ? 1 : 0));
  }
}

TEST_CASE("float functions give known values, also at the ends") {
  Bench b;
  const Value x = b(DType::f64, {7}, {0, 1, -1, 750, -750, k_inf, k_nan});
  check_near(b.run(exp(x)), {1, 2.718281828459045, 0.36787944117144233, k_inf, 0, k_inf, k_nan});
  check_near(b.run(expm1(x)), {0, 1.718281828459045, -0.6321205588285577, k_inf, -1, k_inf, k_nan});
  check_near(b.run(tanh(x)), {0, 0.7615941559557649, -0.7615941559557649, 1, -1, 1, k_nan});
  check_near(b.run(sigmoid(x)), {0.5, 0.7310585786300049, 0.2689414213699951, 1, 0, 1, k_nan});
  check_near(b.run(erf(x)), {0, 0.8427007929497149, -0.8427007929497149, 1, -1, 1, k_nan});
  check_near(b.run(sign(x)), {0, 1, -1, 1, -1, 1, k_nan});
  check_near(b.run(abs(x)), {0, 1, 1, 750, 750, k_inf, k_nan});
  check_near(b.run(is_finite(x)), {1, 1, 1, 1, 1, 0, 0});
  const Value y = b(DType::f64, {4}, {0, 1, 4, 0.25});
  check_near(b.run(log(y)), {-k_inf, 0, 1.3862943611198906, -1.3862943611198906});
  check_near(b.run(log1p(y)), {0, 0.6931471805599453, 1.6094379124341003, 0.22314355131420976});
  check_near(b.run(sqrt(y)), {0, 1, 2, 0.5});
}

TEST_CASE("binary ops broadcast like NumPy and pass NaN through extrema") {
  Bench b;
  const Value column = b(DType::f64, {2, 1}, {10, 20}), line = b(DType::f64, {3}, {1, 2, 4});
  CHECK(b.run(column + line) == Doubles{11, 12, 14, 21, 22, 24});
  CHECK(b.run(column - line) == Doubles{9, 8, 6, 19, 18, 16});
  CHECK(b.run(column * line) == Doubles{10, 20, 40, 20, 40, 80});
  CHECK(b.run(column / line) == Doubles{10, 5, 2.5, 20, 10, 5});
  CHECK(b.run(less(line, b(DType::f64, {}, {2}))) == Doubles{1, 0, 0});
  CHECK(b.run(less_equal(line, b(DType::f64, {}, {2}))) == Doubles{1, 1, 0});
  CHECK(b.run(equal(line, b(DType::f64, {}, {2}))) == Doubles{0, 1, 0});
  const Value u = b(DType::f32, {3}, {1, k_nan, 3}), v = b(DType::f32, {3}, {k_nan, 2, 2});
  check_near(b.run(maximum(u, v)), {k_nan, k_nan, 3});
  check_near(b.run(minimum(u, v)), {k_nan, k_nan, 2});
}

TEST_CASE("whole numbers wrap, divide towards zero, and give 0 when divided by zero") {
  Bench b;
  constexpr double lowest = -2147483648.0;
  const Value x = b(DType::i32, {4}, {7, -7, lowest, 5}), y = b(DType::i32, {4}, {2, 2, -1, 0});
  CHECK(b.run(x / y) == Doubles{3, -3, lowest, 0});
  CHECK(b.run(x + y) == Doubles{9, -5, 2147483647, 5});
  CHECK(b.run(neg(x)) == Doubles{-7, 7, lowest, -5});
  CHECK(b.run(cast(b(DType::f64, {5}, {2.9, -2.9, 1e20, -1e20, k_nan}), DType::i32)) ==
        Doubles{2, -2, 2147483647, lowest, 0});
  CHECK(b.run(cast(b(DType::f64, {3}, {0, -0.5, k_nan}), DType::b8)) == Doubles{0, 1, 1});
}

TEST_CASE("logic and select follow their truth tables") {
  Bench b;
  const Value p = b(DType::b8, {4}, {0, 0, 1, 1}), q = b(DType::b8, {4}, {0, 1, 0, 1});
  CHECK(b.run(logical_and(p, q)) == Doubles{0, 0, 0, 1});
  CHECK(b.run(logical_or(p, q)) == Doubles{0, 1, 1, 1});
  CHECK(b.run(logical_not(p)) == Doubles{1, 1, 0, 0});
  CHECK(b.run(select(q, b(DType::f32, {4}, {1, 2, 3, 4}), b(DType::f32, {}, {9}))) == Doubles{9, 2, 9, 4});
}

TEST_CASE("movement puts every element where NumPy puts it") {
  Bench b;
  const Value x = b(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(b.run(transpose(x, {1, 0})) == Doubles{1, 4, 2, 5, 3, 6});
  CHECK(b.run(transpose(reshape(x, {1, 2, 3}), {2, 0, 1})) == Doubles{1, 4, 2, 5, 3, 6});
  CHECK(b.run(slice(x, 1, 1, 2)) == Doubles{2, 3, 5, 6});
  CHECK(b.run(pad(x, 1, 1, 2)) == Doubles{0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0});
  const Value parts[] = {x, b(DType::f32, {2, 1}, {8, 9}), x};
  CHECK(b.run(concat(parts, 1)) == Doubles{1, 2, 3, 8, 1, 2, 3, 4, 5, 6, 9, 4, 5, 6});
  CHECK(b.run(broadcast(b(DType::f32, {2, 1}, {1, 2}), {2, 2, 2})) == Doubles{1, 1, 2, 2, 1, 1, 2, 2});
  CHECK(b.run(iota(x.graph(), {2, 3}, 1)) == Doubles{0, 1, 2, 0, 1, 2});
  CHECK(b.run(iota(x.graph(), {2, 3}, 0)) == Doubles{0, 0, 0, 1, 1, 1});
}

TEST_CASE("matmul handles both transpositions and batches") {
  Bench b;
  const Value x = b(DType::f64, {2, 3}, {1, 2, 3, 4, 5, 6}), y = b(DType::f64, {3, 2}, {1, 0, 0, 1, 2, 2});
  const Doubles xy{7, 8, 16, 17};
  CHECK(b.run(matmul(x, y)) == xy);
  CHECK(b.run(matmul(transpose(x, {1, 0}), y, {.a = true})) == xy);
  CHECK(b.run(matmul(x, transpose(y, {1, 0}), {.b = true})) == xy);
  CHECK(b.run(matmul(transpose(x, {1, 0}), transpose(y, {1, 0}), {.a = true, .b = true})) == xy);
  const Value u = b(DType::f64, {2, 1, 2}, {1, 2, 3, 4}), v = b(DType::f64, {2, 2, 1}, {5, 6, 7, 8});
  CHECK(b.run(matmul(u, v)) == Doubles{17, 53});
  CHECK(b.run(matmul(b(DType::f64, {2, 0}, {}), b(DType::f64, {0, 2}, {}))) == Doubles{0, 0, 0, 0});
}

TEST_CASE("reductions over any axes, with the first of equals and NaN as the largest") {
  Bench b;
  const Value x = b(DType::f64, {2, 3}, {1, 5, 5, 4, -5, 6});
  CHECK(b.run(reduce_sum(x, {0})) == Doubles{5, 0, 11});
  CHECK(b.run(reduce_sum(x, {1}, true)) == Doubles{11, 5});
  CHECK(b.run(sum(x)) == Doubles{16});
  CHECK(b.run(reduce_sum(b(DType::f64, {2, 0}, {}), {1})) == Doubles{0, 0});
  CHECK(b.run(reduce_max(x, {0})) == Doubles{4, 5, 6});
  CHECK(b.run(reduce_max(x, {0, 1})) == Doubles{6});
  CHECK(b.run(argmax(x, 1)) == Doubles{1, 2});
  CHECK(b.run(argmax(x, 0)) == Doubles{1, 0, 1});
  const Value n = b(DType::f64, {3}, {1, k_nan, 7});
  check_near(b.run(reduce_max(n, {0})), {k_nan});
  CHECK(b.run(argmax(n, 0)) == Doubles{1});
}

TEST_CASE("an index out of range reads zeros and adds nothing") {
  Bench b;
  const Value table = b(DType::f32, {2, 2}, {1, 2, 3, 4}), ids = b(DType::i32, {2, 2}, {1, 2, -1, 0});
  CHECK(b.run(gather(table, ids)) == Doubles{3, 4, 0, 0, 0, 0, 1, 2});
  const Value rows = b(DType::i32, {4}, {1, 5, 1, -1});
  CHECK(b.run(scatter_add(rows, b(DType::f32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), 3)) == Doubles{0, 0, 6, 8, 0, 0});
}

TEST_CASE("random numbers depend on key, rng_stream and index only") {
  Bench b;
  const Value key = b(DType::i32, {3}, {1, 2, 3});
  const Doubles whole = b.run(random_uniform(key, {8}, 4));
  for (const double u : whole) CHECK((u >= 0 && u < 1));
  const Value one = b(DType::i32, {}, {1});
  const Doubles second = b.run(random_uniform(key, {4}, 4, one));
  CHECK(second == Doubles(whole.begin() + 4, whole.end()));
  CHECK(b.run(random_uniform(key, {8}, 5)) != whole);
  CHECK(b.run(random_uniform(b(DType::i32, {3}, {1, 2, 4}), {8}, 4)) != whole);
}

TEST_CASE("a fused node computes what its body says") {
  Bench b;
  auto body = std::make_shared<Graph>();
  const Value p = body->input("p", {DType::f32, {2}}), q = body->input("q", {DType::f32, {}});
  const Value product = p * q;
  body->output("product", product);
  body->output("positive", less(scalar(*body, DType::f32, 0), product));
  const Value inputs[] = {b(DType::f32, {2}, {3, -4}), b(DType::f32, {}, {2})};
  const auto outputs = inputs[0].graph().append(Op::fused, inputs, {}, body);
  CHECK(b.run(outputs[0]) == Doubles{6, -8});
  CHECK(b.run(outputs[1]) == Doubles{1, 0});
}
