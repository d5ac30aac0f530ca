// SPDX-License-Identifier: Apache-2.0
// The notes of passes for `explain`, which become Plan::notes. Passes take a PassLog*; null disables the log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll {

class PassLog {
 public:
  // Notes from here on are of this pass, and of no loop.
  void begin(std::string_view pass);
  // Notes until leave() are about this scan of `graph` or its body; scans nest.
  void enter(const Graph& graph, const Node& scan);
  void leave() { loops_.pop_back(); }
  // An equal note of the same pass raises its count. In a loop the layer is the loop's.
  void add(std::string what, std::string why = {}, const std::string& layer = {});

  // node_text, and outside of loops the first matrix or vector among the graph's inputs that it reads, of several
  // layers also the last: "lstm f32[9,32,64] of weight_ih_l0 to bias_hh_l1".
  std::string named_text(const Graph& graph, const Node& node) const;

  std::vector<PassNote> take() { return std::move(notes_); }

 private:
  struct Loop {
    std::string text, layer;
  };
  std::string pass_;
  std::vector<Loop> loops_;
  std::vector<PassNote> notes_;
};

// The log is inside `scan` while this lives.
class InLoop {
 public:
  InLoop(PassLog* log, const Graph& graph, const Node& scan) : log_(log) {
    if (log_) log_->enter(graph, scan);
  }
  ~InLoop() {
    if (log_) log_->leave();
  }
  InLoop(const InLoop&) = delete;
  InLoop& operator=(const InLoop&) = delete;

 private:
  PassLog* log_;
};

// "matmul f32[32,1024]": a node of one output, or the first of several.
std::string node_text(const Node& node);

}  // namespace unroll
