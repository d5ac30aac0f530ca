// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/layers/walk.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/support/text/shell_word.h"
#include "unroll/passes/run.h"

namespace unroll::onnx {
namespace {

constexpr std::int64_t k_most_ids = std::int64_t{1} << 26;
// Constants may be computed from others; a larger ratio would be an attempt to exhaust memory.
constexpr std::int64_t k_most_per_element = 64;

bool is_movement(const Node& node) {
  return (op_info(node.op).kind == OpKind::move && node.op != Op::pad) || node.op == Op::gather;
}

Tensor iota_of(const Shape& shape, std::int64_t first) {
  Tensor ids(DType::i32, shape);
  const auto to = ids.values<std::int32_t>();
  std::iota(to.begin(), to.end(), static_cast<std::int32_t>(first));
  return ids;
}

}  // namespace

void LayerWalk::refuse(const std::string& what) const {
  const std::string next = "`unroll run " + shell_word(model_.file) + "` runs the model without importing it";
  if (call_) call_->unsupported(what, next);
  throw Error(ErrorKind::unsupported, model_.file, place + ": " + what, next);
}

bool LayerWalk::depends(Value value) {
  const Graph& graph = value.graph();
  for (auto n = static_cast<std::int32_t>(depends_.size()); n <= value.id().node; ++n) {
    const Node& node = graph.node(n);
    depends_.push_back(node.op == Op::input || std::ranges::any_of(node.inputs, [&](ValueId id) {
                         return depends_[id.node] != 0;
                       }));
  }
  return depends_[value.id().node] != 0;
}

std::int32_t LayerWalk::new_ids(std::int64_t n) {
  const std::int64_t first = next_id_;
  if (n > k_most_ids - next_id_) refuse("the fixed sizes of the model are too large to import it");
  next_id_ += n;
  return static_cast<std::int32_t>(first);
}

// Evaluates the node on ids: the moved values must depend on the inputs, and the indices of a gather must not.
Tensor LayerWalk::moved(Value value) {
  const Node& node = value.node();
  Graph part;
  std::vector<Value> in;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Value input = value.graph().value(node.inputs[k]);
    in.push_back(unroll::constant(part, depends(input) ? *ids(input) : constant(input)));
  }
  part.output("ids", part.append_one(node.op, in, node.attributes));
  if (!reference_) reference_ = make_backend("reference");
  return std::move(evaluate(part, *reference_, {}).at("ids"));
}

const Tensor* LayerWalk::ids(Value value) {
  if (const auto found = known_.find(value.id()); found != known_.end()) return &found->second;
  const Node& node = value.node();
  if (node.op == Op::input) {
    const std::int32_t first = new_ids(value.shape().elements());
    inputs.push_back({node.attributes.get<std::string>("name"), first, value.type()});
    return &known_.emplace(value.id(), iota_of(value.shape(), first)).first->second;
  }
  if (!is_movement(node)) return nullptr;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Value input = value.graph().value(node.inputs[k]);
    const bool is_index = node.op == Op::gather && k == 1;
    if (depends(input) == is_index || (!is_index && !ids(input))) return nullptr;
  }
  if (value.shape().elements() > k_most_ids) refuse("the fixed sizes of the model are too large to import it");
  return &known_.emplace(value.id(), moved(value)).first->second;
}

bool LayerWalk::is_whole(const Tensor& ids) const {
  if (!stage || ids.elements() != stage->rows * stage->width) return false;
  std::vector<bool> seen(ids.elements());
  for (const std::int32_t id : ids.values<std::int32_t>()) {
    const std::int64_t at = id - stage->first;
    if (at < 0 || at >= ids.elements() || seen[at]) return false;
    seen[at] = true;
  }
  return true;
}

void LayerWalk::begin(const Tensor& ids) {
  const std::int32_t id = ids.elements() == 0 ? -1 : ids.values<std::int32_t>()[0];
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const InputBlock& input = inputs[k];
    const Shape& shape = input.type.shape;
    if (id < input.first || id >= input.first + shape.elements()) continue;
    const bool is_tokens = input.type.dtype == DType::i32;
    if (shape.rank() != (is_tokens ? 2 : 3))
      refuse("the input '" + input.name + "' is " + input.type.text() +
             "; a folder's input is x [T,B,I], or token indices [T,B], with the batch as first or second axis");
    first_input = static_cast<int>(k);
    rows_p = shape[0], rows_q = shape[1];
    stage = Stage{input.first, rows_p * rows_q, is_tokens ? 1 : shape[2]};
    return;
  }
  refuse("reads no input of the model");
}

