// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log, log1p, tanh, sigmoid, erf of the cpu backend against libm in a wider type, on every instruction set
// this machine has. UNROLL_EXHAUSTIVE=tanh (or another) runs all 2^32 floats of one function, in some minutes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "cpu_kernel_test.h"

using namespace unroll;
using namespace unroll::cpu;

namespace {

constexpr double k_most_ulp = 4;

struct Function {
  Op op;
  double (*f64)(double);
  long double (*f80)(long double);
};
double sigmoid64(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
long double sigmoid80(long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
const Function k_functions[] = {
    {Op::exp, std::exp, std::exp},       {Op::expm1, std::expm1, std::expm1}, {Op::log, std::log, std::log},
    {Op::log1p, std::log1p, std::log1p}, {Op::tanh, std::tanh, std::tanh},    {Op::sigmoid, sigmoid64, sigmoid80},
    {Op::erf, std::erf, std::erf},
};

// Distance in units of the last place of T at `wanted`; infinity counts as the number after the largest.
template <class T, class Wide>
double ulps(T got, Wide wanted) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(wanted) || std::isnan(got)) return std::isnan(wanted) && std::isnan(got) ? 0 : 1e9;
  const Wide beyond = std::ldexp(Wide{1}, Limits::max_exponent);
  const Wide g = std::clamp(static_cast<Wide>(got), -beyond, beyond), w = std::clamp(wanted, -beyond, beyond);
  int exponent = 0;
  std::frexp(std::min(std::abs(w), static_cast<Wide>(Limits::max())), &exponent);
  const int least = Limits::min_exponent - Limits::digits;  // of the last place of denormals
  return static_cast<double>(std::abs(g - w) / std::ldexp(Wide{1}, std::max(exponent - Limits::digits, least)));
}

template <class T>
Elementwise program_of(Op op, std::int64_t n) {
  Expression source;
  source.shape = {n};
  source.inputs = {{DTypeOf<T>::value, dense_strides(source.shape)}};
  source.instructions = {{op, DTypeOf<T>::value, DTypeOf<T>::value, 0}};
  source.results = {{1, dense_strides(source.shape)}};
  return Elementwise(source);
}

template <class T>
struct Worst {
  double ulp = 0;
  T at = 0;
};

constexpr std::size_t k_batch = 8192;

template <class T, class Reference>
void measure(const Elementwise& program, Reference reference, const std::vector<T>& x, Worst<T>& worst) {
  std::vector<T> y(k_batch);
  program.run(std::array<const void*, 1>{x.data()}, std::array<void*, 1>{y.data()}, Worker{});
  for (std::size_t i = 0; i < k_batch; ++i) {
    const double ulp = ulps(y[i], reference(x[i]));
    if (!(ulp <= worst.ulp)) worst = {ulp, x[i]};
  }
}

// Every stride-th bit pattern.
Worst<float> sweep(const Function& f, std::uint64_t stride) {
  const Elementwise program = program_of<float>(f.op, k_batch);
  std::vector<float> x(k_batch);
  Worst<float> worst;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32;) {
    for (float& v : x) {
      v = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      bits += stride;
    }
    measure(program, f.f64, x, worst);
  }
  return worst;
}

// Every float within 4096 of the places where formulas change or results leave the range.
Worst<float> neighborhoods(const Function& f) {
  const float limits[] = {0.0f, 1.0f, 0.70710678f, 1.41421356f, 0.29289322f, 0.41421356f, 0.34657359f, 0.69314718f,
                          1.03972077f, 2.0f, 9.0109f, 10.0f, 17.32868f, 4.0f, 30.0f, 87.3365448f, 88.3762626f,
                          88.7228394f, 89.0f, 103.278930f, 103.972084f, 104.0f, 1.17549435e-38f, 0x1p25f, 0x1p60f,
                          0x1p64f, 3.40282347e38f, std::numeric_limits<float>::infinity()};
  const Elementwise program = program_of<float>(f.op, k_batch);
  std::vector<float> x(k_batch);
  Worst<float> worst;
  for (const float limit : limits)
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const std::uint32_t center = std::bit_cast<std::uint32_t>(limit);
      std::uint32_t bits = center < k_batch / 2 ? 0 : center - static_cast<std::uint32_t>(k_batch / 2);
      for (float& v : x) v = std::bit_cast<float>(bits++ | sign);
      measure(program, f.f64, x, worst);
    }
  return worst;
}

