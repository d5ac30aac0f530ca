// SPDX-License-Identifier: Apache-2.0
// Any text is read or refused with Error(input_file); what was read is legal, prints, and reads back the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/fuzz/target.h"
#include "unroll/ir/graph.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

// Bodies of composites and of their gradients. One may still be refused, but by an Error that is not ours to blame.
void build_bodies(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (op_info(node.op).kind != OpKind::composite) continue;
    try {
      verify(*composite_body(graph, node));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) std::abort();
    }
  }
}

}  // namespace

FUZZ_TARGET(graph_text) {
  const std::string_view any({reinterpret_cast<const char*>(data), size});
  try {
    verify(*parse_for_length(any, 6));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) std::abort();
  }
  std::shared_ptr<Graph> graph;
  try {
    graph = parse_graph({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input_file) std::abort();
    return 0;
  }
  verify(*graph);
  const std::string text = print_graph(*graph);
  if (print_graph(*parse_graph(text)) != text) std::abort();
  if (graph_to_dot(*graph).empty()) std::abort();
  build_bodies(*graph);
  return 0;
}
