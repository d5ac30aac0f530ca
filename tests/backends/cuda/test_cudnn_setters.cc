// SPDX-License-Identifier: Apache-2.0
// The library that stands in for cuDNN (tests/backends/cuda/shim/cudnn.cc) beside the real one, where that is
// installed: their setters give the same answers, which needs no device. And the types of the backend beside cuDNN's
// header.
#include <doctest/doctest.h>
#include <dlfcn.h>

#include <cstdio>
#include <type_traits>
#include <vector>

#include "backends/cuda/library/cudnn.h"

#if __has_include(<cudnn.h>) && __has_include(<cuda_runtime.h>)
#include <cudnn.h>
#define HAS_CUDNN_HEADER 1
#endif

using namespace unroll::cuda;

namespace {

#ifdef HAS_CUDNN_HEADER
template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(dnn::Status::bad_param, CUDNN_STATUS_BAD_PARAM));
static_assert(same(dnn::Status::null_pointer, CUDNN_STATUS_BAD_PARAM_NULL_POINTER));
static_assert(same(dnn::Status::not_initialized, CUDNN_STATUS_NOT_INITIALIZED));
static_assert(same(dnn::Status::not_supported, CUDNN_STATUS_NOT_SUPPORTED));
static_assert(same(dnn::Status::internal_error, CUDNN_STATUS_INTERNAL_ERROR));
static_assert(same(dnn::Status::host_memory, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED));
static_assert(same(dnn::Status::device_memory, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED));
static_assert(same(dnn::Status::execution_failed, CUDNN_STATUS_EXECUTION_FAILED));
static_assert(same(dnn::Type::f32, CUDNN_DATA_FLOAT) && same(dnn::Type::f64, CUDNN_DATA_DOUBLE));
static_assert(same(dnn::Type::f16, CUDNN_DATA_HALF) && same(dnn::Type::bf16, CUDNN_DATA_BFLOAT16));
static_assert(same(dnn::Math::any, CUDNN_DEFAULT_MATH) && same(dnn::Math::fma, CUDNN_FMA_MATH));
static_assert(same(dnn::Math::tensor_cores, CUDNN_TENSOR_OP_MATH));
static_assert(same(dnn::Algorithm::standard, CUDNN_RNN_ALGO_STANDARD));
static_assert(same(dnn::Algorithm::persist_static, CUDNN_RNN_ALGO_PERSIST_STATIC));
static_assert(same(dnn::Algorithm::persist_dynamic, CUDNN_RNN_ALGO_PERSIST_DYNAMIC));
static_assert(same(dnn::Algorithm::small_h, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H));
static_assert(same(dnn::Mode::inference, CUDNN_FWD_MODE_INFERENCE));
static_assert(same(dnn::Mode::training, CUDNN_FWD_MODE_TRAINING));
static_assert(same(dnn::Cell::relu, CUDNN_RNN_RELU) && same(dnn::Cell::tanh, CUDNN_RNN_TANH));
static_assert(same(dnn::Cell::lstm, CUDNN_LSTM) && same(dnn::Cell::gru, CUDNN_GRU));
static_assert(same(dnn::Biases::none, CUDNN_RNN_NO_BIAS) && same(dnn::Biases::two, CUDNN_RNN_DOUBLE_BIAS));
static_assert(same(dnn::Direction::one, CUDNN_UNIDIRECTIONAL) && same(dnn::Direction::both, CUDNN_BIDIRECTIONAL));
static_assert(same(dnn::Input::linear, CUDNN_LINEAR_INPUT) && same(dnn::Gradient::add, CUDNN_WGRAD_MODE_ADD));
static_assert(same(dnn::Layout::steps, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED));
static_assert(same(dnn::k_padded, CUDNN_RNN_PADDED_IO_ENABLED));

// Parameters of the entry points: pointers as pointers, numbers and enumerations of the same size.
template <class Ours, class Theirs>
constexpr bool fits = std::is_pointer_v<Ours> ? std::is_pointer_v<Theirs>
                                              : !std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
                                                    std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class... Ours, class... Theirs>
struct SameCall<dnn::Status (*)(Ours...), cudnnStatus_t (*)(Theirs...)> {
  static constexpr bool all() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (fits<Ours, Theirs> && ...);
    else return false;
  }
  static constexpr bool value = all();
};
#define X(name, ...) static_assert(SameCall<decltype(DnnFunctions::name), decltype(&cudnn##name)>::value, #name);
UNROLL_DNN_FUNCTIONS(X)
#undef X
#endif

// The setters of one library, with one description of each kind.
struct Setters {
  DnnFunctions f;
  dnn::Rnn* rnn = nullptr;
  dnn::Data* data = nullptr;
  dnn::Tensor* tensor = nullptr;