Worst<double> random_doubles(const Function& f) {
  const Elementwise program = program_of<double>(f.op, k_batch);
  std::vector<double> x(k_batch);
  Worst<double> worst;
  for (int round = 0; round < 30; ++round) {
    for (double& v : x) {
      const double scale = round % 3 == 0   ? 40
                           : round % 3 == 1 ? 800
                                            : std::exp2(static_cast<double>(random_int(-1070, 1020)));
      v = random_values<double>(1, -scale, scale)[0];
    }
    measure(program, f.f80, x, worst);
  }
  return worst;
}

template <class T>
void check_edges(Op op) {
  using Limits = std::numeric_limits<T>;
  const T inf = Limits::infinity(), nan = Limits::quiet_NaN();
  struct Row {
    Op op;
    T at_minus_infinity, at_zero, at_infinity;
  };
  const Row rows[] = {{Op::exp, 0, 1, inf},    {Op::expm1, -1, 0, inf}, {Op::log, nan, -inf, inf},
                      {Op::log1p, nan, 0, inf}, {Op::tanh, -1, 0, 1},    {Op::sigmoid, 0, T(0.5), 1},
                      {Op::erf, -1, 0, 1}};
  const Row& row = *std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.op == op; });
  const std::vector<T> x{-inf, T(-0.0), T(0), inf, nan, -nan, T(-2)},
      wanted{row.at_minus_infinity, row.at_zero, row.at_zero, row.at_infinity, nan, nan};
  std::vector<T> y(x.size());
  program_of<T>(op, static_cast<std::int64_t>(x.size()))
      .run(std::array<const void*, 1>{x.data()}, std::array<void*, 1>{y.data()}, Worker{});
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK_MESSAGE((y[i] == wanted[i] || (std::isnan(y[i]) && std::isnan(wanted[i]))), op_info(op).name, " of ", x[i]);
  if (op == Op::log || op == Op::log1p) CHECK(std::isnan(y[6]));
  const bool keeps_zero = op == Op::expm1 || op == Op::log1p || op == Op::tanh || op == Op::erf;
  if (keeps_zero) CHECK((std::signbit(y[1]) && !std::signbit(y[2])));
}

template <class T>
void report(const std::string& what, Op op, const Worst<T>& worst) {
  const std::string text = std::string(instruction_set()) + " " + std::string(op_info(op).name) + " of " + what + ": " +
                           std::to_string(worst.ulp) + " ulp at " + std::to_string(worst.at);
  CHECK_MESSAGE(worst.ulp <= k_most_ulp, text);
  if (what == "all floats") MESSAGE(text);
}

}  // namespace

TEST_CASE("vector functions of f32 are within 4 ulp, denormal results included") {
  const char* exhaustive = std::getenv("UNROLL_EXHAUSTIVE");
  for_each_instruction_set([&](bool best) {
    for (const Function& f : k_functions) {
      const bool all = exhaustive && best && op_info(f.op).name == exhaustive;
      report(all ? "all floats" : "the sweep", f.op, sweep(f, all ? 1 : best ? 1021 : 16381));
      report("neighborhoods", f.op, neighborhoods(f));
    }
  });
}

TEST_CASE("vector functions of f64 are within 4 ulp") {
  for_each_instruction_set([](bool) {
    for (const Function& f : k_functions) report("doubles", f.op, random_doubles(f));
  });
}

TEST_CASE("vector functions are exact at zero, infinity and NaN") {
  for_each_instruction_set([](bool) {
    for (const Function& f : k_functions) {
      check_edges<float>(f.op);
      check_edges<double>(f.op);
    }
  });
}
