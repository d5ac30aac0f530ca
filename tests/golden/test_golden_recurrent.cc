// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM against PyTorch: outputs, final states, every gradient, and ten Adam updates.
#include "tests/golden/golden_file.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll {
namespace {

struct Setup {
  Op cell;
  RecurrentOptions options;
  std::vector<std::string> parameters;  // in the order of RecurrentInputs, PyTorch's names
};

Setup setup_of(const nlohmann::json& s) {
  Setup setup;
  const std::string cell = s.at("cell");
  setup.cell = find_op(cell)->op;
  setup.options.hidden = s.at("hidden");
  setup.options.layers = s.at("layers");
  setup.options.bidirectional = s.at("bidirectional");
  setup.options.projection = s.at("projection");
  setup.options.relu = s.at("nonlinearity") == "relu";
  for (int layer = 0; layer < setup.options.layers; ++layer)
    for (const std::string end : {"", "_reverse"}) {
      if (!end.empty() && !setup.options.bidirectional) continue;
      for (const std::string name : {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l", "weight_hr_l"})
        if (name != "weight_hr_l" || setup.options.projection > 0)
          setup.parameters.push_back(name + std::to_string(layer) + end);
    }
  return setup;
}

// The layer of a case in a graph, and the tensors that feed it.
struct Layer {
  const GoldenCase& golden;
  Setup setup;
  Graph& graph;
  TensorMap feed;
  RecurrentInputs in;
  RecurrentResult out;

  Layer(const GoldenCase& c, Graph& g) : golden(c), setup(setup_of(c.settings)), graph(g) {
    in.x = input("x");
    in.h0 = input("h0");
    if (c.has("c0")) in.c0 = input("c0");
    if (c.has("lengths")) in.lengths = input("lengths");
    for (const std::string& name : setup.parameters) in.parameters.push_back(input("param." + name));
    out = recurrent(setup.cell, in, setup.options);
  }
  Value input(const std::string& name) {
    const Tensor& tensor = golden.tensors.at(name);
    feed.emplace(name, tensor);
    return graph.input(name, tensor.type());
  }
};

void check_values_and_gradients(const GoldenCase& golden, Backend& backend, const Comparison& compare) {
  Graph graph;
  Layer layer(golden, graph);
  std::vector<Value> outputs{layer.out.y, layer.out.hn}, cotangents{layer.input("d_y"), layer.input("d_hn")};
  std::vector<Value> wrt{layer.in.x, layer.in.h0};
  std::vector<std::string> gradients{"d_x", "d_h0"}, values{"y", "hn"};
  if (layer.in.c0) {
    outputs.push_back(layer.out.cn);
    cotangents.push_back(layer.input("d_cn"));
    values.push_back("cn");
    wrt.push_back(layer.in.c0);
    gradients.push_back("d_c0");
  }
  for (std::size_t i = 0; i < layer.setup.parameters.size(); ++i) {
    wrt.push_back(layer.in.parameters[i]);
    gradients.push_back("d_param." + layer.setup.parameters[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) graph.output(values[i], outputs[i]);
  const auto d = differentiate(outputs, cotangents, wrt);
  for (std::size_t i = 0; i < d.size(); ++i) graph.output(gradients[i], d[i]);

  const TensorMap got = evaluate(graph, backend, layer.feed);
  for (const auto& name : values) compare(name, got.at(name), k_forward_tolerance);
  for (const auto& name : gradients) compare(name, got.at(name), k_gradient_tolerance);
}

void check_ten_updates(const GoldenCase& golden, Backend& backend, const Comparison& compare) {
  Graph graph;
  Layer layer(golden, graph);
  const Value loss = sum(layer.out.y * layer.input("d_y"));
  const auto d = differentiate(loss, layer.in.parameters);
  const Value lr = scalar_like(loss, 1e-2), update = graph.input("update", {DType::i32, Shape{}});
  const Attributes attributes{
      {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.0}, {"decoupled", false}};
  graph.output("loss", loss);
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::string& name = layer.setup.parameters[i];
    const Type type = d[i].type();
    for (const std::string slot : {"m.", "v."}) layer.feed.emplace(slot + name, Tensor(type));
    const Value inputs[] = {layer.in.parameters[i],         d[i], graph.input("m." + name, type),
                            graph.input("v." + name, type), lr,   update};
    const auto next = graph.append(Op::adam, inputs, attributes);
    graph.output("param." + name, next[0]);
    graph.output("m." + name, next[1]);
    graph.output("v." + name, next[2]);
  }

  Program program(graph, backend);
  Tensor losses(DType::f32, golden.tensors.at("loss").shape());
  for (std::int64_t i = 0; i < losses.elements(); ++i) {
    layer.feed.insert_or_assign("update", Tensor::scalar(DType::i32, static_cast<double>(i + 1)));
    for (auto& [name, tensor] : program.run(layer.feed)) {
      if (name == "loss") losses.set(i, tensor.at(0));
      else layer.feed.insert_or_assign(name, std::move(tensor));
    }
  }
  compare("loss", losses, k_update_tolerance);
  for (const std::string& name : layer.setup.parameters)
    compare("adam." + name, layer.feed.at("param." + name), k_update_tolerance);
}

TEST_CASE("recurrent layers agree with PyTorch in outputs, states, gradients and ten Adam updates") {
  const auto cases = load_goldens("recurrent.safetensors");
  for (const std::string& name : golden_backends()) {
    const auto backend = make_backend(name);
    double worst = 0, worst_update = 0;
    for (const GoldenCase& golden : cases) {
      check_values_and_gradients(golden, *backend, {golden, name, worst});
      check_ten_updates(golden, *backend, {golden, name, worst_update});
    }
    MESSAGE(name << ": " << cases.size() << " cases, worst relative L2 " << worst << ", after ten updates "
                 << worst_update);
  }
}

}  // namespace
}  // namespace unroll
