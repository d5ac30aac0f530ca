// SPDX-License-Identifier: Apache-2.0
// An ONNX model as a model of streams. Either one free dimension is time (unroll/passes/block_stream.h), or the file
// computes one step, with states among its inputs and outputs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/onnx/free_sizes.h"
#include "unroll/passes/block_stream.h"

namespace unroll::onnx {

struct StreamChoices {
  std::string time;                      // the free dimension; empty: chosen
  FreeSizes sizes;                       // of other free dimensions; 1, or as parameters need
  std::map<std::string, double> values;  // of inputs that are not streamed, for all elements; floats: 0
  BlockStreamOptions blocks;
};

struct ModelStream {
  GraphOfLength whole;
  std::string time;                            // empty: the file computes one step
  FreeSizes sizes;                             // of the other free dimensions
  std::map<std::string, double> values;        // of the inputs that are not streamed
  std::map<std::string, std::string> carried;  // states of a file that computes one step: the output of each input
};
// Throws Error(usage) for unknown names, or if several dimensions could be time; Error(unsupported), with the reason
// for each dimension, if no stream is possible; and errors of import_graph.
ModelStream stream_of(std::shared_ptr<const Model> model, const StreamChoices& choices);
// The same for a model that needs the whole sequence, such as a bidirectional one: the time is the only free dimension
// on which one input alone depends. A file without free dimensions has no time.
ModelStream sequence_of(std::shared_ptr<const Model> model, const StreamChoices& choices);

}  // namespace unroll::onnx
