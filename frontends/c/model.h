// SPDX-License-Identifier: Apache-2.0
// The object behind a model handle. Predictors and streams share it, so that the model may be closed before them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "frontends/c/handles.h"
#include "frontends/c/include/unroll.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/backend.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"

namespace unroll::c {

struct OpenModel {
  TensorFile file;
  Inference inference;
  std::string backend;
  int threads = 1;
  // Streams run concurrently on one backend. Programs do not, so each predictor has a separate one.
  std::unique_ptr<Backend> for_streams;

  std::unique_ptr<Backend> make_backend() const;
};
using SharedModel = std::shared_ptr<const OpenModel>;

Handles<unroll_model, SharedModel>& models();
// Returns the model of an open handle. Any number of threads may use it.
SharedModel model_of(unroll_model* handle);

// Writes `bytes` to a buffer of *size bytes, and sets *size to their number. Throws Error(usage) if they do not fit; a
// null buffer only returns the size.
void put_bytes(std::span<const std::byte> bytes, void* buffer, std::size_t* size);

// Fills a struct of the caller, who may have been compiled with an older, shorter one.
template <class Struct>
void put_struct(Struct from, Struct* to) {
  if (to->struct_size == 0 || to->struct_size > 4 * sizeof(Struct))
    throw Error(ErrorKind::usage, "unroll", "struct_size is " + std::to_string(to->struct_size),
                "Set it to the sizeof the struct before the call");
  from.struct_size = to->struct_size;
  std::memcpy(to, &from, std::min(to->struct_size, sizeof(Struct)));
}

}  // namespace unroll::c
