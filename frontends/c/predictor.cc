// SPDX-License-Identifier: Apache-2.0
// Predictors for whole sequences: set inputs by name, run, read the outputs.
#include <cstdint>
#include <cstring>
#include <utility>

#include "frontends/c/failure.h"
#include "frontends/c/model.h"
#include "unroll/support/error.h"

namespace unroll::c {

namespace {

struct Predictor {
  explicit Predictor(SharedModel m)
      : shared(std::move(m)), backend(shared->make_backend()),
        model(*backend, shared->inference.network, shared->file.tensors) {}

  void run() {
    TensorMap all = zero_states(shared->inference, inputs);
    for (auto& [name, tensor] : inputs) all.emplace(name, Tensor::borrowed(tensor.type(), tensor.bytes()));
    outputs = model.run(all);
  }

  SharedModel shared;
  std::unique_ptr<Backend> backend;
  Model model;
  TensorMap inputs, outputs;
};

using Predictors = Handles<unroll_predictor, std::unique_ptr<Predictor>>;
Predictors& predictors() {
  static Predictors handles("predictor");
  return handles;
}

// `who` is the name of the called function.
Type type_of(const char* who, int dtype, const std::int64_t* dims, int rank) {
  if (dtype < 0 || dtype >= k_n_dtypes)
    throw Error(ErrorKind::usage, who, "there is no dtype " + std::to_string(dtype), "Pass one of enum unroll_dtype");
  if (rank < 0 || rank > UNROLL_MAX_RANK)
    throw Error(ErrorKind::usage, who, "rank must be 0 to 6; got " + std::to_string(rank));
  if (rank > 0) require(dims, "dims");
  return {static_cast<DType>(dtype), Shape(std::span(dims, rank))};
}

Tensor copy_of(const Type& type, const void* data) {
  Tensor tensor(type);
  if (tensor.bytes().empty()) return tensor;
  require(data, "data");
  std::memcpy(tensor.bytes().data(), data, tensor.bytes().size());
  return tensor;
}

Tensor borrowed(const Type& type, const void* data) {
  if (type.bytes() == 0) return Tensor(type);
  require(data, "data");
  const std::size_t size = dtype_bytes(type.dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % size != 0)
    throw Error(ErrorKind::usage, "unroll_predictor_borrow",
                "data of " + type.text() + " must begin at a multiple of " + std::to_string(size) + " bytes",
                "Use unroll_predictor_set, which copies");
  return Tensor::borrowed(type, {const_cast<std::byte*>(static_cast<const std::byte*>(data)), type.bytes()});
}

void set_input(unroll_predictor* predictor, const char* name, Tensor tensor) {
  require(name, "name");
  const auto p = predictors().use(predictor);
  (*p)->inputs.insert_or_assign(name, std::move(tensor));
  (*p)->outputs.clear();
}

unroll_tensor_view view_of(const Tensor& tensor) {
  unroll_tensor_view view{};
  view.data = tensor.bytes().data();
  view.bytes = tensor.bytes().size();
  view.dtype = static_cast<std::int32_t>(tensor.dtype());
  view.rank = tensor.shape().rank();
  for (int k = 0; k < view.rank; ++k) view.dims[k] = tensor.shape()[k];
  return view;
}

}  // namespace

}  // namespace unroll::c

using namespace unroll;
using namespace unroll::c;

extern "C" {

int unroll_predictor_new(unroll_model* model, unroll_predictor** predictor) {
  return guarded([&] {
    require(predictor, "predictor");
    *predictor = nullptr;
    *predictor = predictors().add(std::make_unique<Predictor>(model_of(model)));
  });
}

int unroll_predictor_set(unroll_predictor* predictor, const char* name, int dtype, const int64_t* dims, int rank,
                         const void* data) {
  return guarded([&] {
    set_input(predictor, name, copy_of(type_of("unroll_predictor_set", dtype, dims, rank), data));
  });
}

int unroll_predictor_borrow(unroll_predictor* predictor, const char* name, int dtype, const int64_t* dims, int rank,
                            const void* data) {
  return guarded([&] {
    set_input(predictor, name, borrowed(type_of("unroll_predictor_borrow", dtype, dims, rank), data));
  });
}

int unroll_predictor_run(unroll_predictor* predictor) {
  return guarded([&] { (*predictors().use(predictor))->run(); });
}

int unroll_predictor_get(unroll_predictor* predictor, const char* name, unroll_tensor_view* view) {
  return guarded([&] {
    require(name, "name");
    require(view, "view");
    const auto p = predictors().use(predictor);
    const auto at = (*p)->outputs.find(name);
    if (at == (*p)->outputs.end())
      throw Error(ErrorKind::usage, "unroll_predictor_get",
                  (*p)->outputs.empty() ? "there are no outputs yet" : "there is no output '" + std::string(name) + "'",
                  (*p)->outputs.empty() ? "Call unroll_predictor_run first" : "unroll_model_info names the outputs");
    put_struct(view_of(at->second), view);
  });
}

int unroll_predictor_free(unroll_predictor* predictor) {
  return guarded([&] { predictors().remove(predictor); });
}

}  // extern "C"
