// SPDX-License-Identifier: Apache-2.0
#include "core/train/verify/node_verifier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/support/text/exact_text.h"
#include "core/train/device/node_words.h"
#include "core/train/verify/agreement.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

std::string nth(const char* what, std::size_t k) { return what + std::to_string(k); }

Tensor widened(const Tensor& tensor) { return tensor.dtype() == DType::f32 ? tensor.cast(DType::f64) : tensor; }

std::vector<Value> input_operands(Graph& graph, const std::vector<Tensor>& operands, bool wide) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const DType d = operands[i].dtype();
    values.push_back(graph.input(nth("operand", i), {wide && d == DType::f32 ? DType::f64 : d, operands[i].shape()}));
  }
  return values;
}

// That a claimed node computes in.
Precision precision_of(const Node& node) {
  if (node.attributes.get_or<bool>("tf32", false)) return Precision::tf32;
  const DType format = node.attributes.get_or<DType>("format", DType::f32);
  return format == DType::bf16 ? Precision::bf16 : format == DType::f16 ? Precision::f16 : Precision::f32;
}

NodeVerifier::Verdict verify_elements(const Tensor& got, const Tensor& wanted, const Tensor* bound, std::int64_t n) {
  NodeVerifier::Verdict verdict;
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = got.at(i), exact = wanted.at(i);
    const double b = got.dtype() == DType::f32 ? static_cast<double>(static_cast<float>(exact)) : exact;
    if (a == b || (a != a && b != b)) continue;
    const double allowed = bound ? bound->at(i) : 0;
    if (allowed != allowed) continue;  // of infinities nothing can be said
    double ratio = allowed > 0 ? std::abs(a - exact) / allowed : std::numeric_limits<double>::infinity();
    if (ratio != ratio) ratio = std::isinf(allowed) ? 0 : std::numeric_limits<double>::infinity();
    if (ratio <= verdict.ratio) continue;
    verdict = {ratio, " is " + short_text(a, 9) + element_words(got.type(), i) + "; expected " + short_text(exact, 9) +
                          " for these operands, tolerance " + short_text(allowed, 2)};
  }
  return verdict;
}

}  // namespace

std::shared_ptr<const Graph> node_alone(const Node& node, const std::vector<Tensor>& operands) {
  auto graph = std::make_shared<Graph>();
  const std::vector<Value> values = input_operands(*graph, operands, /*wide=*/false);
  const std::vector<Value> results = graph->append(node.op, values, unclaimed(node), node.body);
  for (std::size_t k = 0; k < results.size(); ++k) graph->output(nth("result", k), results[k]);
  return graph;
}

NodeVerifier::Programs& NodeVerifier::programs(const std::string& name, const Node& node,
                                         const std::vector<Tensor>& operands) {
  Programs& p = programs_[name];
  if (p.wide) return p;
  Graph graph;
  const std::vector<Value> values = input_operands(graph, operands, /*wide=*/true);
  const std::vector<Bounded> results = append_bounded(graph, node, values, flushes_);
  for (std::size_t k = 0; k < results.size(); ++k) {
    graph.output(nth("result", k), results[k].value);
    if (results[k].bound) graph.output(nth("bound", k), broadcast(results[k].bound, results[k].value.shape()));
  }
  const PlanOptions plain{.without = pass_names()};
  p.wide = std::make_unique<Program>(graph, verifier_, plain);
  if (is_whole(node)) p.narrow = std::make_unique<Program>(*node_alone(node, operands), verifier_, plain);
  return p;
}

NodeVerifier::Verdict NodeVerifier::verify(const std::string& name, const Node& node,
                                          const std::vector<Tensor>& operands, const std::vector<const Tensor*>& got,
                                          Live live) {
  Programs& p = programs(name, node, operands);
  TensorMap wide_inputs, inputs;
  for (const NamedValue& input : p.wide->plan().graph->inputs()) {
    const Tensor& operand = operands[std::stoul(input.name.substr(7))];
    wide_inputs.emplace(input.name, widened(operand));
    inputs.emplace(input.name, operand);
  }
  const TensorMap wanted = p.wide->run(wide_inputs);
  const TensorMap narrow = p.narrow ? p.narrow->run(inputs) : TensorMap{};
  Verdict verdict;
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (!got[k]) continue;
    const Tensor& exact = wanted.at(nth("result", k));
    const std::int64_t n = live.elements(*got[k]);
    Verdict v;
    if (p.narrow && is_float(got[k]->dtype())) {
      const Work work{terms_of_graph(*p.narrow->plan().graph), node.op == Op::gradient, 0, precision_of(node)};
      const double rounding = distance(narrow.at(nth("result", k)), exact, n).relative;
      const double allowed = std::max(allowed_distance(work, got[k]->dtype()), k_measured_slack * rounding);
      const Distance d = distance(*got[k], exact, n);
      v = {d.relative / allowed, " is " + d.worst + "; a distance of " + short_text(d.relative, 2) + " where " +
                                     short_text(allowed, 2) + " is allowed"};
    } else {
      const auto bound = wanted.find(nth("bound", k));
      v = verify_elements(*got[k], exact, bound == wanted.end() ? nullptr : &bound->second, n);
    }
    if (v.ratio > verdict.ratio) verdict = {v.ratio, nth("output ", k) + v.value};
  }
  return verdict;
}

}  // namespace unroll