// The last step [B,width], or for two directions the last step of the first and the first step of the second one.
bool LayerWalk::find_pooling(Value x, const Tensor& ids) {
  if (is_pooled || !time_first || ids.elements() != batch() * stage->width) return false;
  const auto found = ids.values<std::int32_t>();
  const auto is_at = [&](bool both_ends) {
    for (std::int64_t k = 0; k < ids.elements(); ++k) {
      const std::int64_t b = k / stage->width, e = k % stage->width;
      const std::int64_t t = both_ends && e >= stage->width / 2 ? 0 : steps() - 1;
      if (found[k] != stage->first + row(t, b) * stage->width + e) return false;
    }
    return true;
  };
  if (!is_at(false) && !is_at(true)) return false;
  const char* const kind = is_at(false) ? "last" : "final";
  const std::int64_t width = stage->width;
  stage = Stage{new_ids(batch() * width), batch(), width};
  is_pooled = true;
  layers.push_back({.layer = {.kind = kind}});
  known_.insert_or_assign(x.id(), iota_of(x.shape(), stage->first));
  return true;
}

Tensor LayerWalk::read(Value x) {
  const Tensor* from = ids(x);
  if (!from) refuse("reads a value that no layer computes");
  if (!stage) begin(*from);
  if (!is_whole(*from)) {
    if (!find_pooling(x, *from))
      refuse("does not read the whole output of the layer before it: a skip connection, a part of the output, or two "
             "layers that read the same values");
    from = ids(x);
  }
  Tensor places(DType::i32, from->shape());
  std::ranges::transform(from->values<std::int32_t>(), places.values<std::int32_t>().begin(),
                         [&](std::int32_t id) { return id - stage->first; });
  return places;
}

void LayerWalk::append(FoundLayer layer, Value out, const Tensor& places, std::int64_t width) {
  const std::int64_t before = stage->width;
  const Stage next{new_ids(stage->rows * width), stage->rows, width};
  Tensor ids(DType::i32, out.shape());
  const auto from = places.values<std::int32_t>();
  const auto to = ids.values<std::int32_t>();
  if (width == before) {
    std::ranges::transform(from, to.begin(), [&](std::int32_t at) { return next.first + at; });
  } else {  // the last axis is a row
    for (std::size_t k = 0; k < to.size(); ++k) {
      const std::size_t w = width;
      const std::int64_t row = from[k / w * before] / before;
      to[k] = static_cast<std::int32_t>(next.first + row * width + static_cast<std::int64_t>(k % w));
    }
  }
  stage = next;
  known_.insert_or_assign(out.id(), std::move(ids));
  layers.push_back(std::move(layer));
}

void LayerWalk::append_recurrent(FoundLayer layer, std::span<const Value> outputs) {
  const std::int64_t width = outputs[0].shape()[2], hidden = layer.layer.model.hidden, n_b = batch();
  stage = Stage{new_ids(rows_p * rows_q * width), rows_p * rows_q, width};
  Tensor y(DType::i32, outputs[0].shape());
  const auto id = [&](std::int64_t t, std::int64_t b, std::int64_t e) {
    return static_cast<std::int32_t>(stage->first + row(t, b) * width + e);
  };
  for (std::int64_t t = 0; t < steps(); ++t)
    for (std::int64_t b = 0; b < n_b; ++b)
      for (std::int64_t e = 0; e < width; ++e) y.set((t * n_b + b) * width + e, id(t, b, e));
  known_.insert_or_assign(outputs[0].id(), std::move(y));
  Tensor h(DType::i32, outputs[1].shape());  // [D,B,H], each direction at its last step
  for (std::int64_t k = 0; k < h.elements(); ++k) {
    const std::int64_t d = k / hidden / n_b;
    h.set(k, id(d == 0 ? steps() - 1 : 0, k / hidden % n_b, d * hidden + k % hidden));
  }
  layer.final.push_back(h);
  known_.insert_or_assign(outputs[1].id(), std::move(h));
  if (outputs.size() > 2) {
    layer.final.push_back(iota_of(outputs[2].shape(), new_ids(outputs[2].shape().elements())));
    known_.insert_or_assign(outputs[2].id(), layer.final.back());
  }
  layers.push_back(std::move(layer));
}

void LayerWalk::append_pooling(const char* kind, Value out) {
  stage = Stage{new_ids(batch() * stage->width), batch(), stage->width};
  is_pooled = true;
  layers.push_back({.layer = {.kind = kind}});
  known_.insert_or_assign(out.id(), iota_of(out.shape(), stage->first));
}

