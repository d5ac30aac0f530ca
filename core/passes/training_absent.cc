// SPDX-License-Identifier: Apache-2.0
// Stands in for what only graphs with gradients need, in a build for inference only.
#include "core/autodiff/gradient_body.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/support/error.h"

namespace unroll {

std::shared_ptr<const Graph> gradient_body(const Graph&, const Node&) {
  throw Error(ErrorKind::unsupported, "gradient",
              "this build is for inference only and has no automatic differentiation",
              "Run meson setup --reconfigure -Dinference_only=false and build again");
}

// Without backward loops there is nothing to compute again.
std::shared_ptr<const Graph> checkpoint(const Graph& graph, PassLog*) { return copy_graph(graph); }

}  // namespace unroll
