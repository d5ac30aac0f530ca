// SPDX-License-Identifier: Apache-2.0
// The calls of libcudnn.so.9 that compute, for tests (cudnn.cc).
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/backends/cuda/shim/cudnn_objects.h"
#include "tests/backends/cuda/shim/elements.h"
#include "tests/backends/cuda/shim/late_work.h"

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

struct Head {
  std::uint64_t mark;     // k_left
  std::uint64_t form[6];  // of the layers
  std::uint64_t stage;    // 1: forward, 2: gradient of data
};
constexpr std::uint64_t k_left = 0x756e726f6c6c646eu;
Head head_of(const dnn::Rnn& r, const Layers& s, std::uint64_t stage) {
  const auto word = [](auto x) { return static_cast<std::uint64_t>(x); };
  return {k_left,
          {word(r.algorithm) | word(s.cell) << 8 | word(s.type) << 16 | word(s.L) << 32, word(s.T), word(s.B),
           word(s.I), word(s.H) << 32 | word(s.P), word(s.D)},
          stage};
}
struct Span {
  const void* at;
  std::size_t bytes;
  const char* name;
  bool writes;
};
// A call on the stream of the handle. Its memory must be allocated, and what it writes must be apart from all else.
struct Job {
  dnn::Context* context;
  std::vector<Span> memory;

  void add(const char* name, const void* at, std::int64_t elements, unroll::DType type, bool writes = false) {
    if (!at || elements == 0) return;
    memory.push_back({at, static_cast<std::size_t>(elements) * unroll::shim::width_of(type), name, writes});
  }
  Status put(std::function<CUresult()> work) const {
    const CUstream stream = context->stream;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (unroll_shim_work(stream, {}, memory[i].at, memory[i].bytes) != CUDA_SUCCESS)
        return complain(Status::bad_param, std::string(memory[i].name) + " is not allocated");
      for (std::size_t k = 0; k < i; ++k) {
        const char *a = static_cast<const char*>(memory[i].at), *b = static_cast<const char*>(memory[k].at);
        if ((memory[i].writes || memory[k].writes) && a < b + memory[k].bytes && b < a + memory[i].bytes)
          return complain(Status::bad_param, std::string(memory[i].name) + " overlaps " + memory[k].name);
      }
    }
    const auto captured = unroll_shim_work(stream, std::move(work), memory[0].at, memory[0].bytes);
    return captured == CUDA_SUCCESS ? Status::success : Status::execution_failed;
  }
};

bool refuses_capture(CUstream stream) {
  const char* const text = std::getenv("UNROLL_SHIM_DNN_CAPTURE");
  return text && std::strcmp(text, "0") == 0 && unroll_shim_captures(stream);
}

// What all three calls check. h and c [L*D, B, columns].
Status refusal(dnn::Context* context, const dnn::Rnn* r, const dnn::Data* x, const dnn::Data* y, const dnn::Tensor* h,
               const dnn::Tensor* c, std::size_t weight_space, std::size_t workspace, const void* work,
               std::size_t reserve, bool training, bool reads_c = true) {
  if (!are_there({context, r, x, y, h})) return complain(Status::bad_param, "a description that is not there");
  if (!context->has_stream) return complain(Status::bad_param, "no stream is set");
  if (!r->is_set || !x->is_set || !y->is_set) return complain(Status::bad_param, "a description that is not set");
  if (x->type != r->type || y->type != r->type || x->T != y->T || x->B != y->B || x->lengths != y->lengths)
    return complain(Status::bad_param, "sequences that do not go together");
  const Layers s = layers_of(*r, *x);
  if (x->columns != s.I || y->columns != s.D * s.P) return complain(Status::bad_param, "a width of sequences");
  const auto is_state = [&](const dnn::Tensor* t, std::int64_t columns) {
    const auto n = [](std::int64_t size) { return static_cast<int>(size); };
    return t->type == r->type && t->sizes == std::vector<int>{n(s.L * s.D), x->B, n(columns)} &&
           t->strides == std::vector<int>{n(x->B * columns), n(columns), 1};
  };
  const bool has_c = reads_c && r->cell == dnn::Cell::lstm;
  if (!is_state(h, s.P) || (has_c && (!are_there({c}) || !is_state(c, s.H))))
    return complain(Status::bad_param, "a state's description");
  const bool has_full_rows = std::all_of(x->lengths.begin(), x->lengths.end(), [&](int n) { return n == x->T; });
  if (is_persistent(r->algorithm) && (!has_full_rows || r->type == Type::bf16 || s.H > 1024))
    return complain(Status::not_supported, "no persistent kernel in bf16, beyond 1,024 units, or of unequal lengths");
  if (is_persistent(r->algorithm) && std::getenv("UNROLL_SHIM_DNN_STANDARD"))
    return complain(Status::not_supported, "the device has no persistent kernel");
  if (r->algorithm == Algorithm::persist_dynamic && r->built_for != x->B)
    return complain(Status::bad_param, "a dynamic persistent kernel that was not built for these rows");
  if (!(r->flags & dnn::k_padded)) return complain(Status::not_supported, "a padded layout without padded_io");
  if (!has_full_rows) return complain(Status::not_supported, "unequal lengths, which the shim does not compute");
  if (weight_space != unroll::shim::weight_bytes(s)) return complain(Status::bad_param, "the size of the weights");
  if (!work || workspace < workspace_of(s)) return complain(Status::bad_param, "too little workspace");
  if (reserve < (training ? k_head_bytes + unroll::shim::reserve_bytes(s) : 0))
    return complain(Status::bad_param, "too little reserve");
  if (refuses_capture(context->stream)) return complain(Status::not_supported, "a call while a stream captures");
  return Status::success;
}
CUresult wrong(const char* what) {
  complain(Status::execution_failed, what);
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}
// What a call costs on the clock of the device. Tests set it; otherwise all algorithms take a nanosecond per 1,024
// multiplications.
using Cost = std::uint64_t (*)(Algorithm algorithm, std::int64_t hidden, std::int64_t steps);
void spend(Algorithm algorithm, const Layers& s);
double* numbers_in(void* reserve) { return reinterpret_cast<double*>(static_cast<char*>(reserve) + k_head_bytes); }

}  // namespace

