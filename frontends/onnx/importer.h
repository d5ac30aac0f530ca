// SPDX-License-Identifier: Apache-2.0
// Parts of the importer. A Frame is a graph under construction: the main graph, or the body of a scan. Names are the
// names visible in a subgraph. A Call is one ONNX node; the builder of its operator reads it and returns its output
// values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/onnx/budgets.h"
#include "frontends/onnx/import.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/backend.h"
#include "unroll/support/error.h"

namespace unroll::onnx {

struct Frame {
  Graph& graph;
  Frame* outer = nullptr;
  std::map<ValueId, Value> captured = {};    // input of this body -> value of the outer graph, the same in every step
  std::map<ValueId, Tensor> evaluated = {};  // results of `literal`
  std::map<ValueId, int> narrow_types = {};  // TensorProto.DataType of computed values and inputs with 8 or 16 bits
};

// Tensors that are slices of one tensor along an axis.
struct Sequence {
  Value tensor;
  int axis = 0;
  bool keeps_axis = true;
  std::vector<std::int64_t> begins = {0};  // of the slices, and the end of the last one
  std::set<std::int64_t> read = {};        // slices in use
  std::int64_t n_parts() const { return static_cast<std::int64_t>(begins.size()) - 1; }
};

struct Names {
  Frame& frame;
  const Names* outer = nullptr;  // null: no outer names are visible
  std::map<std::string, Value> values = {};
  std::map<std::string, Sequence> sequences = {};  // of nodes of this graph; not visible in subgraphs
  const std::map<std::string, AttributeDef>* attributes = nullptr;  // of the function being inlined
  int depth = 0;

  Value find(const std::string& name) const;  // empty if unknown
};

class Importer;

class Call {
 public:
  Call(Importer& importer, Names& names, const NodeDef& node);

  Importer& importer;
  Names& names;
  const NodeDef& node;

  Graph& graph() const { return names.frame.graph; }
  std::int64_t opset() const;
  std::size_t n_inputs() const { return node.inputs.size(); }
  std::size_t n_outputs() const { return node.outputs.size(); }
  bool wants(std::size_t output) const { return output < n_outputs() && !node.outputs[output].empty(); }
  bool has(std::size_t input) const { return input < n_inputs() && !node.inputs[input].empty(); }
  Value in(std::size_t input);           // throws if omitted
  Value in_or_none(std::size_t input) { return has(input) ? in(input) : Value(); }
  std::vector<Value> all_inputs();
  void ignore(std::size_t input) { read_inputs_.insert(input); }
  Sequence& sequence(std::size_t input);
  void define_sequence(std::size_t output, Sequence sequence);

  // Values that must be known at build time, such as shapes and axes.
  Tensor literal(std::size_t input);
  Ints ints(std::size_t input);          // of rank 0 or 1
  std::int64_t integer(std::size_t input);

  // Attributes. Unread attributes are refused, so that no part of a model is silently lost.
  const AttributeDef* attribute(const std::string& name);
  std::int64_t integer(const std::string& name, std::int64_t fallback);
  double number(const std::string& name, double fallback);
  std::string text(const std::string& name, const std::string& fallback);
  std::optional<Ints> list(const std::string& name);
  const GraphDef& subgraph(const std::string& name);
  std::int32_t narrow(std::int64_t value) const;  // integers are computed in 32 bits; throws if it does not fit
  // Returns an axis in [0, rank); negative axes count from the end.
  int axis(std::int64_t axis, int rank) const;
  // Integers of all widths are i32 here, but operators that saturate need the width. Returns the TensorProto.DataType
  // of an integer with 8 or 16 bits; 0 for other types, and where it is not known.
  int narrow_type(Value value) const;
  void note_type(Value value, int code) { names.frame.narrow_types.insert_or_assign(value.id(), code); }
  // Returns the axes from the attribute `axes`, or from an input in newer opsets; nullopt if omitted.
  std::optional<Ints> axes(std::size_t input);

  void require_all_read() const;
  [[noreturn]] void refuse(const std::string& what, const std::string& next = {}) const;       // malformed
  [[noreturn]] void unsupported(const std::string& what, const std::string& next = {}) const;  // unsupported

 private:
  const AttributeDef* attribute(const std::string& name, AttributeType type);

