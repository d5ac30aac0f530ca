// SPDX-License-Identifier: Apache-2.0
// Follows elements through a model while it is imported. Every element of an input and of a layer's output has an id,
// and whatever only moves elements is computed on ids: so the ids of a value say which elements it holds, and in which
// order. T steps, B sequences, I width of the input, H hidden, D directions. Rows of an input [P,Q,...] are numbered
// p * Q + q; the first recurrent layer shows which of P and Q is T.
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
  Value value;       // computed from constants alone
};
struct FoundLayer {
  SequentialLayer layer = {};
  std::vector<FoundParameter> parameters = {};
  std::string node = {};             // its name in the file
  std::vector<Tensor> initial = {};  // of a recurrent layer: ids [D,B,H] of each state; without elements: zeros
  std::vector<Tensor> final = {};    // and ids after the last step
};
// What the next layer reads: element e of row r has the id first + r * width + e.
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

  // Whether a value depends on an input of the model.
  bool depends(Value value);
  // The ids of a value; null if it is computed, not moved.
  const Tensor* ids(Value value);
  // The place, from 0, in the current stage of each element of `x`, which must be the whole stage in any order. A
  // pooling (the last step, or the ends of both directions) becomes a layer first.
  Tensor read(Value x);
  bool is_whole(const Tensor& ids) const;
  bool is_tokens(const Tensor& ids) const;  // elements of an input of integers
  // A layer whose rows stand like those of `places`. Returns its stage.
  void append(FoundLayer layer, Value out, const Tensor& places, std::int64_t width);
  // A recurrent layer: y [T,B,D*H] and the states after the last step, [D,B,H] each.
  void append_recurrent(FoundLayer layer, std::span<const Value> outputs);
  void append_pooling(const char* kind, Value out);
  void rename(Value from, Value to) { known_.insert_or_assign(to.id(), *ids(from)); }  // `to` holds the same elements
  // Whether places [n,m,width] are the rows in order, with time along `time_axis`. Without a recurrent layer before,
  // `decide` takes the order that fits.
  bool are_steps(const Tensor& places, int time_axis, bool decide = false);
  void expect_constant(Value value, const std::string& what);
  Tensor constant(Value value);  // computes it

  // What was found.
  std::vector<FoundLayer> layers;
  std::vector<InputBlock> inputs;
  std::optional<Stage> stage;
  int first_input = -1;  // the place in `inputs` of what the first layer reads
  std::int64_t rows_p = 0, rows_q = 0;
  std::optional<bool> time_first;
  bool is_pooled = false;
  std::map<ValueId, std::string> initializers;  // their names

  std::int64_t steps() const { return time_first.value_or(true) ? rows_p : rows_q; }
  std::int64_t batch() const { return time_first.value_or(true) ? rows_q : rows_p; }
  std::int64_t row(std::int64_t t, std::int64_t b) const {
    return time_first.value_or(true) ? t * rows_q + b : b * rows_q + t;
  }
  std::string place = {};  // for messages: an output, when no node is at hand
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

// layer_nodes.cc: the layer of an operator, appended to the walk. Null: the operator makes no layer.
using LayerBuilder = void (*)(LayerWalk& walk, Call& call, std::int32_t first, const std::vector<Value>& outputs);
LayerBuilder find_layer(std::string_view op);

}  // namespace unroll::onnx
