// SPDX-License-Identifier: Apache-2.0
// The entry points of libcudnn.so.9, for tests without devices. Recurrent layers are computed on the host, late, as a
// stream would. What the library refuses is an error here, with a line on stderr, by the rules that its setters showed
// (tests/backends/cuda/test_cudnn_setters.cc); so is what it would take without a word and answer with wrong numbers:
// weights with garbage between the parameters, a gradient before its forward pass or of another one, memory that
// overlaps or is not allocated. Only what the backend calls is there.
//
// Environment: UNROLL_SHIM_DNN_CAPTURE=0, calls fail while a stream captures.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/library/cudnn.h"
#include "tests/backends/cuda/shim/cudnn_objects.h"

using namespace unroll::cuda;
using dnn::Algorithm;
using dnn::Status;
using dnn::Type;
using unroll::shim::are_there;
using unroll::shim::complain;
using unroll::shim::is_persistent;
using unroll::shim::k_head_bytes;
using unroll::shim::Layers;
using unroll::shim::layers_of;
using unroll::shim::workspace_of;

namespace {

std::mutex& dnn_mutex() {
  static std::mutex m;
  return m;
}
std::set<const void*>& dnn_objects() {
  static auto* const all = new std::set<const void*>;
  return *all;
}
std::string& last_error() {
  static std::string text;
  return text;
}
template <class T>
Status made(T* object, T** to) {
  if (!to) return complain(Status::null_pointer, "no place for what is made");
  const std::lock_guard lock(dnn_mutex());
  dnn_objects().insert(object);
  *to = object;
  return Status::success;
}
template <class T>
Status destroyed(T* object) {
  {
    const std::lock_guard lock(dnn_mutex());
    if (dnn_objects().erase(object) == 0) std::abort();  // the library would crash, too
  }
  delete object;
  return Status::success;
}
unroll::DType dtype_of(Type type) {
  return type == Type::f64    ? unroll::DType::f64
         : type == Type::f16  ? unroll::DType::f16
         : type == Type::bf16 ? unroll::DType::bf16
                              : unroll::DType::f32;
}
}  // namespace

Status unroll::shim::complain(Status status, const std::string& what) {
  std::fprintf(stderr, "cudnn shim: %s\n", what.c_str());
  const std::lock_guard lock(dnn_mutex());
  last_error() = what;
  return status;
}

bool unroll::shim::are_there(std::initializer_list<const void*> objects) {
  const std::lock_guard lock(dnn_mutex());
  return std::all_of(objects.begin(), objects.end(), [](const void* each) { return dnn_objects().contains(each); });
}

Layers unroll::shim::layers_of(const dnn::Rnn& r, const dnn::Data& x) {
  return {r.cell, dtype_of(r.type), x.T, x.B, r.I, r.H, r.P, r.L, r.direction == dnn::Direction::both ? 2 : 1,
          r.biases != dnn::Biases::none, r.math == dnn::Math::any && r.type == dnn::Type::f32};
}

extern "C" {

// Of the tests: objects that were made and not destroyed.
std::size_t unroll_shim_dnn_objects() {
  const std::lock_guard lock(dnn_mutex());
  return dnn_objects().size();
}
std::size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(Status status) {
  const int category = static_cast<int>(status) / 1000;
  constexpr const char* k_names[] = {"CUDNN_STATUS_SUCCESS", "CUDNN_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_BAD_PARAM",
                                     "CUDNN_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_INTERNAL_ERROR",
                                     "CUDNN_STATUS_EXECUTION_FAILED"};
  return k_names[std::clamp(category, 0, 5)];
}
void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  const std::lock_guard lock(dnn_mutex());
  std::snprintf(text, bytes, "%s", last_error().c_str());
}
Status cudnnCreate(dnn::Context** context) { return made(new dnn::Context, context); }
Status cudnnDestroy(dnn::Context* context) { return destroyed(context); }
Status cudnnSetStream(dnn::Context* context, CUstream stream) {
  if (!are_there({context})) return complain(Status::bad_param, "a handle that is not there");
  context->stream = stream;
  context->has_stream = true;
  return Status::success;
}

