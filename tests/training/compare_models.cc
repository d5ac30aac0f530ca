// SPDX-License-Identifier: Apache-2.0
#include "tests/training/compare_models.h"

#include <algorithm>

#include "core/support/philox.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"

namespace unroll::testing {

namespace {

constexpr std::int64_t T = 6, B = 5, I = 7, H = 9, V = 11, K = 4;

Type f32(Shape shape) { return {DType::f32, std::move(shape)}; }
Type i32(Shape shape) { return {DType::i32, std::move(shape)}; }

// Inputs "x" f32, and by their names "lengths", "labels", "ids", "target"; uniform.
using Build = std::function<TaskGraph(Scope&, const Batch&)>;
class RandomTask final : public Task {
 public:
  RandomTask(std::map<std::string, Type> inputs, Build build) : inputs_(std::move(inputs)), build_(std::move(build)) {}
  TaskGraph build(Scope& scope, const Batch& like) const override { return build_(scope, like); }
  std::int64_t n_batches(Split) const override { return 1000; }
  Batch batch(Split, std::uint64_t seed, std::int64_t, std::int64_t index) const override {
    std::vector<ParameterSpec> specs;
    for (const auto& [name, type] : inputs_)
      specs.push_back({name, {DType::f32, type.shape}, Initializer::uniform(1)});
    Batch batch{initialize(specs, seed * 1000 + static_cast<std::uint64_t>(index) + 1), false};
    for (const auto& [name, type] : inputs_) {
      Tensor& tensor = batch.inputs.at(name);
      if (type.dtype == DType::f32) continue;
      const std::int64_t most = name == "lengths" ? T + 1 : name == "ids" ? V : K;
      Tensor whole(type);
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        whole.set(i, std::min(static_cast<double>(most - 1), (tensor.at(i) + 1) / 2 * static_cast<double>(most)));
      tensor = std::move(whole);
    }
    return batch;
  }

