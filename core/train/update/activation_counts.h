// SPDX-License-Identifier: Apache-2.0
// Counts saturated gates and activations, and units that never change, inside recurrent loops, so that no value as long
// as the sequence is stored.
#pragma once

#include <string>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Counts of one layer in one direction. Rows that have ended (lengths) are not counted.
struct LoopActivations {
  std::string loop;  // what the names of its parameters have in common: "l0", "encoder.l1_reverse"
  // f32 []: share of the outputs of sigmoid below 0.1 or above 0.9 (left- and right-saturated, Karpathy et al. 2015,
  // section 4.2) and of those of tanh beyond -0.9 and 0.9, over steps, rows and units.
  Value saturated;
  // f32 []: share of the columns of tanh and relu that are the same in every step and row: always beyond 0.9, always
  // beyond -0.9, or always 0 (relu).
  Value dead;
};

// For each loop of the graph's nodes so far that has a sigmoid, a tanh or a relu: nodes are appended, none is changed.
// The loops inside rnn, gru and lstm are looked at too.
std::vector<LoopActivations> count_activations(Graph& graph);

}  // namespace unroll