bool LayerWalk::are_steps(const Tensor& places, int time_axis, bool decide) {
  const Shape& shape = places.shape();
  if (is_pooled || shape.rank() != 3 || shape[2] != stage->width) return false;
  const auto fits = [&] {
    if (shape[time_axis] != steps() || shape[1 - time_axis] != batch()) return false;
    const auto found = places.values<std::int32_t>();
    for (std::int64_t k = 0; k < places.elements(); ++k) {
      const std::int64_t i = k / shape[2] / shape[1], j = k / shape[2] % shape[1];
      const std::int64_t wanted = row(time_axis == 0 ? i : j, time_axis == 0 ? j : i) * shape[2] + k % shape[2];
      if (found[k] != wanted) return false;
    }
    return true;
  };
  if (time_first || !decide) return time_first && fits();
  for (const bool first : {true, false}) {
    time_first = first;
    if (fits()) return true;
  }
  time_first.reset();
  return false;
}

void LayerWalk::expect_constant(Value value, const std::string& what) {
  if (depends(value)) refuse(what + " is computed from an input");
}

Tensor LayerWalk::constant(Value value) {
  const Graph& graph = value.graph();
  std::set<ValueId> needed;
  std::vector<ValueId> open{value.id()};
  std::int64_t stored = 1 << 20;
  for (const auto& [name, tensor] : model_.graph.initializers) stored += tensor->elements();
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!needed.insert(at).second) continue;
    computed_ += std::min(graph.type(at).shape.elements(), k_most_per_element * stored);
    if (computed_ > k_most_per_element * stored) refuse("its parameters are computed from too many values");
    const Node& node = graph.node(at.node);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  Graph part;
  std::map<ValueId, Value> done;
  for (const ValueId each : needed) {  // in the order of nodes
    if (done.contains(each)) continue;
    const Node& node = graph.node(each.node);
    std::vector<Value> in;
    for (const ValueId input : node.inputs) in.push_back(done.at(input));
    const std::vector<Value> out = part.append_copy(graph, node, in);
    for (std::size_t k = 0; k < out.size(); ++k) done.insert({{each.node, static_cast<std::int32_t>(k)}, out[k]});
  }
  part.output("value", done.at(value.id()));
  if (!reference_) reference_ = make_backend("reference");
  return std::move(evaluate(part, *reference_, {}).at("value"));
}

bool LayerWalk::is_tokens(const Tensor& ids) const {
  const std::int32_t id = ids.elements() == 0 ? -1 : ids.values<std::int32_t>()[0];
  return std::ranges::any_of(inputs, [&](const InputBlock& input) {
    return input.type.dtype == DType::i32 && id >= input.first && id < input.first + input.type.shape.elements();
  });
}

// Exporters clamp token indices to the embedding, or wrap negative ones. Elementwise functions of tokens therefore
// count as the tokens. The comparison of the file with the imported model detects other arithmetic.
bool LayerWalk::follow_tokens(Call& call, const std::vector<Value>& outputs) {
  if (outputs.empty() || !outputs[0]) return false;
  const Tensor* tokens = nullptr;
  for (std::size_t k = 0; k < call.n_inputs(); ++k) {
    const Value input = call.in_or_none(k);
    if (!input || !depends(input)) continue;
    const Tensor* const found = ids(input);
    if (!found || !is_tokens(*found) || found->shape() != outputs[0].shape()) return false;
    if (tokens && !std::ranges::equal(tokens->values<std::int32_t>(), found->values<std::int32_t>())) return false;
    tokens = found;
  }
  if (tokens) known_.insert_or_assign(outputs[0].id(), Tensor(*tokens));
  return tokens != nullptr;
}

void LayerWalk::built(Call& call, const OperatorRow& row, std::int32_t first, const std::vector<Value>& outputs) {
  call_ = &call;
  if (initializers.empty()) {
    const Names* names = &call.names;
    while (names->outer) names = names->outer;
    for (const auto& [name, tensor] : model_.graph.initializers)
      if (const Value value = names->find(name)) initializers.emplace(value.id(), name);
  }
  bool is_layer = false;
  for (std::size_t k = 0; k < outputs.size() && !is_layer; ++k)
    is_layer = call.wants(k) && outputs[k] && depends(outputs[k]) && !ids(outputs[k]);
  if (is_layer && !follow_tokens(call, outputs)) {
    const LayerBuilder build = find_layer(row.name);
    if (!build) refuse("is no layer of a model folder");
    build(*this, call, first, outputs);
  }
  call_ = nullptr;
}

}  // namespace unroll::onnx
