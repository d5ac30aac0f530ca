// SPDX-License-Identifier: Apache-2.0
// What the handles of libcudnn.so.9 for tests point to (cudnn.cc, cudnn_calls.cc).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "backends/cuda/library/cudnn.h"
#include "tests/backends/cuda/shim/cudnn_layers.h"

namespace unroll::cuda::dnn {
struct Context {
  CUstream stream = nullptr;
  bool has_stream = false;
};
struct Rnn {
  Algorithm algorithm;
  Cell cell;
  Biases biases;
  Direction direction;
  Type type, math_in;
  Math math;
  std::int64_t I, H, P, L;
  std::uint32_t flags;
  bool is_set = false;
  int built_for = 0;  // rows that a dynamic persistent kernel was built for
};
struct Data {
  Type type;
  Layout layout;
  int T, B, columns;
  std::vector<int> lengths;
  bool is_set = false;
};
struct Tensor {
  Type type;
  std::vector<int> sizes, strides;
};
struct Dropout {
  float rate = 0;
  bool is_set = false;
};
}  // namespace unroll::cuda::dnn

namespace unroll::shim {

// The status, after a line on stderr.
cuda::dnn::Status complain(cuda::dnn::Status status, const std::string& what);
bool are_there(std::initializer_list<const void*> objects);

inline bool is_persistent(cuda::dnn::Algorithm algorithm) { return algorithm != cuda::dnn::Algorithm::standard; }
Layers layers_of(const cuda::dnn::Rnn& rnn, const cuda::dnn::Data& x);

inline constexpr std::size_t k_head_bytes = 64;  // of the reserve: which pass left it
inline std::size_t workspace_of(const Layers& s) { return static_cast<std::size_t>(s.B * s.H) * sizeof(float) + 256; }

}  // namespace unroll::shim
