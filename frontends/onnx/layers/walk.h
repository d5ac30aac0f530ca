// SPDX-License-Identifier: Apache-2.0
// Follows elements through a model while it is imported. Every element of an input and of a layer's output has an id.
// Nodes that only move elements are computed on ids, so the ids of a value identify its elements and their order. T
// steps, B sequences, I width of the input, H hidden, D directions. Rows of an input [P,Q,...] are numbered p * Q + q;
// the first recurrent layer determines whether P or Q is T.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/onnx/importer.h"
#include "unroll/tasks/sequential.h"

namespace unroll::onnx {

struct FoundParameter {
  std::string name;  // "weight_ih", "bias_hh_reverse", "weight"
  Value value;       // computed from constants only
};
struct FoundLayer {
  SequentialLayer layer = {};
  std::vector<FoundParameter> parameters = {};
  std::string node = {};             // its name in the file
  std::vector<Tensor> initial = {};  // of a recurrent layer: ids [D,B,H] of each state; empty: zeros
  std::vector<Tensor> final = {};    // ids after the last step
};
// Input of the next layer: element e of row r has the id first + r * width + e.
struct Stage {
  std::int32_t first;
  std::int64_t rows, width;
};
// An input of the model: element k has the id first + k.
struct InputBlock {
  std::string name;
  std::int32_t first;
  Type type;
};

class LayerWalk : public NodeObserver {
 public:
  explicit LayerWalk(const Model& model) : model_(model) {}

  void built(Call& call, const OperatorRow& row, std::int32_t first, const std::vector<Value>& outputs) override;

  // True if a value depends on an input of the model.
  bool depends(Value value);
  // Returns the ids of a value; null if it is computed, not moved.
  const Tensor* ids(Value value);
  // Returns the position, from 0, in the current stage of each element of `x`, which must be the complete stage in any
  // order. A pooling (the last step, or the last steps of both directions) becomes a layer first.
  Tensor read(Value x);
  bool is_whole(const Tensor& ids) const;
  bool is_tokens(const Tensor& ids) const;  // true for elements of an integer input
  // Appends a layer whose rows are ordered as in `places`. Returns its stage.
  void append(FoundLayer layer, Value out, const Tensor& places, std::int64_t width);
  // Appends a recurrent layer: y [T,B,D*H] and the states after the last step, [D,B,H] each.
  void append_recurrent(FoundLayer layer, std::span<const Value> outputs);
  void append_pooling(const char* kind, Value out);
  void rename(Value from, Value to) { known_.insert_or_assign(to.id(), *ids(from)); }  // `to` has the same elements
  // True if places [n,m,width] are the rows in order, with time along `time_axis`. Before the first recurrent layer,
  // `decide` chooses the order that matches.
  bool are_steps(const Tensor& places, int time_axis, bool decide = false);
  void expect_constant(Value value, const std::string& what);
  Tensor constant(Value value);  // computes it

  // The found layers.
  std::vector<FoundLayer> layers;
  std::vector<InputBlock> inputs;
  std::optional<Stage> stage;
  int first_input = -1;  // index in `inputs` of the first layer's input
  std::int64_t rows_p = 0, rows_q = 0;
  std::optional<bool> time_first;
  bool is_pooled = false;
  std::map<ValueId, std::string> initializers;  // names

  std::int64_t steps() const { return time_first.value_or(true) ? rows_p : rows_q; }
  std::int64_t batch() const { return time_first.value_or(true) ? rows_q : rows_p; }
  std::int64_t row(std::int64_t t, std::int64_t b) const {
    return time_first.value_or(true) ? t * rows_q + b : b * rows_q + t;
  }
  std::string place = {};  // for messages: an output, if no node is known
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::int32_t new_ids(std::int64_t n);
  void begin(const Tensor& ids);
  bool follow_tokens(Call& call, const std::vector<Value>& outputs);
  bool find_pooling(Value x, const Tensor& ids);
  Tensor moved(Value value);

  const Model& model_;
  const Call* call_ = nullptr;
  std::vector<char> depends_;        // by node
  std::map<ValueId, Tensor> known_;  // ids
  std::int64_t next_id_ = 0;
  std::int64_t computed_ = 0;  // elements of constants so far
  std::unique_ptr<Backend> reference_;
};

// Appends the layer of an operator (layer_nodes.cc). Null: the operator makes no layer.
using LayerBuilder = void (*)(LayerWalk& walk, Call& call, std::int32_t first, const std::vector<Value>& outputs);
LayerBuilder find_layer(std::string_view op);

}  // namespace unroll::onnx