 private:
  std::map<std::string, Type> inputs_;
  Build build_;
};

struct Inputs {
  Inputs(Scope& s, const Batch& like) : scope(s) {
    for (const auto& [name, tensor] : like.inputs) values[name] = scope.graph().input(name, tensor.type());
  }
  Value operator[](const std::string& name) const {
    const auto at = values.find(name);
    return at == values.end() ? Value() : at->second;
  }
  Scope& scope;
  std::map<std::string, Value> values;
};

using Loss = Value (*)(Value prediction, const Inputs& in);
Value mse_loss(Value y, const Inputs& in) { return mean(mse(y, in["target"])); }
Value mae_loss(Value y, const Inputs& in) { return mean(mae(y, in["target"])); }
Value huber_loss(Value y, const Inputs& in) { return mean(huber(y, in["target"], 0.25)); }
Value bce_loss(Value y, const Inputs& in) { return mean(bce(y, in["target"] * 0.5 + 0.5)); }
Value cross_entropy(Value y, const Inputs& in) { return mean(softmax_cross_entropy(y, in["labels"])); }

// Recurrent layers over x, a linear layer, a loss of every step; "y" and the states are compared as well.
std::shared_ptr<const Task> layers(RecurrentModelOptions model, Loss loss, bool lengths = false) {
  model.hidden = H;
  std::map<std::string, Type> inputs{{"x", f32({T, B, I})}};
  if (lengths) inputs.emplace("lengths", i32({B}));
  if (loss == cross_entropy) inputs.emplace("labels", i32({T, B}));
  else inputs.emplace("target", f32({T, B, K}));
  return std::make_shared<RandomTask>(inputs, [model, loss](Scope& scope, const Batch& like) {
    const Inputs in(scope, like);
    const CellLayerResult r = recurrent_model(scope.child("rnn"), in["x"], model, {}, in["lengths"]);
    TaskGraph t;
    t.loss = loss(linear_layer(scope.child("out"), r.y, K), in);
    t.outputs = {{"y", r.y}};
    for (std::size_t i = 0; i < r.states.size(); ++i) t.outputs.emplace_back("last" + std::to_string(i), r.states[i]);
    return t;
  });
}

// [T,B,W] to [B,T,W]
Value by_rows(Value x) { return transpose(x, {1, 0, 2}); }

std::shared_ptr<const Task> attending(bool additive) {
  return std::make_shared<RandomTask>(
      std::map<std::string, Type>{{"ids", i32({T, B})}, {"labels", i32({B, T})}},
      [additive](Scope& scope, const Batch& like) {
        const Inputs in(scope, like);
        const Value x = embedding_layer(scope.child("embedding"), in["ids"], V, I);
        const RecurrentModelOptions model{.cell = "gru", .hidden = H};
        const Value memory = by_rows(recurrent_model(scope.child("encoder"), x, model).y);
        const Value query = by_rows(recurrent_model(scope.child("decoder"), x, model).y);
        const auto weight = [&](const char* name, Shape shape) {
          return scope.parameter(name, std::move(shape), Initializer::xavier_uniform());
        };
        const AttentionResult a =
            additive ? additive_attention(query, memory, memory, weight("w_q", {K, H}), weight("w_k", {K, H}),
                                          scope.parameter("v_a", {K}, Initializer::uniform(1)))
                     : dot_attention(query, memory, memory);
        TaskGraph t;
        t.loss = cross_entropy(linear_layer(scope.child("out"), a.y, K), in);
        t.outputs = {{"weights", a.weights}};
        return t;
      });
}

std::shared_ptr<const Task> labeling_crf() {
  return std::make_shared<RandomTask>(
      std::map<std::string, Type>{{"x", f32({T, B, I})}, {"labels", i32({T, B})}, {"lengths", i32({B})}},
      [](Scope& scope, const Batch& like) {
        const Inputs in(scope, like);
        const RecurrentModelOptions model{.cell = "gru", .hidden = H, .bidirectional = true};
        const CellLayerResult r = recurrent_model(scope.child("rnn"), in["x"], model, {}, in["lengths"]);
        TaskGraph t;
        t.loss = mean(crf_loss(crf_parameters(scope.child("crf"), K), linear_layer(scope.child("out"), r.y, K),
                               in["labels"], in["lengths"]));
        return t;
      });
}

const TextCell k_text_cell{.name = "mine",
                           .states = {"h"},
                           .step = "f  = sigmoid(affine(x, h))\n"
                                   "n  = tanh(affine(x, f * h))\n"
                                   "h' = (1 - f) * h + f * n\n"};

}  // namespace

std::vector<ComparedModel> compare_models() {
  return {
      {"rnn, mean squared error", layers({.cell = "rnn"}, mse_loss)},
      {"gru of two layers with dropout, mean absolute error",
       layers({.cell = "gru", .layers = 2, .dropout = 0.25}, mae_loss)},
      {"lstm, huber loss", layers({.cell = "lstm"}, huber_loss)},
      {"lstm in both directions, binary cross-entropy", layers({.cell = "lstm", .bidirectional = true}, bce_loss)},
      {"lstm with lengths, cross-entropy", layers({.cell = "lstm"}, cross_entropy, true)},
      {"gru in both directions with lengths",
       layers({.cell = "gru", .bidirectional = true, .reset_after = false}, mse_loss, true)},
      {"lstm with peepholes and projection", layers({.cell = "lstm", .projection = 5, .peephole = true}, mse_loss)},
      {"a cell of text in two residual layers",
       layers({.cell = "mine", .layers = 2, .skip = SkipConnection::residual, .cells = {k_text_cell}}, mse_loss)},
      {"layer-norm lstm, cross-entropy", layers({.cell = "lnlstm"}, cross_entropy)},
      {"encoder and decoder with dot attention", attending(false)},
      {"encoder and decoder with additive attention", attending(true)},
      {"labels by a conditional random field", labeling_crf()},
  };
}

}  // namespace unroll::testing