Status cudnnCreateRNNDescriptor(dnn::Rnn** rnn) { return made(new dnn::Rnn{}, rnn); }
Status cudnnDestroyRNNDescriptor(dnn::Rnn* rnn) { return destroyed(rnn); }
Status cudnnSetRNNDescriptor_v8(dnn::Rnn* rnn, Algorithm algorithm, dnn::Cell cell, dnn::Biases biases,
                                dnn::Direction direction, dnn::Input input, Type type, Type math_in, dnn::Math math,
                                std::int32_t columns, std::int32_t hidden, std::int32_t projection, std::int32_t layers,
                                dnn::Dropout*, std::uint32_t flags) {
  if (!are_there({rnn})) return complain(Status::bad_param, "a description that is not there");
  if (is_persistent(algorithm) && biases != dnn::Biases::two)
    return complain(Status::not_supported, "a persistent algorithm with other biases than two");
  if (columns <= 0 || hidden <= 0 || projection <= 0 || layers <= 0) return complain(Status::bad_param, "a size");
  const bool go_together = type == Type::f16 ? math_in == Type::f16 || math_in == Type::f32
                           : type == Type::bf16 ? math_in == Type::f32
                                                : type == math_in && (type == Type::f32 || type == Type::f64);
  if (!go_together) return complain(Status::not_supported, "types that do not go together");
  const bool projects = projection != hidden;
  if (projects && (cell != dnn::Cell::lstm || projection > hidden))
    return complain(Status::not_supported, "a projection of another cell, or a wider one");
  if (is_persistent(algorithm) && (math_in == Type::f16 || projects))
    return complain(Status::not_supported, "a persistent algorithm with f16 math or a projection");
  if (type == Type::f64 && (algorithm == Algorithm::persist_static || algorithm == Algorithm::small_h))
    return complain(Status::not_supported, "a persistent algorithm in f64");
  if (input != dnn::Input::linear) return complain(Status::not_supported, "an input that the shim does not compute");
  *rnn = {algorithm, cell, biases, direction, type, math_in, math, columns, hidden, projection, layers, flags, true};
  return Status::success;
}
Status cudnnBuildRNNDynamic(dnn::Context* context, dnn::Rnn* rnn, int rows) {
  if (!are_there({context, rnn}) || !rnn->is_set || rows <= 0) return complain(Status::bad_param, "a description");
  if (rnn->algorithm != Algorithm::persist_dynamic)
    return complain(Status::bad_param, "a kernel is built for another algorithm");
  rnn->built_for = rows;
  return Status::success;
}
Status cudnnCreateRNNDataDescriptor(dnn::Data** data) { return made(new dnn::Data{}, data); }
Status cudnnDestroyRNNDataDescriptor(dnn::Data* data) { return destroyed(data); }
Status cudnnSetRNNDataDescriptor(dnn::Data* data, Type type, dnn::Layout layout, int steps, int batch, int columns,
                                 const int* lengths, void*) {
  if (!are_there({data})) return complain(Status::bad_param, "a description that is not there");
  if (steps <= 0 || batch <= 0 || columns <= 0 || !lengths) return complain(Status::bad_param, "a size, or no lengths");
  if (steps > 65535) return complain(Status::not_supported, "more than 65,535 steps");
  for (int b = 0; b < batch; ++b)
    if (lengths[b] < 0 || lengths[b] > steps) return complain(Status::bad_param, "a length");
  *data = {type, layout, steps, batch, columns, std::vector<int>(lengths, lengths + batch), true};
  return Status::success;
}
Status cudnnCreateTensorDescriptor(dnn::Tensor** tensor) { return made(new dnn::Tensor{}, tensor); }
Status cudnnDestroyTensorDescriptor(dnn::Tensor* tensor) { return destroyed(tensor); }
Status cudnnSetTensorNdDescriptor(dnn::Tensor* tensor, Type type, int axes, const int* sizes, const int* strides) {
  if (!are_there({tensor})) return complain(Status::bad_param, "a description that is not there");
  if (axes > 8) return complain(Status::not_supported, "more than eight axes");
  if (axes < 2 || std::any_of(sizes, sizes + axes, [](int n) { return n <= 0; }))
    return complain(Status::bad_param, "the axes of a tensor");
  *tensor = {type, std::vector<int>(sizes, sizes + axes), std::vector<int>(strides, strides + axes)};
  return Status::success;
}
Status cudnnGetTensorNdDescriptor(dnn::Tensor* tensor, int wanted, Type* type, int* axes, int* sizes, int* strides) {
  if (!are_there({tensor})) return complain(Status::bad_param, "a description that is not there");
  *type = tensor->type;
  *axes = static_cast<int>(tensor->sizes.size());
  for (int k = 0; k < std::min(wanted, *axes); ++k) {
    sizes[k] = tensor->sizes[static_cast<std::size_t>(k)];
    strides[k] = tensor->strides[static_cast<std::size_t>(k)];
  }
  return Status::success;
}
Status cudnnCreateDropoutDescriptor(dnn::Dropout** dropout) { return made(new dnn::Dropout, dropout); }
Status cudnnDestroyDropoutDescriptor(dnn::Dropout* dropout) { return destroyed(dropout); }
Status cudnnSetDropoutDescriptor(dnn::Dropout* dropout, dnn::Context* context, float rate, void* states, std::size_t,
                                 unsigned long long) {
  if (!are_there({dropout, context})) return complain(Status::bad_param, "a description that is not there");
  if (rate != 0 || states) return complain(Status::not_supported, "dropout, which the shim does not draw");
  *dropout = {rate, true};
  return Status::success;
}

