// SPDX-License-Identifier: Apache-2.0
// cuDNN where it fails: each call once, typed and without a crash; and that the library of the tests
// (tests/backends/cuda/shim/cudnn.cc) refuses what the real one forbids, or would answer with wrong numbers.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "tests/backends/cuda/cuda_layers.h"
#include "unroll/support/error.h"

namespace test_cudnn_faults {

using namespace unroll;
using namespace unroll::cuda;
using namespace unroll::cuda_layers;

namespace {

// Lets call number `due` of the table fail.
struct DnnFault {
  int calls = 0, due = -1;
  dnn::Status status = dnn::Status::internal_error;
};
DnnFault& dnn_fault() {
  static DnnFault state;
  return state;
}
template <int N, class F>
struct DnnHook;
template <int N, class... A>
struct DnnHook<N, dnn::Status (*)(A...)> {
  static inline dnn::Status (*real)(A...) = nullptr;
  static dnn::Status call(A... arguments) {
    return dnn_fault().calls++ == dnn_fault().due ? dnn_fault().status : real(arguments...);
  }
  static void install(dnn::Status (*&entry)(A...)) {
    real = entry;
    entry = call;
  }
};
enum DnnNumber : int {
#define X(name, ...) dnn_##name,
  UNROLL_DNN_FUNCTIONS(X)
#undef X
};
void tamper_all(DnnFunctions& f) {
#define X(name, ...) \
  if (dnn_##name != dnn_Create && dnn_##name != dnn_Destroy) DnnHook<dnn_##name, decltype(f.name)>::install(f.name);
  UNROLL_DNN_FUNCTIONS(X)
#undef X
}

}  // namespace

TEST_CASE("whatever call fails is a typed error or does no harm, and a backend opened afterwards works") {
  if (!has_shim()) return;
  const auto graph = graph_of({Op::lstm}, true);
  const TensorMap inputs = numbers_for(*graph), expected = evaluate(*graph, *make_backend("reference"), inputs);
  const auto work = [&] {
    const auto cuda = make_backend("cuda");
    Bound program(*graph, *cuda, {}, inputs);
    TensorMap got;
    for (int run = 0; run < 2; ++run) got = program.run();
    return difference(got, expected);
  };
  set_dnn_tamper(tamper_all);
  dnn_fault() = {};
  CHECK(work() < 0x1p-18);
  const int n = dnn_fault().calls;
  int thrown = 0, survived = 0;
  for (const dnn::Status status : {dnn::Status::internal_error, dnn::Status::device_memory})
    for (int due = 0; due < n; ++due) {
      CAPTURE(due);
      dnn_fault() = {0, due, status};
      try {
        const double far = work();
        CHECK(far < 0x1p-18);  // a description that was not freed, or a call that was not captured
        ++survived;
      } catch (const Error& error) {
        CAPTURE(std::string(error.what()));
        CHECK(exit_code(error.kind()) == (status == dnn::Status::device_memory ? 7 : 5));
        ++thrown;
      }
    }
  std::printf("%d calls failed once each, in two ways: %d errors, %d without effect\n", n, thrown, survived);
  CHECK(thrown > survived);
  dnn_fault() = {};
  CHECK(work() < 0x1p-18);
  set_dnn_tamper(nullptr);
}

namespace {

// Calls as the backend makes them, but for one thing.
enum class Mistake { none, workspace, reserve, overlap, weights, again, lengths };
Mistake& mistake() {
  static Mistake state = Mistake::none;
  return state;
}
void make_mistakes(DnnFunctions& f) {
  static DnnFunctions real;
  real = f;
  f.RNNForward = [](dnn::Context* a, dnn::Rnn* b, dnn::Mode c, const std::int32_t* lengths, dnn::Data* d, const void* x,
                    dnn::Data* e, void* y, dnn::Tensor* g, const void* h0, void* hn, dnn::Tensor* h, const void* c0,
                    void* cn, std::size_t weight_space, const void* weights, std::size_t workspace, void* work,
                    std::size_t reserve_space, void* reserve) {
    const std::int32_t five = 5;
    if (mistake() == Mistake::workspace) --workspace;
    if (mistake() == Mistake::reserve) --reserve_space;
    if (mistake() == Mistake::overlap) reserve = const_cast<void*>(weights);
    if (mistake() == Mistake::lengths) lengths = &five;
    return real.RNNForward(a, b, c, lengths, d, x, e, y, g, h0, hn, h, c0, cn, weight_space, weights, workspace, work,
                           reserve_space, reserve);
  };
  f.RNNBackwardData_v8 = [](dnn::Context* a, dnn::Rnn* b, const std::int32_t* lengths, dnn::Data* c, const void* y,
                            const void* d_y, dnn::Data* d, void* d_x, dnn::Tensor* e, const void* h0, const void* d_hn,
                            void* d_h0, dnn::Tensor* g, const void* c0, const void* d_cn, void* d_c0,
                            std::size_t weight_space, const void* weights, std::size_t workspace, void* work,
                            std::size_t reserve_space, void* reserve) {
    const auto call = [&] {
      return real.RNNBackwardData_v8(a, b, lengths, c, y, d_y, d, d_x, e, h0, d_hn, d_h0, g, c0, d_cn, d_c0,
                                     weight_space, weights, workspace, work, reserve_space, reserve);
    };
    if (mistake() == Mistake::again) call();  // the reserve is spent
    return call();
  };
  f.GetRNNWeightSpaceSize = [](dnn::Context* a, dnn::Rnn* b, std::size_t* bytes) {
    const dnn::Status status = real.GetRNNWeightSpaceSize(a, b, bytes);
    if (mistake() == Mistake::weights) *bytes -= 64;
    return status;
  };
}

}  // namespace

TEST_CASE("the library of the tests refuses what the real one forbids, or would answer with wrong numbers") {
  if (!has_shim()) return;
  const auto graph = graph_of({Op::lstm}, true);
  const TensorMap inputs = numbers_for(*graph);
  set_dnn_tamper(make_mistakes);
  for (const Mistake each : {Mistake::none, Mistake::workspace, Mistake::reserve, Mistake::overlap, Mistake::weights,
                             Mistake::again, Mistake::lengths}) {
    CAPTURE(static_cast<int>(each));
    mistake() = each;
    bool fails = false;
    try {
      const auto cuda = make_backend("cuda");
      Bound program(*graph, *cuda, {}, inputs);
      program.run();
    } catch (const Error& error) {
      fails = error.kind() == ErrorKind::device;
    }
    CHECK(fails == (each != Mistake::none));
  }
  set_dnn_tamper(nullptr);
}

}  // namespace test_cudnn_faults
