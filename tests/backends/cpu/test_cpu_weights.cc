// SPDX-License-Identifier: Apache-2.0
// Products with weights in fewer bits against a plain loop over the weights as they are stored.
#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/gemm/weights.h"
#include "cpu_kernel_test.h"

namespace test_cpu_weights {

using namespace unroll;
using namespace unroll::cpu;

namespace {

double as_bf16(float weight) {
  std::uint32_t bits;
  std::memcpy(&bits, &weight, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&weight, &bits, 4);
  return weight;
}

struct Sizes {
  std::int64_t m, n, k;
};

void check_product(const Sizes& s, bool transposed, WeightFormat format) {
  const Type a_type{DType::f32, {s.m, s.k}};
  const Type b_type{DType::f32, transposed ? Shape{s.n, s.k} : Shape{s.k, s.n}};
  const Matmul mm = make_matmul(a_type, b_type, false, transposed);
  const auto a = random_values<float>(s.m * s.k);
  const auto weights = random_values<float>(s.k * s.n);
  const auto b = std::make_shared<const Tensor>(Tensor::from<float>(b_type.shape, weights));
  const auto at = [&](std::int64_t k, std::int64_t n) {
    return weights[static_cast<std::size_t>(transposed ? n * s.k + k : k * s.n + n)];
  };
  WeightStore store;
  const auto packed = store.get(b, mm, format);
  const std::vector<float> start(static_cast<std::size_t>(s.m * s.n), std::numeric_limits<float>::quiet_NaN());
  const auto c = run_with_every_pool(
      start, [&](const Worker& worker, float* out, std::byte*) { run_weights(mm, a.data(), *packed, out, worker); },
      [](int) { return std::size_t{0}; });
  const std::string what = a_type.text() + " x " + b_type.text();
  // At most half a unit of 16 bits of the largest activation, which is below 1, times the weight.
  const bool rounds = format != WeightFormat::f32 && weight_kernels(format).rounds_activations;
  for (std::int64_t n = 0; n < s.n; ++n) {
    float most = 0;
    for (std::int64_t k = 0; k < s.k; ++k) most = std::max(most, std::abs(at(k, n)));
    const float scale = most / 127;
    for (std::int64_t m = 0; m < s.m; ++m) {
      double sum = 0, magnitude = 0, weight = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        const double as_int8 = double{std::nearbyint(at(k, n) / scale)} * double{scale};
        const double w = format == WeightFormat::bf16 ? as_bf16(at(k, n)) : as_int8;
        const double x = a[static_cast<std::size_t>(m * s.k + k)];
        sum += x * w;
        magnitude += std::abs(x * w);
        weight += std::abs(w);
      }
      // Any order of summation, and one product with the scale.
      const double bound = (static_cast<double>(s.k) + 3) * std::numeric_limits<float>::epsilon() * magnitude +
                           (rounds ? weight / 65278 : 0);
      const double got = c[static_cast<std::size_t>(m * s.n + n)];
      CHECK_MESSAGE(std::abs(got - sum) <= bound, what);
    }
  }
}

}  // namespace

TEST_CASE("products with stored weights are those with the rounded weights, for every instruction set") {
  for_each_instruction_set([](bool) {
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8})
      for (const Sizes& s : {Sizes{1, 1, 1},
                             {1, 128, 40},
                             {1, 300, 17},
                             {2, 129, 33},
                             {3, 70, 64},
                             {4, 257, 5},
                             {9, 31, 100},
                             {5, 140, 1111}})
        for (const bool transposed : {false, true}) check_product(s, transposed, format);
  });
}

TEST_CASE("weights of zeros stay zeros, and a weight is packed once for all who hold it") {
  const Matmul mm = make_matmul({DType::f32, {1, 3}}, {DType::f32, {3, 2}}, false, false);
  const auto zeros = std::make_shared<const Tensor>(DType::f32, Shape{3, 2});
  WeightStore store;
  const auto packed = store.get(zeros, mm, WeightFormat::int8);
  CHECK(store.get(zeros, mm, WeightFormat::int8) == packed);
  CHECK(store.get(zeros, mm, WeightFormat::bf16) != packed);
  const float a[] = {1, 2, 3};
  float c[] = {7, 7};
  run_weights(mm, a, *packed, c, Worker{});
  CHECK(c[0] == 0);
  CHECK(c[1] == 0);
}

TEST_CASE("an activation that is not finite is seen in its own row's results and in no other") {
  for_each_instruction_set([](bool) {
    const std::int64_t k = 600, n = 40;
    const Matmul mm = make_matmul({DType::f32, {2, k}}, {DType::f32, {k, n}}, false, false);
    const auto b = std::make_shared<const Tensor>(
        Tensor::from<float>({k, n}, std::vector<float>(static_cast<std::size_t>(k * n), 0.5f)));
    WeightStore store;
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8})
      for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (const std::int64_t at : {std::int64_t{3}, k - 1}) {
          std::vector<float> a(static_cast<std::size_t>(2 * k), 1), c(static_cast<std::size_t>(2 * n), 0);
          a[static_cast<std::size_t>(at)] = odd;
          run_weights(mm, a.data(), *store.get(b, mm, format), c.data(), Worker{});
          for (std::size_t i = 0; i < c.size(); ++i) CHECK(std::isfinite(c[i]) == (i >= static_cast<std::size_t>(n)));
        }
  });
}

TEST_CASE("activations of every size keep their products with int8 weights") {
  for_each_instruction_set([](bool) {
    const std::int64_t k = 100, n = 70;
    const Matmul mm = make_matmul({DType::f32, {1, k}}, {DType::f32, {k, n}}, false, false);
    const auto b = std::make_shared<const Tensor>(
        Tensor::from<float>({k, n}, std::vector<float>(static_cast<std::size_t>(k * n), -0.25f)));
    WeightStore store;
    const auto packed = store.get(b, mm, WeightFormat::int8);
    for (const float size : {1e-30f, 1e-6f, 1.0f, 1e30f}) {
      const std::vector<float> a(static_cast<std::size_t>(k), -size);
      std::vector<float> c(static_cast<std::size_t>(n), 0);
      run_weights(mm, a.data(), *packed, c.data(), Worker{});
      for (const float sum : c) CHECK(sum == doctest::Approx(0.25 * size * static_cast<double>(k)));
    }
  });
}

}  // namespace test_cpu_weights
