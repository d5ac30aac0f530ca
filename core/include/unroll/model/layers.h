// SPDX-License-Identifier: Apache-2.0
// Layers: functions that append nodes and create parameters in a Scope.
// Shapes: T time, B batch, I input, H hidden, P output of a recurrent layer, L layers, D directions.
#pragma once

#include <cstdint>
#include <string_view>

#include "unroll/ir/ops.h"
#include "unroll/nn/scope.h"
#include "unroll/support/option.h"

namespace unroll {

// Layers. Parameters have PyTorch's names, layouts and default initialization.
// "weight" [O, I], "bias" [O]
UNROLL_API Value linear_layer(Scope scope, Value x, std::int64_t outputs, bool bias = true);
// The convolution of unroll/ir/ops.h, channels last: x [..., L..., C] -> [..., N..., O], with a kernel for each axis of
// `options`. "weight" [O, C / groups, K...], "bias" [O]
UNROLL_API Value conv_layer(Scope scope, Value x, std::int64_t channels, const Ints& kernel, const ConvOptions& options,
                            bool bias = true);
// "weight" [V, E]
UNROLL_API Value embedding_layer(Scope scope, Value ids, std::int64_t n_ids, std::int64_t width,
                                 Initializer start = Initializer::normal(1));
// Output layer with the transposed embedding weight: logits y E^T + b [...,V]. E [V,E] is the weight of the embedding
// layer of scope `embedding`; its width must equal that of y (Press & Wolf 2017, section 3; Inan et al. 2017, section
// 3.2). "bias" [V] starts at zero. Initialize the embedding with U(-0.1, 0.1), because it is also a matmul weight.
UNROLL_API Value tied_linear_layer(Scope scope, Scope embedding, Value y, std::int64_t outputs);
inline constexpr double k_tied_embedding_start = 0.1;
// "weight", "bias" [width of x]
UNROLL_API Value layer_norm_layer(Scope scope, Value x, double epsilon = 1e-5);
// The dropout mask for a sequence [T,B,...].
enum class DropoutMask : std::uint8_t {
  step,      // a new mask in every step
  sequence,  // one mask [B,...] for all steps (variational dropout, Gal & Ghahramani 2016, section 4)
};
// The identity when not training or when rate is 0. With DropoutMask::sequence, axis 0 of x is time.
UNROLL_API Value dropout_layer(Scope scope, Value x, double rate, DropoutMask mask = DropoutMask::step);
// Activation regularization of y [T,B,P], which must be zero at t >= lengths[b]. Adds two penalties to the scope:
//   activation * mean over t of y[t]^2             (AR)
//   temporal   * mean over t of (y[t+1] - y[t])^2  (TAR)
// Means are over existing steps, or pairs of them (Merity et al. 2017, "Revisiting Activation Regularization for
// Language RNNs"; "Regularizing and Optimizing LSTM Language Models", section 4.6). Adds nothing when not training or
// if both are 0.
UNROLL_API void activation_penalties(Scope scope, Value y, double activation, double temporal, Value lengths = {});

// Skip connections between recurrent layers of equal width. x is the input of a layer, H(x) its output.
enum class SkipConnection : std::uint8_t {
  none,      // no skip connection: H(x)
  residual,  // H(x) + x (He et al. 2016, eq. 1; between recurrent layers Wu et al. 2016, eq. 6)
  highway,   // H(x) * g + x * (1 - g), g = s(W x + b) (Srivastava et al. 2015, eq. 3). Parameters:
             // "highway.weight_l0" [W,W], "highway.bias_l0" [W] (initially -1)
};
template <>
inline constexpr std::string_view k_enum_words<SkipConnection> = "plain|residual|highway";

// Linear-chain conditional random field over K labels (Lafferty et al. 2001). The score of labels y for a row of n
// steps is (Lample et al. 2016, section 2.2)
//   start[y_0] + sum over t of scores[t][y_t] + sum over t > 0 of transition[y_(t-1)][y_t] + end[y_(n-1)]
// Its probability is e^score / Z. The forward algorithm, as a scan, computes Z, the sum over all label sequences.
struct Crf {
  Value start, transition, end;  // [K], [K,K] from one label to the next, [K]
};
// "start", "transition", "end"; all start at zero
UNROLL_API Crf crf_parameters(Scope scope, std::int64_t labels);
// Negative log-likelihood of each row [B]: scores [T,B,K], labels i32 [T,B], lengths i32 [B]. Padding is not read. A
// row of length 0 gives 0. A label outside [0,K) contributes no score, so the result is then not a probability.
UNROLL_API Value crf_loss(const Crf& crf, Value scores, Value labels, Value lengths);
// The most likely labels, i32 [T,B], by the Viterbi algorithm; ties go to the lower label. Padding is 0.
UNROLL_API Value crf_decode(const Crf& crf, Value scores, Value lengths);

// pytorch: U(-1/sqrt(H), 1/sqrt(H)) for everything. xavier: Xavier-uniform weights. orthogonal: orthogonal recurrent
// weights, other weights as xavier. With xavier and orthogonal each gate is drawn separately and biases are zero.
enum class RecurrentInit : std::uint8_t { pytorch, xavier, orthogonal };
template <>
inline constexpr std::string_view k_enum_words<RecurrentInit> = "pytorch|xavier|orthogonal";

// Activation function of the state of an rnn.
enum class Nonlinearity : std::uint8_t { tanh, relu };
template <>
inline constexpr std::string_view k_enum_words<Nonlinearity> = "tanh|relu";

}  // namespace unroll