extern "C" {

// Of the tests: calls so far, and the algorithm of the latest forward pass.
int unroll_shim_dnn_forward = 0, unroll_shim_dnn_gradients = 0;
Algorithm unroll_shim_dnn_algorithm = Algorithm::standard;
Cost unroll_shim_dnn_cost = nullptr;

Status cudnnRNNForward(dnn::Context* context, dnn::Rnn* rnn, dnn::Mode mode, const std::int32_t* lengths,
                       dnn::Data* x_of, const void* x, dnn::Data* y_of, void* y, dnn::Tensor* h_of, const void* h0,
                       void* hn, dnn::Tensor* c_of, const void* c0, void* cn, std::size_t weight_space,
                       const void* weights, std::size_t workspace, void* work, std::size_t reserve_space,
                       void* reserve) {
  const bool training = mode == dnn::Mode::training;
  if (const Status status = refusal(context, rnn, x_of, y_of, h_of, c_of, weight_space, workspace, work, reserve_space,
                                    training);
      status != Status::success)
    return status;
  if (lengths || !x || !y || !weights || (training && !reserve)) return complain(Status::bad_param, "an operand");
  const Layers s = layers_of(*rnn, *x_of);
  Job job{context, {}};
  job.add("x", x, s.T * s.B * s.I, s.type), job.add("y", y, s.T * s.B * s.D * s.P, s.type, true);
  job.add("h0", h0, s.L * s.D * s.B * s.P, s.type), job.add("hn", hn, s.L * s.D * s.B * s.P, s.type, true);
  job.add("weights", weights, static_cast<std::int64_t>(weight_space), unroll::DType::b8);
  job.add("workspace", work, static_cast<std::int64_t>(workspace), unroll::DType::b8, true);
  if (training) job.add("reserve", reserve, static_cast<std::int64_t>(reserve_space), unroll::DType::b8, true);
  if (s.cell == dnn::Cell::lstm)
    job.add("c0", c0, s.L * s.D * s.B * s.H, s.type), job.add("cn", cn, s.L * s.D * s.B * s.H, s.type, true);
  ++unroll_shim_dnn_forward;
  unroll_shim_dnn_algorithm = rnn->algorithm;
  return job.put([=, head = head_of(*rnn, s, 1), algorithm = rnn->algorithm] {
    if (!unroll::shim::gaps_are_zero(s, weights)) return wrong("garbage between the parameters");
    std::memset(work, 0xff, workspace);
    spend(algorithm, s);
    run_forward(s, {x, h0, c0, y, hn, cn, weights, training ? numbers_in(reserve) : nullptr});
    if (training) std::memcpy(reserve, &head, sizeof head);
    return CUDA_SUCCESS;
  });
}

Status cudnnRNNBackwardData_v8(dnn::Context* context, dnn::Rnn* rnn, const std::int32_t* lengths, dnn::Data* y_of,
                               const void* y, const void* d_y, dnn::Data* x_of, void* d_x, dnn::Tensor* h_of,
                               const void* h0, const void* d_hn, void* d_h0, dnn::Tensor* c_of, const void* c0,
                               const void* d_cn, void* d_c0, std::size_t weight_space, const void* weights,
                               std::size_t workspace, void* work, std::size_t reserve_space, void* reserve) {
  if (const Status status = refusal(context, rnn, x_of, y_of, h_of, c_of, weight_space, workspace, work, reserve_space,
                                    true);
      status != Status::success)
    return status;
  if (lengths || !y || !d_y || !d_x || !weights || !reserve) return complain(Status::bad_param, "an operand");
  const Layers s = layers_of(*rnn, *x_of);
  const std::int64_t h = s.L * s.D * s.B * s.P, c = s.cell == dnn::Cell::lstm ? s.L * s.D * s.B * s.H : 0;
  Job job{context, {}};
  job.add("y", y, s.T * s.B * s.D * s.P, s.type), job.add("d_y", d_y, s.T * s.B * s.D * s.P, s.type);
  job.add("d_x", d_x, s.T * s.B * s.I, s.type, true), job.add("h0", h0, h, s.type), job.add("d_hn", d_hn, h, s.type);
  job.add("d_h0", d_h0, h, s.type, true), job.add("c0", c0, c, s.type), job.add("d_cn", d_cn, c, s.type);
  job.add("d_c0", d_c0, c, s.type, true);
  job.add("weights", weights, static_cast<std::int64_t>(weight_space), unroll::DType::b8);
  job.add("workspace", work, static_cast<std::int64_t>(workspace), unroll::DType::b8, true);
  job.add("reserve", reserve, static_cast<std::int64_t>(reserve_space), unroll::DType::b8, true);
  ++unroll_shim_dnn_gradients;
  return job.put([=, left = head_of(*rnn, s, 1), head = head_of(*rnn, s, 2),
                  algorithm = rnn->algorithm] {
    if (std::memcmp(reserve, &left, sizeof left) != 0) return wrong("the reserve is not of this forward pass");
    std::memset(work, 0xff, workspace);
    spend(algorithm, s);
    run_data_gradient(s, {nullptr, h0, c0, y, d_y, d_hn, d_cn, d_x, d_h0, d_c0, weights, numbers_in(reserve)});
    std::memcpy(reserve, &head, sizeof head);
    return CUDA_SUCCESS;
  });
}

Status cudnnRNNBackwardWeights_v8(dnn::Context* context, dnn::Rnn* rnn, dnn::Gradient mode, const std::int32_t* lengths,
                                  dnn::Data* x_of, const void* x, dnn::Tensor* h_of, const void* h0, dnn::Data* y_of,
                                  const void* y, std::size_t weight_space, void* d_weights, std::size_t workspace,
                                  void* work, std::size_t reserve_space, void* reserve) {
  if (const Status status = refusal(context, rnn, x_of, y_of, h_of, nullptr, weight_space, workspace, work,
                                    reserve_space, true, /*reads_c=*/false);
      status != Status::success)
    return status;
  if (mode != dnn::Gradient::add || lengths || !x || !y || !d_weights || !reserve)
    return complain(Status::bad_param, "an operand");
  const Layers s = layers_of(*rnn, *x_of);
  Job job{context, {}};
  job.add("x", x, s.T * s.B * s.I, s.type), job.add("y", y, s.T * s.B * s.D * s.P, s.type);
  job.add("h0", h0, s.L * s.D * s.B * s.P, s.type);
  job.add("d_weights", d_weights, static_cast<std::int64_t>(weight_space), unroll::DType::b8, true);
  job.add("workspace", work, static_cast<std::int64_t>(workspace), unroll::DType::b8, true);
  job.add("reserve", reserve, static_cast<std::int64_t>(reserve_space), unroll::DType::b8, true);
  return job.put([=, left = head_of(*rnn, s, 2), algorithm = rnn->algorithm] {
    if (std::memcmp(reserve, &left, sizeof left) != 0) return wrong("the gradient of data comes first");
    if (!unroll::shim::gaps_are_zero(s, d_weights)) return wrong("gradients of weights do not begin at zero");
    std::memset(work, 0xff, workspace);
    spend(algorithm, s);
    run_weight_gradient(s, {x, h0, y, d_weights, numbers_in(reserve)});
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

namespace {
void spend(Algorithm algorithm, const Layers& s) {
  const std::int64_t products = s.L * s.D * s.T * s.B * s.gates() * s.H * (s.I + s.P);
  unroll_shim_spend(unroll_shim_dnn_cost ? unroll_shim_dnn_cost(algorithm, s.H, s.T)
                                         : static_cast<std::uint64_t>(products / 1024 + 1));
}
}  // namespace
