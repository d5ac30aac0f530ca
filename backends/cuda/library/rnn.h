// SPDX-License-Identifier: Apache-2.0
// A stack of recurrent layers as cuDNN runs it: its descriptors, the sizes of its memory, where parameters lie in its
// weights, and its three calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/common/claims/recurrent.h"
#include "backends/cuda/library/call.h"
#include "backends/cuda/library/cudnn.h"

namespace unroll::cuda {

struct RnnForm {
  common::Recurrent layers = {};  // format: of x, h, c and the weights inside
  bool tf32 = false;              // products of f32 may round their operands to tf32
  bool training = false;          // the gradient follows
  dnn::Algorithm algorithm = dnn::Algorithm::standard;
  std::string chosen = {};        // how the algorithm was, for reports
  friend bool operator==(const RnnForm&, const RnnForm&) = default;
};

// Elements of a parameter that lie together in the weights.
struct RnnPiece {
  std::size_t parameter;  // of the node: among all parameters
  std::size_t from;       // in the parameter, in elements
  std::size_t to;         // in the weights, in bytes
  std::size_t elements;
  friend bool operator==(const RnnPiece&, const RnnPiece&) = default;
};

class Rnn {
 public:
  // Null where the library refuses the form; `why` then says so in its words. Throws Error(memory) or Error(device).
  static std::shared_ptr<const Rnn> make(std::shared_ptr<const Dnn> dnn, const RnnForm& form, std::string& why);
  ~Rnn();
  Rnn(const Rnn&) = delete;
  Rnn& operator=(const Rnn&) = delete;

  const RnnForm& form() const { return form_; }
  std::size_t weight_bytes() const { return weight_bytes_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::size_t reserve_bytes() const { return reserve_bytes_; }  // 0 without training
  // `weights`: memory of weight_bytes() on the device, which nothing is written to. Throws Error(internal) when the
  // library expects matrices of other sizes.
  std::vector<RnnPiece> pieces(CUdeviceptr weights) const;

 private:
  friend class RnnCall;
  Rnn(std::shared_ptr<const Dnn> dnn, const RnnForm& form) : dnn_(std::move(dnn)), form_(form) {}
  dnn::Status describe();
  dnn::Status measure();

  std::shared_ptr<const Dnn> dnn_;
  RnnForm form_;
  dnn::Rnn* rnn_ = nullptr;
  dnn::Dropout* dropout_ = nullptr;
  dnn::Data *x_ = nullptr, *y_ = nullptr;
  dnn::Tensor *h_ = nullptr, *c_ = nullptr;
  std::size_t weight_bytes_ = 0, workspace_bytes_ = 0, reserve_bytes_ = 0;
};

// Operands of a call. x, h0, y and the others are in the format; training leaves `reserve` for the gradient, which
// calls in the order data, weights.
enum class RnnSlot : std::uint8_t {
  x, h0, c0, y, hn, cn, weights, workspace, reserve, d_y, d_hn, d_cn, d_x, d_h0, d_c0, d_weights
};

// In which cuDNN keeps values, and how many a slot has.
DType inside_dtype(const common::Recurrent& r);
std::size_t elements_of(const common::Recurrent& r, RnnSlot slot);

class RnnCall final : public LibraryCall {
 public:
  enum class Kind : std::uint8_t {
    forward,
    gradient_of_data,     // d_x, d_h0, d_c0
    gradient_of_weights,  // added to d_weights
  };
  // `slots`: those of the operands, in their order. Others are null: a cotangent of zeros, or a gradient nobody wants.
  RnnCall(std::shared_ptr<const Rnn> rnn, Kind kind, std::span<const RnnSlot> slots);
  std::string name() const override;
  bool may_refuse_capture() const override { return true; }
  void run(std::span<const CUdeviceptr> operands, CUstream stream) const override;

 private:
  std::shared_ptr<const Rnn> rnn_;
  Kind kind_;
  std::array<int, 16> operand_;  // [slot]; -1: none
};

std::string_view algorithm_name(dnn::Algorithm algorithm);

}  // namespace unroll::cuda
