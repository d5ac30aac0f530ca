// SPDX-License-Identifier: Apache-2.0
// Graphs of recurrent layers, programs whose buffers stay, and the counters of the library that stands in for cuDNN:
// what the tests of its claims share.
#pragma once

#include <doctest/doctest.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/library/cudnn.h"
#include "tests/support/text.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::cuda_layers {

using testing::contains;

template <class T>
T* in_library(const char* symbol) {
  void* const library = dlopen(cuda::dnn_libraries().names[0], RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<T*>(dlsym(library, symbol)) : nullptr;
}
inline int forward_calls() { return *in_library<int>("unroll_shim_dnn_forward"); }
inline int gradient_calls() { return *in_library<int>("unroll_shim_dnn_gradients"); }
inline std::size_t objects() { return in_library<std::size_t()>("unroll_shim_dnn_objects")(); }
inline bool has_shim() {
  if (in_library<int>("unroll_shim_dnn_forward")) return true;
  std::printf("skipped: without the library of the tests\n");
  return false;
}

struct Sizes {
  std::int64_t T = 5, B = 3, I = 4, H = 6;
};
struct Layer {
  Op cell = Op::lstm;
  RecurrentOptions options = {};
  Sizes sizes = {};
  DType dtype = DType::f32;
  bool lengths = false;
};

inline RecurrentResult add_layer(Graph& g, const Layer& layer, std::vector<Value>& wrt) {
  RecurrentOptions o = layer.options;
  const Sizes& s = layer.sizes;
  o.hidden = s.H;
  const std::int64_t gates = layer.cell == Op::lstm ? 4 : layer.cell == Op::gru ? 3 : 1, D = o.bidirectional ? 2 : 1;
  const std::int64_t P = o.projection > 0 ? o.projection : s.H;
  const auto input = [&](const std::string& name, Shape shape) {
    wrt.push_back(g.input(name, {layer.dtype, std::move(shape)}));
    return wrt.back();
  };
  RecurrentInputs in;
  in.x = input("x", {s.T, s.B, s.I});
  in.h0 = input("h0", {o.layers * D, s.B, P});
  if (layer.cell == Op::lstm) in.c0 = input("c0", {o.layers * D, s.B, s.H});
  if (layer.lengths) in.lengths = g.input("lengths", {DType::i32, {s.B}});
  if (o.dropout > 0) in.key = g.input("key", {DType::i32, {3}});
  for (std::int64_t l = 0; l < o.layers * D; ++l) {
    const auto parameter = [&](const char* name, Shape shape) {
      in.parameters.push_back(input(name + std::to_string(l), std::move(shape)));
    };
    parameter("weight_ih", {gates * s.H, l < D ? s.I : D * P});
    parameter("weight_hh", {gates * s.H, P});
    if (o.bias) parameter("bias_ih", {gates * s.H}), parameter("bias_hh", {gates * s.H});
    if (o.projection > 0) parameter("weight_hr", {P, s.H});
    for (const char* name : {"weight_ci", "weight_cf", "weight_co"})
      if (o.peephole) parameter(name, {s.H});
  }
  return recurrent(layer.cell, in, o);
}

// Values, and the gradient of a sum of all of them by everything.
inline std::shared_ptr<Graph> graph_of(const Layer& layer, bool gradient) {
  auto g = std::make_shared<Graph>();
  std::vector<Value> wrt;
  const RecurrentResult r = add_layer(*g, layer, wrt);
  std::vector<Value> of{r.y, r.hn};
  if (r.cn) of.push_back(r.cn);
  const char* const names[] = {"y", "hn", "cn"};
  for (std::size_t k = 0; k < of.size(); ++k) g->output(names[k], of[k]);
  if (!gradient) return g;
  std::vector<Value> cotangents;
  for (std::size_t k = 0; k < of.size(); ++k)
    cotangents.push_back(g->input(std::string("of_") + names[k], of[k].type()));
  const std::vector<Value> d = differentiate(of, cotangents, wrt);
  for (std::size_t k = 0; k < d.size(); ++k) g->output("d" + std::to_string(k), d[k]);
  return g;
}

inline TensorMap numbers_for(const Graph& graph) {
  TensorMap inputs;
  int seed = 0;
  for (const NamedValue& input : graph.inputs()) {
    Tensor t(graph.type(input.value));
    ++seed;
    for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>((i * 37 + seed * 11) % 23 - 11) / 25);
    inputs.emplace(input.name, t);
  }
  return inputs;
}

// The largest difference, of the largest number of a result.
inline double difference(const TensorMap& got, const TensorMap& expected) {
  double worst = 0;
  for (const auto& result : expected) {
    const Tensor &a = got.at(result.first), &b = result.second;
    double most = 0, far = 0;
    for (std::int64_t i = 0; i < b.elements(); ++i) {
      most = std::max(most, std::abs(b.at(i)));
      far = std::max(far, a.at(i) == a.at(i) ? std::abs(a.at(i) - b.at(i)) : 1e9);
    }
    worst = std::max(worst, far / std::max(most, 1e-9));
  }
  return worst;
}

// A program whose buffers stay, so that its second run is captured.
class Bound {
 public:
  Bound(const Graph& graph, Backend& backend, const PlanOptions& options, const TensorMap& inputs)
      : backend_(backend), plan_(plan(graph, backend, options)), executable_(backend.compile(plan_)) {
    for (const NamedValue& input : plan_->graph->inputs()) {
      const Tensor& tensor = inputs.at(input.name);
      held_.push_back(backend.allocate(tensor.bytes().size()));
      backend.upload(*held_.back(), 0, tensor.bytes());
      bindings_.inputs.push_back(held_.back().get());
    }
    for (const NamedValue& output : plan_->graph->outputs()) {
      held_.push_back(backend.allocate(plan_->graph->type(output.value).bytes()));
      bindings_.outputs.push_back(held_.back().get());
    }
  }
  // Other numbers in the same buffers.
  void set(const TensorMap& inputs) {
    for (std::size_t k = 0; k < bindings_.inputs.size(); ++k)
      backend_.upload(*held_[k], 0, inputs.at(plan_->graph->inputs()[k].name).bytes());
  }
  TensorMap run() {
    executable_->run(bindings_);
    TensorMap results;
    for (std::size_t k = 0; k < bindings_.outputs.size(); ++k) {
      const NamedValue& output = plan_->graph->outputs()[k];
      Tensor tensor(plan_->graph->type(output.value));
      backend_.download(*bindings_.outputs[k], 0, tensor.bytes());
      results.emplace(output.name, std::move(tensor));
    }
    return results;
  }
  std::string report() const {
    std::string text;
    for (const ReportLine& line : executable_->report()) text += line.implementation + "\n";
    return text;
  }

 private:
  Backend& backend_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::unique_ptr<Buffer>> held_;
  Bindings bindings_;
};

}  // namespace unroll::cuda_layers
