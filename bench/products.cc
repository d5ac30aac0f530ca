// SPDX-License-Identifier: Apache-2.0
// Products of recurrent layers on two backends in turn, in one process: time of the first / time of the second. That is
// the time of the processors, so that other programs disturb less.
//   ninja -C build bench/products && OPENBLAS_CORETYPE=SkylakeX build/bench/products cpu cpu:openblas THREADS ROUNDS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

struct Row {
  const char* what;
  std::int64_t m, k, n;
  bool transpose_a, transpose_b;
};

// c [M,N] = a b, run again and again on one backend.
class Product {
 public:
  Product(const Row& row, const std::string& backend, int threads)
      : backend_(make_backend(backend, {.threads = threads})) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, bool transposed) {
      return transposed ? Type{DType::f32, {columns, rows}} : Type{DType::f32, {rows, columns}};
    };
    Graph graph;
    const Type types[] = {matrix(row.m, row.k, row.transpose_a), matrix(row.k, row.n, row.transpose_b)};
    const Value a = graph.input("a", types[0]), b = graph.input("b", types[1]);
    graph.output("c", matmul(a, b, {row.transpose_a, row.transpose_b}));
    program_ = std::make_unique<Program>(graph, *backend_);
    for (const Type& type : {types[0], types[1], Type{DType::f32, {row.m, row.n}}}) {
      std::vector<float> values(static_cast<std::size_t>(type.shape.elements()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5f;
      buffers_.push_back(backend_->allocate(type.bytes()));
      backend_->upload(*buffers_.back(), 0, std::as_bytes(std::span(values)));
    }
  }
  double run_ms() {  // of all threads together
    const std::clock_t start = std::clock();
    program_->run(Bindings{{buffers_[0].get(), buffers_[1].get()}, {buffers_[2].get()}});
    backend_->wait();
    return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Program> program_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void compare(const Row& row, char** names, int threads, int rounds) {
  Product first(row, names[0], threads), second(row, names[1], threads);
  first.run_ms();
  second.run_ms();
  std::vector<double> a, b, ratios;
  for (int i = 0; i < rounds; ++i) {
    a.push_back(first.run_ms());
    b.push_back(second.run_ms());
    ratios.push_back(a.back() / b.back());
  }
  const double least_a = *std::min_element(a.begin(), a.end()), least_b = *std::min_element(b.begin(), b.end());
  const double gflop = 2e-6 * static_cast<double>(row.m * row.k * row.n);
  std::printf("| %s | %ld x %ld x %ld | %.0f / %.0f | %.2f | %.2f | %.2f |\n", row.what, row.m, row.k, row.n,
              gflop / least_a, gflop / least_b, least_a / least_b, median(a) / median(b), median(ratios));
  std::fflush(stdout);
}

}  // namespace

// The products of an LSTM with T B rows, as in bench/sweep.py.
int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: products BACKEND BACKEND THREADS ROUNDS\n");
    return 2;
  }
  std::printf("| product | M x K x N | GFLOP/s of a processor | time %s / %s: minima | medians | median of pairs |\n",
              argv[1], argv[2]);
  std::printf("|---|---|---|---|---|---|\n");
  constexpr std::int64_t k_rows = 3200, k_gates = 4;
  for (const std::int64_t h : {128, 256, 512, 650, 1024}) {
    const Row rows[] = {{"layer to layer, forward", k_rows, h, k_gates * h, false, true},
                        {"layer to layer, activation gradient", k_rows, k_gates * h, h, false, false},
                        {"weight gradient", k_gates * h, k_rows, h, true, false}};
    for (const Row& row : rows) compare(row, argv + 1, std::atoi(argv[3]), std::atoi(argv[4]));
  }
  const Row square{"square", 1024, 1024, 1024, false, false};
  compare(square, argv + 1, std::atoi(argv[3]), std::atoi(argv[4]));
  return 0;
} catch (const unroll::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
