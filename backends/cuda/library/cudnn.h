// SPDX-License-Identifier: Apache-2.0
// cuDNN 9, opened at run time: its entry points in one table, and a handle of the device. Its types are declared here,
// so that builds need no header of it; a test compares them with the header where it is installed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace unroll::cuda {

inline constexpr std::size_t k_oldest_dnn = 90000;  // version 9.0

namespace dnn {

struct Context;  // of the library, as the next four: cudnnHandle_t points to it
struct Rnn;      // cudnnRNNDescriptor_t
struct Data;     // cudnnRNNDataDescriptor_t
struct Tensor;   // cudnnTensorDescriptor_t
struct Dropout;  // cudnnDropoutDescriptor_t
// Thousands are categories.
enum class Status : int { success = 0, not_initialized = 1001, bad_param = 2000, null_pointer = 2002,
                          not_supported = 3000, internal_error = 4000, host_memory = 4003, device_memory = 4004,
                          execution_failed = 5000 };
enum class Type : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 9 };
enum class Math : int { any = 0, tensor_cores = 1, fma = 3 };  // of f32: `any` may be tf32
enum class Algorithm : int { standard = 0, persist_static = 1, persist_dynamic = 2, small_h = 3 };
enum class Mode : int { inference = 0, training = 1 };
enum class Cell : int { relu = 0, tanh = 1, lstm = 2, gru = 3 };
enum class Biases : int { none = 0, two = 2 };
enum class Direction : int { one = 0, both = 1 };
enum class Input : int { linear = 0 };
enum class Layout : int { steps = 0 };  // [T, B, columns], padded
enum class Gradient : int { add = 0 };  // of weights: to what is there
inline constexpr std::uint32_t k_padded = 1;  // what the layout asks for

}  // namespace dnn

#define UNROLL_DNN_FUNCTIONS(X)                                                                                    \
  X(Create, dnn::Context**)                                                                                        \
  X(Destroy, dnn::Context*)                                                                                        \
  X(SetStream, dnn::Context*, CUstream)                                                                            \
  X(CreateRNNDescriptor, dnn::Rnn**)                                                                               \
  X(DestroyRNNDescriptor, dnn::Rnn*)                                                                               \
  X(SetRNNDescriptor_v8, dnn::Rnn*, dnn::Algorithm, dnn::Cell, dnn::Biases, dnn::Direction, dnn::Input, dnn::Type, \
    dnn::Type, dnn::Math, std::int32_t, std::int32_t, std::int32_t, std::int32_t, dnn::Dropout*, std::uint32_t)    \
  X(BuildRNNDynamic, dnn::Context*, dnn::Rnn*, int)                                                                \
  X(CreateRNNDataDescriptor, dnn::Data**)                                                                          \
  X(DestroyRNNDataDescriptor, dnn::Data*)                                                                          \
  X(SetRNNDataDescriptor, dnn::Data*, dnn::Type, dnn::Layout, int, int, int, const int*, void*)                    \
  X(CreateTensorDescriptor, dnn::Tensor**)                                                                         \
  X(DestroyTensorDescriptor, dnn::Tensor*)                                                                         \
  X(SetTensorNdDescriptor, dnn::Tensor*, dnn::Type, int, const int*, const int*)                                   \
  X(GetTensorNdDescriptor, dnn::Tensor*, int, dnn::Type*, int*, int*, int*)                                        \
  X(CreateDropoutDescriptor, dnn::Dropout**)                                                                       \
  X(DestroyDropoutDescriptor, dnn::Dropout*)                                                                       \
  X(SetDropoutDescriptor, dnn::Dropout*, dnn::Context*, float, void*, std::size_t, unsigned long long)             \
  X(GetRNNTempSpaceSizes, dnn::Context*, dnn::Rnn*, dnn::Mode, dnn::Data*, std::size_t*, std::size_t*)             \
  X(GetRNNWeightSpaceSize, dnn::Context*, dnn::Rnn*, std::size_t*)                                                 \
  X(GetRNNWeightParams, dnn::Context*, dnn::Rnn*, std::int32_t, std::size_t, const void*, std::int32_t,            \
    dnn::Tensor*, void**, dnn::Tensor*, void**)                                                                    \
  X(RNNForward, dnn::Context*, dnn::Rnn*, dnn::Mode, const std::int32_t*, dnn::Data*, const void*, dnn::Data*,     \
    void*, dnn::Tensor*, const void*, void*, dnn::Tensor*, const void*, void*, std::size_t, const void*,           \
    std::size_t, void*, std::size_t, void*)                                                                        \
  X(RNNBackwardData_v8, dnn::Context*, dnn::Rnn*, const std::int32_t*, dnn::Data*, const void*, const void*,       \
    dnn::Data*, void*, dnn::Tensor*, const void*, const void*, void*, dnn::Tensor*, const void*, const void*,      \
    void*, std::size_t, const void*, std::size_t, void*, std::size_t, void*)                                       \
  X(RNNBackwardWeights_v8, dnn::Context*, dnn::Rnn*, dnn::Gradient, const std::int32_t*, dnn::Data*, const void*,  \
    dnn::Tensor*, const void*, dnn::Data*, const void*, std::size_t, void*, std::size_t, void*, std::size_t, void*)

// The entry points cudnn<name>.
struct DnnFunctions {
#define X(name, ...) dnn::Status (*name)(__VA_ARGS__) = nullptr;
  UNROLL_DNN_FUNCTIONS(X)
#undef X
  std::size_t (*GetVersion)() = nullptr;
  const char* (*GetErrorString)(dnn::Status) = nullptr;
  void (*GetLastErrorString)(char*, std::size_t) = nullptr;
};

// Names of the library, tried in turn. Tests set them.
struct DnnLibraries {
  const char* names[2] = {"libcudnn.so.9", "libcudnn.so"};
};
DnnLibraries& dnn_libraries();
// Changes the table that was just filled; null: nothing. Tests set it to let calls fail.
using DnnTamper = void (*)(DnnFunctions& functions);
void set_dnn_tamper(DnnTamper tamper);

// Opens the library on the first call and keeps it. Throws Error(device), which names what is missing and its fix.
DnnFunctions open_dnn();
std::string dnn_version(const DnnFunctions& functions);  // "9.19"

// cuDNN on the device of the current context.
class Dnn {
 public:
  // Throws Error(device), which names what is missing and its fix.
  Dnn();
  ~Dnn();
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;

  const DnnFunctions& f() const { return f_; }
  dnn::Context* context() const { return context_; }
  std::string version() const { return dnn_version(f_); }
  // Throws Error(memory), or Error(device) with what the library says of its last error.
  void check(dnn::Status status, const char* call) const;
  // "NOT_SUPPORTED: the reason", as the library puts it.
  std::string text(dnn::Status status) const;

 private:
  DnnFunctions f_;
  dnn::Context* context_ = nullptr;
};

inline bool is_refusal(dnn::Status status) {
  return static_cast<int>(status) / 1000 == 2 || static_cast<int>(status) / 1000 == 3;  // bad_param, not_supported
}

}  // namespace unroll::cuda
