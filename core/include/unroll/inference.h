// SPDX-License-Identifier: Apache-2.0
// A trained task as a network from named inputs to named outputs, for whole sequences. `Model` runs it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unroll/export.h"
#include "unroll/network.h"
#include "unroll/predict.h"
#include "unroll/tensor.h"
#include "unroll/types.h"

namespace unroll {

// One axis of a tensor: a letter where each run chooses the size, a size where the model fixes it.
struct Axis {
  std::string letter;     // "T" steps, "B" sequences, ...; empty: fixed
  std::int64_t size = 0;  // if fixed
};
struct UNROLL_API TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Axis> axes;
  std::string text() const;  // "f32[T,B,28]"
};

// Inputs and outputs by task. T steps, B sequences, V tokens, S series, H horizon, K labels; lengths i32 [B] count the
// steps of each sequence, and what lies behind them is not read.
//   language_model  ids [T,B] -> logits [T,B,V] of the next token, and the states
//   classify        x [T,B,I] as in the data, without missing values -> probabilities [B,K]
//   forecast        x [T,B,S] in the units of the columns -> forecast [B,H,S] in the same units. A model of changes
//                   reads one row more than its window.
//   label           ids [T,B], lengths -> labels i32 [T,B], and probabilities [T,B,K]; with a CRF scores [T,B,K]
//   document        ids [W,S*B], words i32 [S*B], sentences i32 [B] -> probabilities [B,K]. Sentence s of document b is
//                   column s * B + b; `words` counts its words, `sentences` those of a document.
//   translate       source [S,B], source_lengths [B], target [T,B] -> log_probabilities [B,T,V] of the tokens that
//                   follow each target token. The first target token is V - 1, which also ends a text. With
//                   model.pointer the outputs are those of summarize.
//   summarize       the same inputs -> probabilities [T,B,V] of writing each token, attention [T,B,S] and p_gen [T,B].
//                   Without model.pointer there is no p_gen; else source step s is copied with probability
//                   (1 - p_gen) attention[s].
struct Inference {
  std::vector<TensorSpec> inputs = {}, outputs = {};
  // Inputs that continue a sequence: the output of the same name is the value after the last step. Zeros at the start.
  std::vector<std::string> states = {};
  Network network = {};
};
// From the metadata of a checkpoint. Throws Error(input_file) when they are incomplete or of no known task.
UNROLL_API Inference task_inference(const Metadata& metadata);

// The sizes of the letters in a set of inputs. Throws Error(usage) on a missing or unknown name, Error(type) on a wrong
// dtype, and Error(shape) on a wrong size, or on one letter with two sizes; each names the input.
UNROLL_API std::map<std::string, std::int64_t> bind_sizes(const Inference& inference, const TensorMap& inputs);
// Zeros for the states that are not in `inputs`: with both, the network starts a new sequence. Throws like bind_sizes.
UNROLL_API TensorMap zero_states(const Inference& inference, const TensorMap& inputs);
// The shape of a tensor for such sizes.
UNROLL_API Shape shape_of(const TensorSpec& spec, const std::map<std::string, std::int64_t>& sizes);

}  // namespace unroll
