// SPDX-License-Identifier: Apache-2.0
// The pointer-generator network of the summarize task against PyTorch: loss, metrics and every gradient.
#include <cmath>

#include "tests/golden/golden_file.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/passes/run.h"
#include "unroll/tasks/tasks.h"

namespace unroll {
namespace {

// A task with as many words as the golden network: with the unknown token and the end these are `tokens`.
std::shared_ptr<const PairTask> task_of(const nlohmann::json& s) {
  SummarizeOptions o;
  o.model.cell = s.at("cell");
  o.model.hidden = s.at("hidden");
  o.model.layers = s.at("layers");
  o.model.bidirectional = s.at("bidirectional");
  o.embedding = s.at("embedding");
  o.pointer = s.at("pointer");
  o.coverage = s.at("coverage");
  o.coverage_weight = s.at("weight");
  o.tied = s.at("tied");
  o.shared_embedding = s.at("shared");
  o.chunk = s.at("chunk");
  o.label_smoothing = s.at("smoothing");
  o.min_count = 1;
  o.validation = o.test = 0;
  std::string words = "w";
  for (std::int64_t i = 3; i < s.at("tokens").get<std::int64_t>(); ++i)
    words += " w" + std::string(1, static_cast<char>('a' + i));
  return make_summarize(o, words + "\t" + "w\n", "golden");
}

struct Computed {
  TensorMap values;
  std::map<std::string, double> metrics;
};

Computed run_batch(const GoldenCase& golden, Backend& backend) {
  const auto task = task_of(golden.settings);
  Batch batch;
  for (const char* name : {"source", "lengths", "copies", "before", "labels"})
    if (golden.has(name)) batch.inputs.emplace(name, golden.tensors.at(name));
  Graph graph;
  Scope scope(graph, /*training=*/true);
  const TaskGraph t = task->build(scope, batch);
  TensorMap feed = batch.inputs;
  std::vector<Value> parameters;
  for (const ParameterSpec& p : scope.parameters()) {
    INFO(golden.name << ": " << p.name);
    REQUIRE(golden.has("p." + p.name));
    feed.emplace(p.name, golden.tensors.at("p." + p.name));
    parameters.push_back(graph.find_input(p.name));
  }
  const std::vector<Value> gradients = differentiate(t.loss, parameters);
  graph.output("loss", t.loss);
  for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("d." + scope.parameters()[i].name, gradients[i]);
  for (const MetricValue& m : t.metrics) {
    graph.output("total." + m.name, m.total);
    graph.output("count." + m.name, m.count);
  }
  Computed r{evaluate(graph, backend, feed), {}};
  for (const MetricValue& m : t.metrics) {
    const double mean = r.values.at("total." + m.name).at(0) / r.values.at("count." + m.name).at(0);
    r.metrics[m.name] = m.form == MetricForm::exponential ? std::exp(mean) : mean;
  }
  return r;
}

}  // namespace

TEST_CASE("the summarizer's loss, metrics and gradients are those of PyTorch") {
  double worst = 0;
  for (const std::string& name : golden_backends()) {
    const auto backend = make_backend(name);
    for (const GoldenCase& golden : load_goldens("summarizer.safetensors")) {
      const Comparison compare{golden, name, worst};
      const Computed r = run_batch(golden, *backend);
      compare("loss", r.values.at("loss"), k_forward_tolerance);
      for (const auto& [metric, value] : r.metrics)
        compare(metric, Tensor::scalar(DType::f32, value), k_forward_tolerance);
      CHECK(r.metrics.contains("p_gen") == golden.settings.at("pointer").get<bool>());
      CHECK(r.metrics.contains("coverage_loss") == golden.settings.at("coverage").get<bool>());
      for (const auto& tensor : golden.tensors) {
        const std::string& key = tensor.first;
        if (key.starts_with("d.")) {
          INFO(golden.name << ": " << key);
          REQUIRE(r.values.contains(key));
          compare(key, r.values.at(key), k_gradient_tolerance);
        }
      }
    }
  }
  MESSAGE("largest relative error: " << worst);
}

}  // namespace unroll
