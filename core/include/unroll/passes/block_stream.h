// SPDX-License-Identifier: Apache-2.0
// Streaming of any graph that is causal in time: from the graph of whole sequences, a graph of one block of steps that
// carries what the next block needs. Loops carry their states, windows (convolution, pooling) a ring of past positions,
// and layers with a stride keep their phase. The idea is the "pulse" of tract (Sonos); here it follows from how the
// shapes of each op depend on the number of steps. Letters: T steps of the sequence, P steps of a block, R rows of the
// output for a block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Returns the graph for sequences of T steps. Parameters are constants; the one input has one axis of T positions. The
// graphs of two lengths differ only in shapes, and in attributes that determine shapes.
using GraphOfLength = std::function<std::shared_ptr<const Graph>(std::int64_t steps)>;

struct BlockStreamOptions {
  std::int64_t block = 0;       // P; 0: the smallest possible
  std::int64_t look_ahead = 0;  // steps after step t that the output of t may depend on
  std::string output = {};      // the output to stream; empty: the first one that is a sequence
};

struct BlockStream {
  // Inputs: "x" [P, ...], the axis of time first; "state.0", "state.1", ...; one of each `ends`. Outputs: "y" [R, ...],
  // the axis of time first; the next states.
  std::shared_ptr<const Graph> graph;
  // Outputs: the states before the first block. No inputs.
  std::shared_ptr<const Graph> initial;
  std::string input, output;       // their names in the graph of whole sequences
  std::vector<std::string> others; // its other outputs, which are left out
  std::int64_t block = 1;          // P
  std::int64_t rows = 1;           // R
  // Row r of y, counted from the first block, is position r - delay of the output. Rows before that have no meaning.
  std::int64_t delay = 0;
  std::int64_t look_ahead = 0;     // steps that must follow step t before its output is complete, rounded up to blocks
  std::function<std::int64_t(std::int64_t)> length;  // the positions of the output for T steps

  // An input i32 []: how many positions of a value exist in this block. It has `rows` of them in each block, delayed as
  // the rows of y are, and length(T) in all. Before the end of the sequence is known, pass `rows`.
  struct End {
    std::string name;
    std::int64_t rows, delay;
    std::function<std::int64_t(std::int64_t)> length;
  };
  std::vector<End> ends;
};

// Throws Error(unsupported), which names the op, for a graph that reads the future beyond options.look_ahead or the
// whole sequence, or for which streaming is not implemented; Error(usage) for a graph without exactly one input, a
// block that is not a multiple of the smallest one, or an unknown output.
UNROLL_API BlockStream block_stream(const GraphOfLength& graph_of, const BlockStreamOptions& options = {});

}  // namespace unroll
