// SPDX-License-Identifier: Apache-2.0
// Converts parameters of a layer between PyTorch's layout and the primitive's: gates in another order, directions side
// by side, biases summed, columns padded or blocked.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/onednn/recurrent.h"

namespace unroll::onednn {

// Allocates parts of a memory block, 64-byte aligned.
class Space {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = used_;
    used_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t used_ = 0;
};

// The tensors that a primitive has for the parameters of a layer.
enum class Weight : std::uint8_t { input, recurrent, peephole, projection, bias };
inline constexpr Weight k_weights[] = {Weight::input, Weight::recurrent, Weight::peephole, Weight::projection,
                                       Weight::bias};
int argument_of(Weight weight);           // DNNL_ARG_WEIGHTS_LAYER ...
int gradient_argument_of(Weight weight);  // DNNL_ARG_DIFF_WEIGHTS_LAYER ...

// Elements that are contiguous in a parameter and in the plain layout: [D][gates in oneDNN's order][H][columns].
struct Piece {
  std::size_t parameter;  // of the layer: direction * n_parameters + position
  std::size_t from, to, elements;
  bool add;  // adds to another piece: the second bias
};
std::vector<Piece> pieces_of(const Recurrent& r, std::int64_t layer, Weight weight);  // empty if absent

// Converts parameters into a primitive's layout.
class WeightIn {
 public:
  WeightIn(const Recurrent& r, std::int64_t layer, Weight weight, const PrimitiveDesc& user, Space& scratch);
  void prepare();
  // Binds the packed parameters: in the scratch, or the parameters themselves.
  void pack(const float* const* parameters, std::byte* scratch, Primitive& into);

 private:
  int argument_;
  std::vector<Piece> pieces_;
  std::unique_ptr<Reorder> reorder_;  // null if the plain layout is the primitive's
  std::size_t zero_bytes_ = 0;        // of a tensor that the primitive has but the layer lacks
  std::size_t plain_ = 0, packed_ = 0, reorder_scratch_ = 0;
};

// Converts gradients of parameters out of a primitive.
class WeightOut {
 public:
  WeightOut(const Recurrent& r, std::int64_t layer, Weight weight, const PrimitiveDesc& maker, Space& scratch);
  void prepare();
  void place(std::byte* scratch, Primitive& maker) const;
  // Null for gradients that are not needed.
  void unpack(float* const* gradients, std::byte* scratch);

 private:
  int argument_;
  std::vector<Piece> pieces_;
  std::unique_ptr<Reorder> reorder_;
  std::size_t plain_ = 0, made_ = 0, reorder_scratch_ = 0;
};

}  // namespace unroll::onednn