  explicit Setters(void* library) {
#define X(name, ...) f.name = reinterpret_cast<decltype(f.name)>(dlsym(library, "cudnn" #name));
    UNROLL_DNN_FUNCTIONS(X)
#undef X
    REQUIRE(f.CreateRNNDescriptor(&rnn) == dnn::Status::success);
    REQUIRE(f.CreateRNNDataDescriptor(&data) == dnn::Status::success);
    REQUIRE(f.CreateTensorDescriptor(&tensor) == dnn::Status::success);
  }
  ~Setters() {
    f.DestroyRNNDescriptor(rnn), f.DestroyRNNDataDescriptor(data), f.DestroyTensorDescriptor(tensor);
  }
  Setters(const Setters&) = delete;
  Setters& operator=(const Setters&) = delete;
};

int category(dnn::Status status) { return static_cast<int>(status) / 1000; }

}  // namespace

TEST_CASE("the library of the tests answers as the real one, setter by setter") {
  // The real one first: afterwards its name would find the other one.
  void* const real = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (!real) return void(std::printf("skipped: cuDNN is not installed\n"));
  void* const shim = dlopen(UNROLL_SHIM_DNN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(shim);
  REQUIRE(!dlsym(real, "unroll_shim_dnn_objects"));
  const Setters theirs(real), ours(shim);
  int same = 0, accepted = 0;
  const auto compare = [&](const auto& set) {
    const int wanted = category(set(theirs)), got = category(set(ours));
    CHECK(got == wanted);
    same += got == wanted;
    accepted += wanted == 0;
  };
  constexpr int k_bytes = 3;  // CUDNN_DATA_INT8
  const dnn::Type types[] = {dnn::Type::f32, dnn::Type::f64, dnn::Type::f16, dnn::Type::bf16, dnn::Type(k_bytes)};
  for (const dnn::Type type : types)
    for (const dnn::Type math_in : types)
      for (int algorithm = 0; algorithm < 4; ++algorithm)
        for (int cell = 0; cell < 4; ++cell)
          for (const dnn::Biases biases : {dnn::Biases::none, dnn::Biases::two})
            for (int direction = 0; direction < 2; ++direction)
              for (const int projection : {0, 4, 6, 7}) {
                CAPTURE(static_cast<int>(type));
                CAPTURE(static_cast<int>(math_in));
                CAPTURE(algorithm);
                CAPTURE(cell);
                CAPTURE(static_cast<int>(biases));
                CAPTURE(projection);
                compare([&](const Setters& s) {
                  return s.f.SetRNNDescriptor_v8(s.rnn, dnn::Algorithm(algorithm), dnn::Cell(cell), biases,
                                                 dnn::Direction(direction), dnn::Input::linear, type, math_in,
                                                 dnn::Math::any, 5, 6, projection, 2, nullptr, dnn::k_padded);
                });
              }
  for (const int zero : {0, 1, 2})  // I, H, L
    compare([&](const Setters& s) {
      return s.f.SetRNNDescriptor_v8(s.rnn, dnn::Algorithm::standard, dnn::Cell::lstm, dnn::Biases::two,
                                     dnn::Direction::one, dnn::Input::linear, dnn::Type::f32, dnn::Type::f32,
                                     dnn::Math::fma, zero == 0 ? 0 : 5, zero == 1 ? 0 : 6, 6, zero == 2 ? 0 : 1,
                                     nullptr, dnn::k_padded);
    });
  const std::vector<std::vector<int>> lengths{{5, 5}, {5, 2}, {2, 5}, {5, 0}, {6, 5}, {5, -1}, {}};
  for (const dnn::Type type : {dnn::Type::f32, dnn::Type::f64, dnn::Type::f16, dnn::Type::bf16})
    for (const auto& each : lengths) {
      CAPTURE(each.size());
      compare([&](const Setters& s) {
        return s.f.SetRNNDataDescriptor(s.data, type, dnn::Layout::steps, 5, 2, 3, each.empty() ? nullptr : each.data(),
                                        nullptr);
      });
    }
  for (const int steps : {0, 1, 65535, 65536}) {
    CAPTURE(steps);
    compare([&](const Setters& s) {
      return s.f.SetRNNDataDescriptor(s.data, dnn::Type::f32, dnn::Layout::steps, steps, 1, 3, &steps, nullptr);
    });
  }
  for (const auto& sizes : std::vector<std::vector<int>>{{2, 3}, {2, 3, 4}, {2, 3, 4, 5}, {2, 0, 4}, {2, -1, 4}, {2},
                                                             std::vector<int>(8, 2), std::vector<int>(9, 2)}) {
    CAPTURE(sizes.size());
    const std::vector<int> strides(sizes.size(), 1);
    compare([&](const Setters& s) {
      return s.f.SetTensorNdDescriptor(s.tensor, dnn::Type::f32, static_cast<int>(sizes.size()), sizes.data(),
                                       strides.data());
    });
  }
  std::printf("%d answers are the same; %d of the real ones accept\n", same, accepted);
}