Status cudnnGetRNNWeightSpaceSize(dnn::Context* context, dnn::Rnn* rnn, std::size_t* bytes) {
  if (!are_there({context, rnn}) || !rnn->is_set) return complain(Status::bad_param, "a description");
  *bytes = unroll::shim::weight_bytes(layers_of(*rnn, {}));
  return Status::success;
}
Status cudnnGetRNNTempSpaceSizes(dnn::Context* context, dnn::Rnn* rnn, dnn::Mode mode, dnn::Data* x,
                                 std::size_t* workspace, std::size_t* reserve) {
  if (!are_there({context, rnn, x}) || !rnn->is_set || !x->is_set) return complain(Status::bad_param, "a description");
  const Layers s = layers_of(*rnn, *x);
  *workspace = workspace_of(s);
  if (mode == dnn::Mode::training && !reserve) return complain(Status::null_pointer, "no place for a size");
  if (reserve) *reserve = mode == dnn::Mode::training ? k_head_bytes + unroll::shim::reserve_bytes(s) : 0;
  return Status::success;
}
Status cudnnGetRNNWeightParams(dnn::Context* context, dnn::Rnn* rnn, std::int32_t layer, std::size_t bytes,
                               const void* weights, std::int32_t number, dnn::Tensor* matrix, void** matrix_at,
                               dnn::Tensor* bias, void** bias_at) {
  if (!are_there({context, rnn, matrix, bias}) || !rnn->is_set || !weights)
    return complain(Status::bad_param, "a description, or no weights");
  const Layers s = layers_of(*rnn, {});
  if (bytes != unroll::shim::weight_bytes(s) || layer < 0 || layer >= s.L * s.D || number < 0 || number > 2 * s.gates())
    return complain(Status::bad_param, "a parameter that is not there");
  for (const bool is_bias : {false, true}) {
    const unroll::shim::WeightPlace place = unroll::shim::weight_place(s, layer, number, is_bias);
    dnn::Tensor& tensor = *(is_bias ? bias : matrix);
    tensor = {rnn->type, {}, {}};
    *(is_bias ? bias_at : matrix_at) = nullptr;
    if (place.rows == 0) continue;
    const auto rows = static_cast<int>(place.rows), columns = static_cast<int>(place.columns);
    tensor.sizes = {1, rows, columns};
    tensor.strides = {rows * columns, columns, 1};
    *(is_bias ? bias_at : matrix_at) = const_cast<char*>(static_cast<const char*>(weights)) + place.at;
  }
  return Status::success;
}

}  // extern "C"
