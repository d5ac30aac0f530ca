// SPDX-License-Identifier: Apache-2.0
// The graph: nodes in SSA form, in topological order; every output has a dtype and a static shape. Graph::append infers
// and checks types, so every Graph is well typed. Most users call the functions in ops.h instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/ir/attributes.h"
#include "unroll/ir/op.h"
#include "unroll/ir/value.h"
#include "unroll/support/types.h"

namespace unroll {

// The model layer and the phase of an update that a node belongs to. Reports and messages name them; results do not
// depend on them. graph_hash, print_graph and CSE ignore them.
struct Origin {
  enum class Phase : std::uint8_t { forward, backward, update, communication };
  // "encoder.l0"; empty: no layer, or several. In the body of a composite, a layer that begins with a dot is relative
  // to the composite's layer: ".l1" of an lstm in "encoder" is "encoder.l1".
  std::string layer;
  Phase phase = Phase::forward;
  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  Attributes attributes;
  std::shared_ptr<const Graph> body;  // scan, fused and fused_reduction only
  std::vector<Type> outputs;
  Origin origin;
};

struct NamedValue {
  std::string name;
  ValueId value;
};

// Neither copyable nor movable, because values point to it. Bodies are held by shared_ptr<const Graph>.
class UNROLL_API Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Adds a named input. Names are unique. Throws Error(usage) on an empty or duplicate name.
  Value input(std::string name, Type type);
  // Adds a named output. Names are unique among outputs; a value may have several names.
  void output(std::string name, Value value);
  // Appends a node after checking the number of inputs, dtypes and shapes. Throws Error(shape|type|graph), which names
  // the op. append_one returns the only output of the node.
  std::vector<Value> append(Op op, ValueList inputs, Attributes attributes = {},
                            std::shared_ptr<const Graph> body = nullptr);
  Value append_one(Op op, ValueList inputs, Attributes attributes = {},
                   std::shared_ptr<const Graph> body = nullptr);
  // A copy of `node` of `source` with these operands: its op, attributes, body and origin. Operands that have the types
  // of those in `source` are not checked again.
  std::vector<Value> append_copy(const Graph& source, const Node& node, ValueList inputs);

  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Type& type(ValueId id) const {
    return node(id.node).outputs[static_cast<std::size_t>(id.output)];
  }
  Value value(ValueId id) { return {this, id}; }
  std::span<const NamedValue> inputs() const { return inputs_; }    // in creation order
  std::span<const NamedValue> outputs() const { return outputs_; }  // in creation order
  // Returns an empty Value when the name does not exist.
  Value find_input(std::string_view name);
  Value find_output(std::string_view name);

 private:
  friend struct GraphEdit;  // core/ir/graph_edit.h: tests break graphs on purpose
  friend class OriginScope;
  std::vector<ValueId> ids_of(Op op, ValueList inputs) const;
  std::vector<Value> append_node(Node node);

  std::vector<Node> nodes_;
  std::vector<NamedValue> inputs_;
  std::vector<NamedValue> outputs_;
  std::optional<Origin> origin_;
};

// Sets the origin of nodes appended to `graph` during its lifetime. In nested scopes, an empty layer inherits the outer
// one, a relative layer continues it, and the later phase counts. Outside all scopes, a node has the origin of its
// operands: the layer of the parameters among them, if any.
class UNROLL_API OriginScope {
 public:
  OriginScope(Graph& graph, const Origin& origin);
  ~OriginScope() { graph_.origin_ = std::move(outer_); }
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

 private:
  Graph& graph_;
  std::optional<Origin> outer_;
};

// Copies the nodes of `source` that its outputs need into `target`. `inputs` replace source.inputs(), in order. Returns
// the values that correspond to source.outputs().
UNROLL_API std::vector<Value> inline_graph(Graph& target, const Graph& source, ValueList inputs);
UNROLL_API std::shared_ptr<Graph> copy_graph(const Graph& source);

// A stable text form; docs/conventions.md has the grammar. parse_graph(print_graph(g)) equals g. parse_graph throws
// Error(input_file) with line and column, and limits nesting and size.
UNROLL_API std::string print_graph(const Graph& graph);
UNROLL_API std::shared_ptr<Graph> parse_graph(std::string_view text);
UNROLL_API std::string graph_to_dot(const Graph& graph);
// The text of a graph for any number of steps T, from the graphs for two numbers of steps. Sizes that depend on T are
// expressions, such as <T> or <T/2+1>. parse_for_length gives the graph for T steps. Throw Error(unsupported) if the
// graphs differ by more than sizes, and Error(shape) for a T that gives no whole size.
UNROLL_API std::string print_for_lengths(const Graph& one, std::int64_t T_one, const Graph& two, std::int64_t T_two);
UNROLL_API std::shared_ptr<Graph> parse_for_length(std::string_view text, std::int64_t T);

// Checks the numbered rules in docs/conventions.md. Throws Error(graph) with the first violated rule.
enum class Stage { built, planned };  // planned: only claimed composite and gradient nodes remain
UNROLL_API void verify(const Graph& graph, Stage stage = Stage::built);

// The definition of a composite or gradient node in simpler ops, with the node's inputs and outputs in order. Throws
// Error(graph) for other ops.
UNROLL_API std::shared_ptr<const Graph> composite_body(const Graph& graph, const Node& node);

// FNV-1a, 64 bits, over ops, attributes, constants, types and connections. It ignores names and the order of nodes.
// Inputs and outputs are identified by position.
UNROLL_API std::uint64_t graph_hash(const Graph& graph);

}  // namespace unroll
