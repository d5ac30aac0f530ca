// SPDX-License-Identifier: Apache-2.0
// Verifies one node: computes the reference result for its operands and compares it with the actual result.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/train/verify/rounding.h"
#include "unroll/passes/run.h"
#include "unroll/train/compare.h"

namespace unroll {

// The part of a tensor that means something, counted from the front: rows of packed sequences end somewhere.
struct Live {
  std::int64_t count = 1, of = 1;
  std::int64_t elements(const Tensor& tensor) const { return tensor.elements() * count / of; }
};

class NodeVerifier {
 public:
  // `flushes`: the backend whose nodes are verified may flush denormal numbers.
  NodeVerifier(Backend& verifier, bool flushes) : verifier_(verifier), flushes_(flushes) {}

  struct Verdict {
    double ratio = 0;   // worst error as a part of the allowed one; above 1: wrong
    std::string value;  // of the worst element
  };
  // `name` tells nodes apart whose programs are kept. got[k] is null where output k is not known.
  Verdict verify(const std::string& name, const Node& node, const std::vector<Tensor>& operands,
                const std::vector<const Tensor*>& got, Live live);

 private:
  struct Programs {
    std::unique_ptr<Program> wide;    // "result0", "bound0", ... in f64
    std::unique_ptr<Program> narrow;  // of a whole node: "result0" ... in its own dtype
  };
  Programs& programs(const std::string& name, const Node& node, const std::vector<Tensor>& operands);

  Backend& verifier_;
  bool flushes_;
  std::map<std::string, Programs> programs_;
};

// The node with inputs "operand0", ... and outputs "result0", ...; claims given up.
std::shared_ptr<const Graph> node_alone(const Node& node, const std::vector<Tensor>& operands);

}  // namespace unroll
