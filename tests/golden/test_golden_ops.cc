// SPDX-License-Identifier: Apache-2.0
// Losses, layer norm, embedding, multi-head attention and optimizers against PyTorch.
#include <functional>

#include "tests/golden/golden_file.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll {
namespace {

struct OpRow {
  const char* op;
  std::vector<std::string> inputs;  // [mask] at the end only where the case has one
  std::vector<std::string> outputs;
  std::function<std::vector<Value>(const std::vector<Value>&, const nlohmann::json&)> build;
};
using In = const std::vector<Value>&;
using Settings = const nlohmann::json&;

const std::vector<OpRow>& rows() {
  static const std::vector<OpRow> k_rows{
      {"mse", {"prediction", "target"}, {"y"}, [](In v, Settings) { return std::vector{mse(v[0], v[1])}; }},
      {"mae", {"prediction", "target"}, {"y"}, [](In v, Settings) { return std::vector{mae(v[0], v[1])}; }},
      {"huber",
       {"prediction", "target"},
       {"y"},
       [](In v, Settings s) { return std::vector{huber(v[0], v[1], s.at("delta"))}; }},
      {"bce", {"prediction", "target"}, {"y"}, [](In v, Settings) { return std::vector{bce(v[0], v[1])}; }},
      {"softmax_cross_entropy",
       {"logits", "labels"},
       {"y"},
       [](In v, Settings) { return std::vector{softmax_cross_entropy(v[0], v[1])}; }},
      {"layer_norm",
       {"x", "weight", "bias"},
       {"y"},
       [](In v, Settings s) { return std::vector{layer_norm(v[0], v[1], v[2], s.at("epsilon"))}; }},
      {"embedding", {"table", "ids"}, {"y"}, [](In v, Settings) { return std::vector{embedding(v[0], v[1])}; }},
      {"multi_head_attention",
       {"q", "k", "v", "in_weight", "in_bias", "out_weight", "out_bias", "mask"},
       {"y", "weights"},
       [](In v, Settings s) {
         const auto r = multi_head_attention(v[0], v[1], v[2], v[3], v[4], v[5], v[6], s.at("heads"),
                                             v.size() > 7 ? v[7] : Value());
         return std::vector{r.y, r.weights};
       }},
  };
  return k_rows;
}

void check_op(const OpRow& row, const GoldenCase& golden, Backend& backend, const Comparison& compare) {
  Graph graph;
  TensorMap feed;
  const auto input = [&](const std::string& name) {
    feed.emplace(name, golden.tensors.at(name));
    return graph.input(name, golden.tensors.at(name).type());
  };
  std::vector<Value> in, wrt, cotangents;
  std::vector<std::string> gradients;
  for (const std::string& name : row.inputs) {
    if (!golden.has(name)) continue;
    in.push_back(input(name));
    if (!is_float(in.back().dtype())) continue;
    wrt.push_back(in.back());
    gradients.push_back("d_" + name);
  }
  const auto outputs = row.build(in, golden.settings);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    cotangents.push_back(input("d_" + row.outputs[i]));
    graph.output(row.outputs[i], outputs[i]);
  }
  const auto d = differentiate(outputs, cotangents, wrt);
  for (std::size_t i = 0; i < d.size(); ++i) graph.output(gradients[i], d[i]);

  const TensorMap got = evaluate(graph, backend, feed);
  for (const std::string& name : row.outputs) compare(name, got.at(name), k_forward_tolerance);
  for (const std::string& name : gradients) compare(name, got.at(name), k_gradient_tolerance);
}

// Inputs after the parameter and the gradient; a name other than lr and update is a slot that starts at zero.
struct OptimizerRow {
  const char* op;
  std::vector<std::string> inputs;
  const char* momentum;  // slot that is there only with momentum
  std::vector<const char*> numbers;
  std::vector<const char*> switches;
};
const std::vector<OptimizerRow>& optimizers() {
  static const std::vector<OptimizerRow> k_rows{
      {"sgd", {"lr", "m"}, "m", {"momentum", "weight_decay"}, {"nesterov"}},
      {"adam", {"m", "v", "lr", "update"}, "", {"beta1", "beta2", "epsilon", "weight_decay"}, {"decoupled"}},
      {"rmsprop", {"v", "lr", "m"}, "m", {"alpha", "epsilon", "momentum", "weight_decay"}, {}},
      {"adagrad", {"s", "lr"}, "", {"epsilon", "weight_decay"}, {}},
  };
  return k_rows;
}

void check_optimizer(const OptimizerRow& row, const GoldenCase& golden, Backend& backend, const Comparison& compare) {
  const Tensor& gradients = golden.tensors.at("gradients");
  Graph graph;
  TensorMap feed{{"p", golden.tensors.at("parameter")},
                 {"lr", Tensor::scalar(DType::f32, golden.settings.at("lr"))},
                 {"update", Tensor::scalar(DType::i32, 0)}};
  const Type type = feed.at("p").type();
  feed.emplace("g", Tensor(type));
  std::vector<Value> in{graph.input("p", type), graph.input("g", type)};
  std::vector<std::string> names{"p"};
  for (const std::string& name : row.inputs) {
    if (name == row.momentum && golden.settings.at("momentum") == 0) continue;
    if (name != "lr" && name != "update") {
      feed.emplace(name, Tensor(type));
      names.push_back(name);
    }
    in.push_back(graph.input(name, feed.at(name).type()));
  }
  Attributes attributes;
  for (const char* name : row.numbers) attributes.set(name, golden.settings.at(name).get<double>());
  for (const char* name : row.switches) attributes.set(name, golden.settings.at(name).get<bool>());
  const auto next = graph.append(find_op(row.op)->op, in, attributes);
  for (std::size_t i = 0; i < names.size(); ++i) graph.output(names[i], next[i]);
  for (const char* name : {"lr", "update"})
    if (!graph.find_input(name)) feed.erase(name);

  Program program(graph, backend);
  Tensor trail(DType::f32, gradients.shape());
  const std::int64_t n = type.shape.elements();
  for (std::int64_t update = 0; update < gradients.shape()[0]; ++update) {
    for (std::int64_t i = 0; i < n; ++i) feed.at("g").set(i, gradients.at(update * n + i));
    if (feed.contains("update")) feed.at("update").set(0, static_cast<double>(update + 1));
    for (auto& [name, tensor] : program.run(feed)) feed.insert_or_assign(name, std::move(tensor));
    for (std::int64_t i = 0; i < n; ++i) trail.set(update * n + i, feed.at("p").at(i));
  }
  compare("parameters", trail, k_update_tolerance);
}

TEST_CASE("losses, layers and optimizers agree with PyTorch") {
  const auto cases = load_goldens("ops.safetensors");
  for (const std::string& name : golden_backends()) {
    const auto backend = make_backend(name);
    double worst = 0;
    std::size_t n_run = 0;
    for (const GoldenCase& golden : cases) {
      const std::string op = golden.settings.at("op");
      for (const OpRow& row : rows())
        if (row.op == op) check_op(row, golden, *backend, {golden, name, worst}), ++n_run;
      for (const OptimizerRow& row : optimizers())
        if (row.op == op) check_optimizer(row, golden, *backend, {golden, name, worst}), ++n_run;
    }
    CHECK(n_run == cases.size());
    MESSAGE(name << ": " << n_run << " cases, worst relative L2 " << worst);
  }
}

}  // namespace
}  // namespace unroll