  std::map<std::string, AttributeDef> attributes_;
  std::set<std::string> read_;
  std::set<std::size_t> read_inputs_;
};

using Builder = std::vector<Value> (*)(Call& call);
struct OperatorRow {
  std::string_view name;
  int since;
  Builder build;
  std::string_view domain = {};
};
inline constexpr std::string_view k_microsoft = "com.microsoft";  // operators of ONNX Runtime
// frontends/onnx/ops
std::span<const OperatorRow> elementwise_rows();
std::span<const OperatorRow> math_rows();
std::span<const OperatorRow> movement_rows();
std::span<const OperatorRow> rearrange_rows();
std::span<const OperatorRow> resize_rows();
std::span<const OperatorRow> index_rows();
std::span<const OperatorRow> scatter_rows();
std::span<const OperatorRow> reduction_rows();
std::span<const OperatorRow> convolution_rows();
std::span<const OperatorRow> normalization_rows();
std::span<const OperatorRow> quantized_rows();
std::span<const OperatorRow> einsum_rows();
std::span<const OperatorRow> fourier_rows();
std::span<const OperatorRow> recurrent_rows();
std::span<const OperatorRow> control_rows();
std::span<const OperatorRow> sequence_rows();
const OperatorRow* find_operator(std::string_view domain, std::string_view name);

// Returns the elements `from`, `from + step`, ... of an axis, `n` of them.
Value strided(Value x, int axis, std::int64_t from, std::int64_t step, std::int64_t n);
// Returns the elements with these indices of an axis; an index of -1 gives zeros.
Value take(Value x, int axis, const std::vector<std::int32_t>& at);
inline Value flipped(Value x, int axis) { return strided(x, axis, x.shape()[axis] - 1, -1, x.shape()[axis]); }

Value wrapped(Value indices, std::int64_t size);  // negative indices count from the end

// Rounds towards minus infinity, and to the nearest integer with ties to even.
Value floor_of(Value x);
Value round_even(Value x);
// Convolves x [N, C, L...] with weight [O, C, K...] as the attributes of the node say.
Value convolved(Call& call, Value x, Value weight, Value bias);
// NumPy's matmul: a vector gets an axis that the result loses again; leading axes broadcast.
Value numpy_matmul(Value a, Value b);
// Quantizes x with one scale to 8 bits, multiplies with integers w [N,K] stored in floats, and scales with w_scale [N].
Value dynamic_product(Value x, Value w, Value w_scale);
// The float type in which sums of `n` products of 8-bit integers are exact.
DType exact_type(std::int64_t n);

// Observes nodes of the main graph, without bodies of loops, as they are built. `first`: the first graph node that may
// belong to the ONNX node.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void built(Call& call, const OperatorRow& row, std::int32_t first, const std::vector<Value>& outputs) = 0;
};

class Importer {
 public:
  Importer(const Model& model, const TensorMap& known, NodeObserver* observer = nullptr);
  ~Importer();

  const Model& model;
  ImportedGraph run(const std::map<std::string, Type>& types);

  // Returns the output values of a subgraph whose inputs are in `names`.
  std::vector<Value> build_graph(Names& names, const GraphDef& graph);
  // Computes a value from constants and known inputs; nullopt if they do not suffice.
  std::optional<Tensor> literal(Frame& frame, Value value);
  // Returns the outer values that a subgraph reads, by name.
  std::map<std::string, Value> captures(const Names& names, const GraphDef& graph) const;
  // Binds names of a scan body: `outer` values arrive as `inputs` of the body. Small constants are copied.
  void bind_captures(Names& inner, const std::map<std::string, Value>& outer, std::span<const Value> inputs);
  void count_nodes(std::int64_t n);
  void count_elements(std::int64_t n);  // of constants that the import computes

 private:
  void require_whole_sequences(const Names& names) const;
  void build_node(Names& names, const NodeDef& node);
  std::vector<Value> call_function(Call& call, const FunctionDef& function);
  bool collect(Frame& frame, ValueId id, std::set<ValueId>& needed);
  Value copy(Frame& frame, Graph& to, ValueId id, std::map<ValueId, Value>& done);

  const TensorMap& known_;
  NodeObserver* const observer_;
  std::set<std::string> specialized_;
  std::unique_ptr<Backend> reference_;
  std::int64_t nodes_ = 0;
  std::int64_t evaluated_elements_ = 0;
};

}  // namespace unroll::onnx
