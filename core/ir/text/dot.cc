// SPDX-License-Identifier: Apache-2.0
// Prints a graph for Graphviz: boxes are nodes, clusters are bodies, edges have types.
#include "core/ir/text/text.h"
#include "unroll/ir/graph.h"

namespace unroll {

namespace {

constexpr std::size_t k_label_length = 60;  // longer attributes (constants) are cut in the picture

// Prints one graph; node ids get a prefix so that bodies do not collide with the graph around them.
void draw(const Graph& graph, const std::string& prefix, const std::string& indent, std::string& out) {
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    const std::string name = prefix + std::to_string(id);
    std::string attributes = attributes_text(node);
    if (attributes.size() > k_label_length) attributes = attributes.substr(0, k_label_length) + "...";
    const std::string label = "%" + std::to_string(id) + " " + std::string(op_info(node.op).name) + " " + attributes;
    out += indent + name + " [label=" + quoted(label) + "];\n";
    if (node.body) {
      const std::string title = quoted("body of %" + std::to_string(id));
      out += indent + "subgraph cluster_" + name + " {\n" + indent + "  label=" + title + ";\n";
      draw(*node.body, name + "_", indent + "  ", out);
      out += indent + "}\n";
    }
    for (const ValueId& from : node.inputs)
      out += indent + prefix + std::to_string(from.node) + " -> " + name + " [label=" +
             quoted(graph.type(from).text()) + "];\n";
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const NamedValue& output = graph.outputs()[i];
    const std::string name = prefix + "out" + std::to_string(i);
    out += indent + name + " [label=" + quoted(output.name) + ", shape=ellipse];\n";
    out += indent + prefix + std::to_string(output.value.node) + " -> " + name + " [label=" +
           quoted(graph.type(output.value).text()) + "];\n";
  }
}

}  // namespace

std::string graph_to_dot(const Graph& graph) {
  std::string out = "digraph unroll {\n  node [shape=box, fontname=monospace];\n";
  draw(graph, "n", "  ", out);
  return out + "}\n";
}

}  // namespace unroll
