// SPDX-License-Identifier: Apache-2.0
// Any text is a cell or is refused with Error(usage), or Error(input_file) when it came from a file. A cell builds for
// two sizes or is refused for its widths; what is built passes the verifier, has a gradient, and is the same graph
// twice. Format of an input: the states, separated by spaces; a newline; the expression of y, may be empty; a newline;
// the step.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

TextCell cell_of(std::string_view text) {
  const auto line = [&] {
    const std::string_view taken = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(taken.size() + 1, text.size()));
    return taken;
  };
  TextCell cell{.name = "fuzz", .states = {}, .step = ""};
  std::string_view states = line();
  while (!states.empty()) {
    const std::string_view state = states.substr(0, states.find(' '));
    cell.states.emplace_back(state);
    states.remove_prefix(std::min(state.size() + 1, states.size()));
  }
  cell.y = line();
  cell.step = text;
  return cell;
}

// The text of a layer's graph with the gradient of every parameter; empty when the widths do not agree.
std::string built(const CellFactory& factory, std::int64_t input, std::int64_t hidden) {
  Graph graph;
  Scope scope(graph, /*training=*/true);
  const Value x = graph.input("x", {DType::f32, {3, 2, input}});
  try {
    const CellLayerResult r = cell_layer(scope, factory, x, {.hidden = hidden});
    std::vector<Value> wrt{x};
    for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph.find_input(p.name));
    for (const Value d : differentiate(sum(r.y), wrt))
      graph.output("d" + std::to_string(graph.outputs().size()), d);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) std::abort();
    return "";
  }
  verify(graph);
  return print_graph(graph);
}

}  // namespace

FUZZ_TARGET(cell_text) {
  TextCell cell = cell_of({reinterpret_cast<const char*>(data), size});
  try {
    const CellFactory factory = make_text_cell(cell);
    for (const std::int64_t input : {3, 4})
      if (built(factory, input, 4) != built(factory, input, 4)) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) std::abort();
  }
  cell.place = cell.step_place = cell.y_place = {"file", 2, 9};
  try {
    make_text_cell(cell);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  return 0;
}
