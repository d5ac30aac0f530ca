// SPDX-License-Identifier: Apache-2.0
// Emits the nodes of a graph as ONNX nodes. Values have unique names in the complete model, so the body of a loop reads
// outer values by name. Builds are the same graph for other sizes (sizes.h): same nodes, other dimensions.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "frontends/onnx/export.h"
#include "frontends/onnx/write/proto.h"
#include "frontends/onnx/write/sizes.h"
#include "unroll/ir/graph.h"

namespace unroll::onnx {

constexpr std::int64_t k_written_opset = 17, k_written_ir = 8;

using Builds = std::vector<const Graph*>;

// A value of the model: its name, or a tensor that becomes an initializer on first use.
struct Operand {
  std::string name = {};
  std::shared_ptr<const Tensor> tensor = nullptr;
  std::string label = {};  // of a tensor: the parameter name
};

struct Site;

class Emitter {
 public:
  // `external_data`: see export_model.
  Emitter(const Inference& inference, const Sizes& sizes, std::string external_data);

  // Emits the graph with these inputs into the current scope and returns its outputs.
  std::vector<Operand> graph(const Builds& builds, const std::vector<Operand>& inputs);

  // Returns the name of a value. Nodes go to the current scope, initializers to the main graph.
  std::string name(const Operand& operand);
  std::string node(const std::string& op, const std::vector<std::string>& inputs, const AttributeList& attributes = {});
  std::vector<std::string> node(const std::string& op, const std::vector<std::string>& inputs, std::size_t n_outputs,
                                const AttributeList& attributes);
  std::string initializer(std::shared_ptr<const Tensor> tensor, const std::string& label);
  std::string integers(const std::vector<std::int64_t>& values);  // int64 [n]
  std::string scalar(DType dtype, double value);
  std::string transposed(const Operand& matrix);  // axes -1 and -2 swapped
  std::string size(const Extent& extent);         // int64 [1]
  std::string shape(std::span<const Extent> extents);  // int64 [n]
  // Uses -1 for at most one free size, as Reshape permits.
  std::string reshape_target(std::span<const Extent> extents);
  std::string reshaped(const std::string& x, std::span<const Extent> extents);
  std::string cast(const std::string& x, DType dtype);
  std::string select(const std::string& condition, const std::string& a, const std::string& b, DType dtype);
  std::string indices(const Extent& n);  // int32 0, 1, ..., n - 1
  std::string unique(const std::string& stem);

  const Sizes& sizes() const { return sizes_; }

  // Emits a body: the nodes from `emit` and its returned names become a graph with these inputs.
  template <class Emit>
  GraphBytes body(const std::string& stem, const std::vector<std::pair<std::string, DType>>& inputs,
                  const std::vector<DType>& outputs, const Emit& emit) {
    Scope inner;
    Scope* const outer = std::exchange(scope_, &inner);
    const std::vector<std::string> names = emit();
    scope_ = outer;
    return finish(stem, inputs, outputs, names, inner);
  }

  // The main graph.
  void input(const TensorSpec& spec);
  void output(const TensorSpec& spec, const Operand& value);
  ExportedModel model(const std::string& graph_name, const std::map<std::string, std::string>& properties);

 private:
  struct Item {  // a node or an initializer
    std::string bytes;
    std::vector<std::string> reads, makes;  // names
    std::shared_ptr<const Tensor> external = nullptr;  // of an initializer without bytes
  };
  struct Scope {
    std::vector<Item> nodes;
    std::set<std::string> made;  // names of values that these nodes compute
  };
  GraphBytes finish(const std::string& stem, const std::vector<std::pair<std::string, DType>>& inputs,
                    const std::vector<DType>& outputs, std::vector<std::string> names, Scope& inner);
  void append(Scope& scope, const std::string& op, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs, const AttributeList& attributes);
  void place_external(ExportedModel& model);
  std::string letter_size(std::size_t letter);  // int64 [1], in the prelude
  template <class Emit>
  std::string in_prelude(const Emit& emit);

  const Inference& inference_;
  const Sizes& sizes_;
  const std::string external_data_;
  const Site* site_ = nullptr;  // of the node that is emitted
  Scope prelude_, main_;  // the prelude computes sizes from the shapes of the inputs
  Scope* scope_ = &main_;
  std::vector<Item> initializers_;
  std::vector<std::string> inputs_, outputs_;  // ValueInfoProto
  std::set<std::string> needed_;               // by the outputs
  std::set<std::string> names_;
  std::map<std::string, std::int64_t> counts_;
  std::map<std::pair<const Tensor*, bool>, std::string> tensors_;  // true: transposed
  std::vector<std::shared_ptr<const Tensor>> kept_;                // keeps addresses unique
  std::map<std::vector<std::int64_t>, std::string> integers_;
  std::map<std::string, std::string> small_;
  std::map<Extent, std::string> extents_;
  std::map<std::vector<Extent>, std::string> shapes_;
  std::map<std::size_t, std::string> letters_;
};

// One node in all builds, for the function that emits its op.
struct Site {
  Emitter& emit;
  const Builds& builds;
  std::int32_t id;
  const std::vector<Operand>& inputs;

  const Node& node() const { return builds[0]->node(id); }
  std::string in(std::size_t k) const { return emit.name(inputs[k]); }
  std::size_t n_inputs() const { return inputs.size(); }
  DType dtype(std::size_t input) const { return builds[0]->type(node().inputs[input]).dtype; }
  int rank(std::size_t input) const { return builds[0]->type(node().inputs[input]).shape.rank(); }
  DType out_dtype(std::size_t output = 0) const { return node().outputs[output].dtype; }
  std::int64_t integer(const std::string& attribute) const;          // the same in all builds
  Extent extent(const std::string& attribute) const;                 // of an integer attribute
  std::vector<Extent> extents(const std::string& attribute) const;   // of an integer-list attribute
  std::vector<Extent> in_shape(std::size_t input) const;
  std::vector<Extent> out_shape(std::size_t output = 0) const;
  Extent fit(const std::vector<std::int64_t>& values) const;
  [[noreturn]] void refuse(const std::string& why) const;  // names the op and the nearest parameter
};

using Emit = std::vector<Operand> (*)(const Site& rng_stream);
struct EmitRow {
  Op op;
  Emit emit;
};
// Returns null if the op has no ONNX form; a composite is then emitted by its definition.
Emit find_emit(Op op);
std::span<const EmitRow> plain_rows();       // emit_plain.cc
std::span<const EmitRow> structured_rows();  // emit_scan.cc
// RNN, GRU and LSTM nodes. Empty if ONNX has no such layer, or a weight is computed.
std::vector<Operand> emit_recurrent(const Site& rng_stream);

}  // namespace unroll::onnx
