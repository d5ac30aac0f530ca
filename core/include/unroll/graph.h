// SPDX-License-Identifier: Apache-2.0
// The graph: nodes in SSA form, appended in topological order, each output with a dtype and a static shape.
// Append infers and checks types, so a Graph that exists is well typed. `ops.h` has the functions people use.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "unroll/tensor.h"
#include "unroll/types.h"

namespace unroll {

// Ops in table order (core/ir/op_table.def).
enum class Op : std::uint16_t {
#define UNROLL_OP(name, ...) name,
#include "unroll/op_table.def"
#undef UNROLL_OP
};

enum class OpTier : std::uint8_t { primitive, structured, composite };
enum class OpKind : std::uint8_t {
  source,
  unary,
  binary,
  compare,
  logical,
  select,
  cast,
  move,
  matmul,
  reduce,
  index,
  random,
  body,
  composite
};
enum class OpCost : std::uint8_t { free, cheap, expensive };  // what recomputing it costs
enum class OpGradient : std::uint8_t { yes, none };

struct OpInfo {
  Op op;
  std::string_view name;
  OpTier tier;
  OpKind kind;
  int min_inputs;
  int max_inputs;  // -1: any number
  OpGradient gradient;
  OpCost cost;
};
UNROLL_API const OpInfo& op_info(Op op);
UNROLL_API std::span<const OpInfo> op_table();
UNROLL_API const OpInfo* find_op(std::string_view name);  // null when there is none
// Same-index ops with NumPy broadcasting: unary, binary, compare, logical, select, cast.
UNROLL_API bool is_elementwise(Op op);

using Ints = std::vector<std::int64_t>;
using Attribute = std::variant<std::int64_t, double, bool, std::string, Ints, DType, std::shared_ptr<const Tensor>>;

// Named attributes in name order. `get` throws Error(graph) when the name is missing or of another type.
class UNROLL_API Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> list) : map_(list) {}

  template <class T> const T& get(std::string_view name) const;
  template <class T> T get_or(std::string_view name, T fallback) const;
  bool has(std::string_view name) const { return map_.find(name) != map_.end(); }
  void set(std::string name, Attribute value) { map_.insert_or_assign(std::move(name), std::move(value)); }
  void erase(std::string_view name);
  const std::map<std::string, Attribute, std::less<>>& all() const { return map_; }
  // Tensors are compared by content.
  friend UNROLL_API bool operator==(const Attributes& a, const Attributes& b);

 private:
  std::map<std::string, Attribute, std::less<>> map_;
};

// Output `output` of node `node`.
struct ValueId {
  std::int32_t node = -1;
  std::int32_t output = 0;
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

class Graph;

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  Attributes attributes;
  std::shared_ptr<const Graph> body;  // scan and fused only
  std::vector<Type> outputs;
};

// A handle to one value of one graph: small, copied freely, valid as long as the graph.
class UNROLL_API Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id) : graph_(graph), id_(id) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  const Node& node() const;
  friend bool operator==(const Value& a, const Value& b) { return a.graph_ == b.graph_ && a.id_ == b.id_; }

 private:
  Graph* graph_ = nullptr;
  ValueId id_;
};

struct NamedValue {
  std::string name;
  ValueId value;
};

// Not movable: values point at it. Bodies are held by shared_ptr<const Graph>.
class UNROLL_API Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // A named input; names are unique. Throws Error(usage) on an empty or repeated name.
  Value input(std::string name, Type type);
  // A named output; names are unique among outputs; one value may have several names.
  void output(std::string name, Value value);
  // Appends a node after checking arity, dtypes and shapes; throws Error(shape|type|graph) naming the op.
  std::vector<Value> append(Op op, std::span<const Value> inputs, Attributes attributes = {},
                            std::shared_ptr<const Graph> body = nullptr);
  Value append_one(Op op, std::span<const Value> inputs, Attributes attributes = {},
                   std::shared_ptr<const Graph> body = nullptr);

  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Type& type(ValueId id) const {
    return node(id.node).outputs[static_cast<std::size_t>(id.output)];
  }
  Value value(ValueId id) { return {this, id}; }
  std::span<const NamedValue> inputs() const { return inputs_; }    // in order of creation
  std::span<const NamedValue> outputs() const { return outputs_; }  // in order of creation
  // Null handle when there is no such name.
  Value find_input(std::string_view name);
  Value find_output(std::string_view name);

 private:
  friend struct GraphEdit;  // core/ir/graph_edit.h: tests break graphs on purpose
  std::vector<Node> nodes_;
  std::vector<NamedValue> inputs_;
  std::vector<NamedValue> outputs_;
};

// Appends a copy of every node of `source` to `target` that its outputs need, with `inputs` standing for
// source.inputs() in order; returns what source.outputs() became.
UNROLL_API std::vector<Value> inline_graph(Graph& target, const Graph& source, std::span<const Value> inputs);
UNROLL_API std::shared_ptr<Graph> copy_graph(const Graph& source);

// Stable text form (grammar in docs/conventions.md). parse_graph(print_graph(g)) is g; throws Error(input_file)
// with line and column; depth and size are bounded.
UNROLL_API std::string print_graph(const Graph& graph);
UNROLL_API std::shared_ptr<Graph> parse_graph(std::string_view text);
UNROLL_API std::string graph_to_dot(const Graph& graph);

// Numbered rules (core/ir/verify.cc); throws Error(graph) naming the first rule broken.
enum class Stage { built, planned };  // planned: no composite or gradient node is left but claimed ones
UNROLL_API void verify(const Graph& graph, Stage stage = Stage::built);

// The body of a composite or gradient node in plain ops: inputs and outputs in the node's order.
// Throws Error(graph) for other ops.
UNROLL_API std::shared_ptr<const Graph> composite_body(const Graph& graph, const Node& node);

}  // namespace unroll
