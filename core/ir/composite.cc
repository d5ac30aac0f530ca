// SPDX-License-Identifier: Apache-2.0
// Maps composites to their bodies.
#include "core/ir/composite.h"

#include <string>
#include <utility>

#include "core/ir/bodies.h"
#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::pair<Op, BodyFunction> k_bodies[] = {
    {Op::rnn, bodies::rnn},
    {Op::gru, bodies::gru},
    {Op::lstm, bodies::lstm},
    {Op::softmax, bodies::softmax},
    {Op::log_softmax, bodies::log_softmax},
    {Op::layer_norm, bodies::layer_norm},
    {Op::dropout, bodies::dropout},
    {Op::embedding, bodies::embedding},
    {Op::dot_attention, bodies::dot_attention},
    {Op::additive_attention, bodies::additive_attention},
    {Op::multi_head_attention, bodies::multi_head_attention},
    {Op::softmax_cross_entropy, bodies::softmax_cross_entropy},
    {Op::mse, bodies::mse},
    {Op::mae, bodies::mae},
    {Op::huber, bodies::huber},
    {Op::bce, bodies::bce},
    {Op::sgd, bodies::sgd},
    {Op::adam, bodies::adam},
    {Op::rmsprop, bodies::rmsprop},
    {Op::adagrad, bodies::adagrad},
    {Op::lion, bodies::lion},
};

}  // namespace

BodyFunction find_body(Op op) {
  for (const auto& [composite, body] : k_bodies)
    if (composite == op) return body;
  return nullptr;
}

std::shared_ptr<const Graph> build_composite(Op op, std::span<const Type> inputs, const Attributes& attributes) {
  const BodyFunction body = find_body(op);
  if (!body) throw Error(ErrorKind::graph, op_info(op).name, "is not a composite and has no body");
  auto graph = std::make_shared<Graph>();
  std::vector<Value> in;
  for (const Type& type : inputs) in.push_back(graph->input("in" + std::to_string(in.size()), type));
  const std::vector<Value> out = body(in, attributes);
  for (std::size_t i = 0; i < out.size(); ++i) graph->output("out" + std::to_string(i), out[i]);
  return graph;
}

}  // namespace unroll
