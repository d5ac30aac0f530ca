// SPDX-License-Identifier: Apache-2.0
// Functions of several primitives against NumPy's numbers, and their gradients against differences.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/core/autodiff_numbers.h"
#include "tests/support/backends.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/support/error.h"

using namespace unroll;
using unroll::testing::first_order_error;
using unroll::testing::run_truth;

namespace {

using Numbers = std::vector<double>;

// f of x [2,3] = [[3, -1, 2], [0, 5, -4]], and its shape.
struct Got {
  Shape shape;
  Numbers values;
  bool operator==(const Got&) const = default;
};
Got of_matrix(const std::function<Value(Value)>& f, DType dtype = DType::f64) {
  Graph graph;
  graph.output("y", f(graph.input("x", {dtype, {2, 3}})));
  Tensor x(dtype, {2, 3});
  std::int64_t position = 0;
  for (const double value : {3, -1, 2, 0, 5, -4}) x.set(position++, value);
  const Tensor y = run_truth(graph, {{"x", x}}).at("y");
  Got got{y.shape(), {}};
  for (std::int64_t i = 0; i < y.elements(); ++i) got.values.push_back(y.at(i));
  return got;
}

std::string refusal_of_matrix(const std::function<Value(Value)>& f, ErrorKind kind) {
  try {
    of_matrix(f);
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "nothing was thrown";
}

double gradient_error(const std::function<Value(Value)>& f, double low = -1, double high = 1) {
  return first_order_error({{{2, 3}}, [&](std::span<const Value> in) { return sum(square(f(in[0]))); }, low, high});
}

constexpr double k_rounding = 1e-9;  // of differences, see test_autodiff_numbers.cc

}  // namespace

TEST_CASE("reductions take axes from either end, and keep them") {
  CHECK(of_matrix([](Value x) { return sum(x); }) == Got{{}, {5}});
  CHECK(of_matrix([](Value x) { return sum(x, 0); }) == Got{{3}, {3, 4, -2}});
  CHECK(of_matrix([](Value x) { return sum(x, {-1}, true); }) == Got{{2, 1}, {4, 1}});
  CHECK(of_matrix([](Value x) { return sum(x, {-1, 0}, true); }) == Got{{1, 1}, {5}});
  CHECK(of_matrix([](Value x) { return mean(x, 0); }) == Got{{3}, {1.5, 2, -1}});
  CHECK(of_matrix([](Value x) { return max(x, -1); }) == Got{{2}, {3, 5}});
  CHECK(of_matrix([](Value x) { return min(x, -1); }) == Got{{2}, {-1, -4}});
  CHECK(of_matrix([](Value x) { return min(x); }, DType::i32) == Got{{}, {-4}});
  CHECK(of_matrix([](Value x) {
          return min(concat({x, filled(x.graph(), {x.dtype(), {1, 3}}, std::numeric_limits<std::int32_t>::min())}, 0));
        }, DType::i32) == Got{{}, {std::numeric_limits<std::int32_t>::min()}});
  CHECK(gradient_error([](Value x) { return mean(x, -2, true) * x; }) < k_rounding);
  CHECK(gradient_error([](Value x) { return max(x, 0) - min(x, 1, true); }) < k_rounding);
  CHECK(refusal_of_matrix([](Value x) { return sum(x, 2); }, ErrorKind::shape).find("outside of rank 2") !=
        std::string::npos);
  CHECK(refusal_of_matrix([](Value x) { return sum(x, {0, -2}); }, ErrorKind::shape).find("given twice") !=
        std::string::npos);
  CHECK(refusal_of_matrix([](Value x) { return mean(cast(x, DType::i32)); }, ErrorKind::type).find("floats") !=
        std::string::npos);
}

TEST_CASE("comparisons of values and numbers") {
  const Shape shape{2, 3};
  CHECK(of_matrix([](Value x) { return x > 2; }) == Got{shape, {1, 0, 0, 0, 1, 0}});
  CHECK(of_matrix([](Value x) { return x >= 2; }) == Got{shape, {1, 0, 1, 0, 1, 0}});
  CHECK(of_matrix([](Value x) { return x < 0; }) == Got{shape, {0, 1, 0, 0, 0, 1}});
  CHECK(of_matrix([](Value x) { return 0 >= x; }) == Got{shape, {0, 1, 0, 1, 0, 1}});
  CHECK(of_matrix([](Value x) { return x <= -x; }) == Got{shape, {0, 1, 0, 1, 0, 1}});
  CHECK(of_matrix([](Value x) { return not_equal(x, abs(x)); }) == Got{shape, {0, 1, 0, 0, 0, 1}});
}

TEST_CASE("pow, clip, cumsum, one_hot, squeeze, and concat of a list") {
  const Shape shape{2, 3};
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(of_matrix([](Value x) { return pow(x, 3); }) == Got{shape, {27, -1, 8, 0, 125, -64}});
  CHECK(of_matrix([](Value x) { return pow(x, 0); }) == Got{shape, {1, 1, 1, 1, 1, 1}});
  CHECK(of_matrix([](Value x) { return pow(x, -2); }) == Got{shape, {1.0 / 9, 1, 0.25, inf, 1.0 / 25, 1.0 / 16}});
  CHECK(of_matrix([](Value x) { return pow(scalar_like(x, 0), x); }) == Got{shape, {0, inf, 0, 1, 0, inf}});
  for (const double zero_to_nan : of_matrix([](Value x) {
         return pow(scalar_like(x, 0), x * std::numeric_limits<double>::quiet_NaN());
       }).values)
    CHECK(std::isnan(zero_to_nan));
  CHECK(of_matrix([](Value x) { return clip(x, -1, 2); }) == Got{shape, {2, -1, 2, 0, 2, -1}});
  CHECK(of_matrix([](Value x) { return cumsum(x, -1); }) == Got{shape, {3, 2, 4, 0, 5, 1}});
  CHECK(of_matrix([](Value x) { return cumsum(x, 0); }, DType::i32) == Got{shape, {3, -1, 2, 3, 4, -2}});
  CHECK(of_matrix([](Value x) { return squeeze(slice(x, -1, 1, 1), -1); }) == Got{{2}, {-1, 5}});
  CHECK(of_matrix([](Value x) { return one_hot(slice(x, 0, 0, 1), 3); }, DType::i32) ==
        Got{{1, 3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 1}});
  CHECK(of_matrix([](Value x) { return concat({row(x, 0), row(x, 1)}, -1); }) == Got{{6}, {3, -1, 2, 0, 5, -4}});
  CHECK(gradient_error([](Value x) { return pow(x, 3); }) < k_rounding);
  CHECK(gradient_error([](Value x) { return pow(x, 1.5) + pow(x, x); }, 0.5, 2) < k_rounding);
  CHECK(gradient_error([](Value x) { return cumsum(x, 1) * cumsum(x, 0); }) < k_rounding);
  CHECK(refusal_of_matrix([](Value x) { return squeeze(x, 0); }, ErrorKind::shape).find("does not have size 1") !=
        std::string::npos);
  CHECK(refusal_of_matrix([](Value x) { return cumsum(x, 2); }, ErrorKind::shape).find("outside of rank 2") !=
        std::string::npos);
}

TEST_CASE("gradients of pow at 0 and of clip at its bounds are finite") {
  const auto slope = [](const std::function<Value(Value)>& f) {
    return of_matrix([&](Value x) { return differentiate(sum(f(x)), {x})[0]; }).values;
  };
  CHECK(slope([](Value x) { return clip(x, -1, 2); }) == Numbers{0, 1, 1, 1, 0, 0});
  CHECK(slope([](Value x) { return pow(x, 2); })[3] == 0);
  CHECK(slope([](Value x) { return pow(x, 0.5); })[3] == 0);
}

TEST_CASE("value_and_grad gives a function's value and its gradient for each argument") {
  Graph graph;
  const Value w = graph.input("w", {DType::f64, {2}}), b = graph.input("b", {DType::f64, Shape{}});
  const auto loss = [](std::span<const Value> in) { return sum(square(in[0])) * in[1]; };
  const ValueAndGradients r = value_and_grad(loss, {w, b});
  graph.output("value", r.value);
  graph.output("d_w", r.gradients[0]);
  graph.output("d_b", r.gradients[1]);
  TensorMap y = run_truth(
      graph, {{"w", Tensor::from<double>({2}, {1, 2})}, {"b", Tensor::scalar(DType::f64, 3)}});
  CHECK(y.at("value").at(0) == 15);
  CHECK(y.at("d_w").at({1}) == 12);
  CHECK(y.at("d_b").at(0) == 5);
  CHECK_THROWS_AS(value_and_grad([](std::span<const Value> in) { return in[0]; }, {w}), Error);
}

TEST_CASE("a tensor is read by shape, and prints like an array") {
  Tensor t(DType::f32, {2, 3});
  t.at<float>({1, 2}) = 1.5F;
  t.set({0, 1}, -3);
  CHECK(t.at({1, 2}) == 1.5);
  CHECK(t.at(1) == -3);
  CHECK(t.text() == "f32[2,3]\n[[0, -3, 0],\n [0, 0, 1.5]]");
  CHECK(Tensor(DType::i32, {2000}).text() == "i32[2000]\n[0, 0, 0, ..., 0, 0, 0]");
  CHECK_THROWS_WITH_AS(t.at({2, 0}), doctest::Contains("index 2 of axis 0 of a tensor [2,3]"), Error);
  CHECK_THROWS_WITH_AS(t.at({0, -1}), doctest::Contains("index -1 of axis 1"), Error);
  CHECK_THROWS_WITH_AS(t.at<float>({1}), doctest::Contains("1 indices of a tensor [2,3]"), Error);
  CHECK_THROWS_WITH_AS(t.at<double>({0, 0}), doctest::Contains("values are f32"), Error);
}
