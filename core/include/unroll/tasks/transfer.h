// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: a new model that starts from the parameters of a trained one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/support/export.h"
#include "unroll/support/tensor.h"
#include "unroll/tasks/shared.h"

namespace unroll {

struct Transfer {
  enum class Kind : std::uint8_t {
    kept,     // all elements of the trained parameter
    rows,     // those of known tokens and labels; the others are initialized
    fresh,    // initialized: the trained model has no such parameter, or another shape
    dropped,  // the new model has no such parameter
  };
  struct Row {
    std::string name;  // of the parameter
    Kind kind;
    std::string note;  // "25 of 27 labels", "was [4,8], is [6,8]"
  };
  TensorMap parameters;  // of the new model, for TrainerOptions::start
  std::vector<Row> rows;
};

// Keeps parameters of the same name and shape. In one with an axis of tokens or labels, entries are kept by their text;
// new ones are drawn with `seed`, as in a run without `trained`. Throws Error(usage) if no parameter is kept.
UNROLL_API Transfer transfer_parameters(const Metadata& model, std::uint64_t seed, const Metadata& trained_model,
                                        const TensorMap& trained);

}  // namespace unroll
