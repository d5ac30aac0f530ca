// SPDX-License-Identifier: Apache-2.0
// Emits each node twice: in the graph of a block, where a sequence has the positions of this block, and in the graph of
// the initial states, where it has its head: the positions that exist before the first block.
#include "core/passes/streaming/emit.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/rewrite.h"
#include "core/passes/streaming/flow.h"
#include "core/support/tensor_role.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::streaming {

namespace {

// A sequence at some delay. The head has -delay positions; it is empty if there are none.
struct Part {
  Value block, head;
  std::int64_t delay = 0;
};

class Emitter {
 public:
  Emitter(const Graph& source, const PerNode<NodeFlow>& flows, std::int64_t block)
      : source_(source), flows_(flows), block_(block), parts_(source), fixed_{Fixed(source), Fixed(source)} {
    stream_.block = block;
  }

  BlockStream run(const NamedValue& output);

 private:
  using Fixed = PerNode<std::vector<Value>>;

  const Flow& flow(const ValueId& id) const { return flows_[id.node].outputs[id.output]; }
  std::int64_t rows(const Flow& f) const { return block_ * f.up / f.down; }
  void emit(const Node& node, const NodeFlow& flow, std::vector<Part>& results);
  std::vector<Value> emit_in(Graph& graph, const Node& node, const NodeFlow& flow, std::span<const Part> operands,
                             const std::function<std::int64_t(const Flow&)>& positions);
  void emit_scan(const Node& node, const NodeFlow& flow, std::span<const Flow> flows, std::span<const Part> operands,
                 std::vector<Part>& results);
  Part windows(const Node& node, const Flow& flow, const Part& x);
  Part extended(const Node& node, const Flow& from, const Flow& flow, const Part& x);

  Value fixed(Graph& graph, const ValueId& id);
  Value full(Value value, int axis, std::int64_t positions);
  Part delayed(const Part& part, const Flow& flow, std::int64_t to);
  Value before_first(const Part& part, int axis, std::int64_t positions);
  Value with_past(const Part& part, int axis, std::int64_t positions);
  Value add_state(Value start, const std::function<Value(Value)>& next);
  Value exists(const Flow& flow, std::int64_t delay, bool until_end);

  const Graph& source_;
  const PerNode<NodeFlow>& flows_;
  const std::int64_t block_;
  PerNode<std::vector<Part>> parts_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>(), initial_ = std::make_shared<Graph>();
  std::array<Fixed, 2> fixed_;  // of graph_ and initial_
  std::vector<Value> next_;     // states
  BlockStream stream_;
};

// The value of a fixed or repeated node, with one position on its axis of time.
Value Emitter::fixed(Graph& graph, const ValueId& id) {
  std::vector<Value>& known = fixed_[&graph == initial_.get()][id.node];
  if (!known.empty()) return known[id.output];
  const Node& node = source_.node(id.node);
  const NodeFlow& flow = flows_[id.node];
  if (node.op == Op::constant && flow.outputs[0].kind == Flow::Kind::repeated) {
    const auto& tensor = node.attributes.get<std::shared_ptr<const Tensor>>("value");
    const Shape shape = tensor->shape().with(flow.outputs[0].axis, 1);
    return (known = {filled(graph, {tensor->dtype(), shape}, tensor->at(0))})[0];
  }
  std::vector<Part> operands;
  for (const ValueId& operand : node.inputs) {
    const Value value = fixed(graph, operand);
    operands.push_back({value, value});
  }
  auto results = emit_in(graph, node, flow, operands, [](const Flow&) { return std::int64_t{1}; });
  return (fixed_[&graph == initial_.get()][id.node] = std::move(results))[id.output];
}

Value Emitter::full(Value value, int axis, std::int64_t positions) {
  return broadcast(value, value.shape().with(axis, positions));
}

// A state of the block graph: `next` maps its value to the one after the block.
Value Emitter::add_state(Value start, const std::function<Value(Value)>& next) {
  const std::string name = state_name(next_.size());
  initial_->output(name, start);
  const Value state = graph_->input(name, start.type());
  next_.emplace_back();
  const std::size_t k = next_.size() - 1;
  const Value after = next(state);
  next_[k] = after;
  return state;
}

// The last positions before the first block. Those that do not exist are zeros; nobody uses them.
Value Emitter::before_first(const Part& part, int axis, std::int64_t positions) {
  const std::int64_t n_head = std::max<std::int64_t>(-part.delay, 0);
  const Type type{part.block.dtype(), part.block.shape()};
  const auto zeros = [&](std::int64_t n) { return filled(*initial_, {type.dtype, type.shape.with(axis, n)}, 0); };
  if (n_head == 0) return zeros(positions);
  if (positions <= n_head) return slice(part.head, axis, n_head - positions, positions);
  return concat({zeros(positions - n_head), part.head}, axis);
}

// The block after this many positions before it.
Value Emitter::with_past(const Part& part, int axis, std::int64_t positions) {
  if (positions == 0) return part.block;
  Value all;
  add_state(before_first(part, axis, positions), [&](Value past) {
    all = concat({past, part.block}, axis);
    return slice(all, axis, all.shape()[axis] - positions, positions);
  });
  return all;
}

// Splits an axis into (outer, positions), or joins them.
Value split_axis(Value x, int axis, std::int64_t outer) {
  return reshape(x, x.shape().with(axis, x.shape()[axis] / outer).inserted(axis, outer));
}
Value joined_axis(Value x, int axis) {
  return reshape(x, x.shape().removed(axis).with(axis, x.shape()[axis] * x.shape()[axis + 1]));
}

Part Emitter::delayed(const Part& part, const Flow& flow, std::int64_t to) {
  const std::int64_t by = to - part.delay;
  if (by == 0) return part;
  if (flow.outer > 1) {
    Flow apart = flow;
    apart.outer = 1, ++apart.axis;
    Part split{split_axis(part.block, flow.axis, flow.outer), {}, part.delay};
    if (part.head) split.head = split_axis(part.head, flow.axis, flow.outer);
    Part result = delayed(split, apart, to);
    result.block = joined_axis(result.block, flow.axis);
    if (result.head) result.head = joined_axis(result.head, flow.axis);
    return result;
  }
  const std::int64_t n = part.block.shape()[flow.axis];
  Part result{slice(with_past(part, flow.axis, by), flow.axis, 0, n), {}, to};
  if (to < 0) result.head = slice(part.head, flow.axis, 0, -to);
  return result;
}

// b8 [R]: the positions of a block that are not before the first one, nor (with until_end) after the last one.
Value Emitter::exists(const Flow& flow, std::int64_t delay, bool until_end) {
  const std::int64_t n = rows(flow);
  const Value index = iota(*graph_, {n}, 0);
  Value inside;
  if (delay > 0) {
    const Value missing = add_state(scalar(*initial_, DType::i32, static_cast<double>(delay)), [&](Value state) {
      return maximum(state - static_cast<double>(n), scalar_like(state, 0));
    });
    inside = greater_equal(index, missing);
  }
  if (!until_end) return inside;
  const std::string name = "end." + std::to_string(stream_.ends.size());
  stream_.ends.push_back({name, n, delay, flow.length});
  const Value before_end = less(index, graph_->input(name, {DType::i32, {}}));
  return inside ? logical_and(inside, before_end) : before_end;
}

// The node with its shapes for this many positions of each sequence.
std::vector<Value> Emitter::emit_in(Graph& graph, const Node& node, const NodeFlow& flow,
                                    std::span<const Part> operands,
                                    const std::function<std::int64_t(const Flow&)>& positions) {
  const bool at_head = &graph == initial_.get();
  std::vector<Value> values;
  for (const Part& part : operands) values.push_back(at_head ? part.head : part.block);
  Attributes attributes = node.attributes;
  const Flow& first = flow.outputs[0];
  if (first.axis >= 0 && attributes.has("shape")) {
    Ints shape = attributes.get<Ints>("shape");
    shape[first.axis] = first.outer * positions(first);
    attributes.set("shape", shape);
  }
  if (node.op == Op::slice && flow.outputs[0].kind == Flow::Kind::repeated &&
      attributes.get<std::int64_t>("axis") == first.axis) {
    attributes.set("start", std::int64_t{0});
    attributes.set("size", std::int64_t{1});
  }
  const OriginScope origin(graph, node.origin);
  return graph.append(node.op, values, std::move(attributes), node.body);
}

Part Emitter::windows(const Node& node, const Flow& flow, const Part& x) {
  const auto axis = static_cast<int>(node.attributes.get<std::int64_t>("axis"));
  const auto integer = [&](const char* name) { return node.attributes.get<std::int64_t>(name); };
  const std::int64_t stride = integer("stride"), reach = (integer("size") - 1) * integer("dilation");
  const auto windows_of = [&](Value all, std::int64_t n) {
    const Value used = slice(all, axis, 0, (n - 1) * stride + reach + 1);
    return unroll::windows(used, axis, integer("size"), stride, integer("dilation"));
  };
  // Positions before the block that its first window reads; negative: positions that it skips.
  const std::int64_t past = flow.delay * stride - x.delay;
  Value all = with_past(x, axis, std::max<std::int64_t>(past, 0));
  if (past < 0) all = slice(all, axis, -past, all.shape()[axis] + past);
  Part y{windows_of(all, rows(flow)), {}, flow.delay};
  if (y.delay < 0) y.head = windows_of(x.head, -y.delay);
  return y;
}

// pad, and concat with values that do not change.
Part Emitter::extended(const Node& node, const Flow& from, const Flow& flow, const Part& x) {
  const int axis = from.axis;
  std::vector<Value> before[2], after;  // before: in graph_, in initial_
  if (node.op == Op::pad) {
    const auto zeros = [&](Graph& graph, const char* side) {
      const Shape shape = x.block.shape().with(axis, node.attributes.get<std::int64_t>(side));
      return filled(graph, {x.block.dtype(), shape}, 0);
    };
    if (node.attributes.get<std::int64_t>("low") > 0)
      before[0] = {zeros(*graph_, "low")}, before[1] = {zeros(*initial_, "low")};
    if (node.attributes.get<std::int64_t>("high") > 0) after = {zeros(*graph_, "high")};
  } else {
    bool is_after = false;
    for (const ValueId& id : node.inputs) {
      if (this->flow(id).kind != Flow::Kind::fixed) is_after = true;
      else if (is_after) after.push_back(fixed(*graph_, id));
      else before[0].push_back(fixed(*graph_, id)), before[1].push_back(fixed(*initial_, id));
    }
  }
  // Positions that do not exist in the block are replaced. That needs values that are all equal.
  Value block = x.block;
  std::vector<Value> replaced = after;
  if (x.delay > 0) replaced.insert(replaced.end(), before[0].begin(), before[0].end());
  double element = 0;
  for (std::size_t k = 0; k < replaced.size(); ++k) {
    double other = 0;
    if (!is_splat(replaced[k], other) || (k > 0 && other != element))
      throw Error(ErrorKind::unsupported, k_who, "a sequence is joined with different values after a look-ahead, or at "
                                                 "its end");
    element = other;
  }
  if (!replaced.empty()) {
    Shape mask;
    for (int k = 0; k < block.rank(); ++k) mask = mask.inserted(k, k == axis ? rows(from) : 1);
    block = select(reshape(exists(from, x.delay, !after.empty()), mask), block, scalar_like(block, element));
  }
  Part y{block, {}, flow.delay};
  if (y.delay >= 0) return y;
  std::vector<Value>& head = before[1];
  if (x.delay < 0) head.push_back(x.head);
  y.head = concat(head, axis);
  y.head = slice(y.head, axis, y.head.shape()[axis] + std::min<std::int64_t>(y.delay, 0), -y.delay);
  return y;
}

void Emitter::emit_scan(const Node& node, const NodeFlow& flow, std::span<const Flow> flows,
                        std::span<const Part> operands, std::vector<Part>& results) {
  const ScanLayout layout = scan_layout(node);
  const Flow& sequence = *std::ranges::find_if(flow.outputs, &Flow::is_sequence);
  const std::int64_t delay = flow.align, n = rows(sequence);
  std::vector<Value> values, heads;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool repeats = flows[k].kind == Flow::Kind::repeated;
    values.push_back(repeats ? full(operands[k].block, 0, n) : operands[k].block);
    if (delay < 0) heads.push_back(repeats ? full(operands[k].head, 0, -delay) : operands[k].head);
  }
  const auto at_steps = [&](std::int64_t steps) {
    Attributes attributes = node.attributes;
    attributes.set("steps", steps);
    return attributes;
  };
  std::vector<Value> before;  // the block's initial states, then the heads of the outputs
  if (delay < 0) before = initial_->append(Op::scan, heads, at_steps(-delay), node.body);
  else
    for (int k = 0; k < layout.n_states; ++k) before.push_back(operands[k].head);
  const OriginScope origin(*graph_, node.origin);
  for (int k = 0; k < layout.n_states; ++k) values[k] = add_state(before[k], [](Value state) { return state; });
  const std::size_t first_state = next_.size() - layout.n_states;
  ScanParts parts(node, values);
  parts.attributes = at_steps(n);
  if (delay > 0) {
    // The order of a body's inputs is states, sequences, constants: the mask comes last as a sequence of its own.
    ScanBuilder builder(parts);
    const std::vector<Value> inputs = builder.add_all(parts, *node.body);
    const Value inside = builder.sequence(exists(sequence, delay, false));
    std::vector<Value> next = inline_graph(builder.step(), *node.body, inputs);
    for (int k = 0; k < layout.n_states; ++k) next[k] = select(inside, next[k], inputs[k]);
    values = builder.emit(next);
  } else {
    values = parts.emit(node.body);
  }
  for (int k = 0; k < layout.n_states; ++k) next_[first_state + k] = values[k];
  for (std::size_t k = 0; k < values.size(); ++k)
    results.push_back({values[k], delay < 0 ? before[k] : Value(), delay});
}

void Emitter::emit(const Node& node, const NodeFlow& flow, std::vector<Part>& results) {
  if (node.op == Op::input) {
    const Flow& x = flow.outputs[0];
    const Shape shape = node.outputs[0].shape.removed(x.axis).inserted(0, block_);
    results = {{moved_axis(graph_->input("x", {node.outputs[0].dtype, shape}), 0, x.axis), {}, 0}};
    stream_.input = node.attributes.get<std::string>("name");
    return;
  }
  const bool is_extended = node.op == Op::pad || node.op == Op::concat;
  std::vector<Flow> flows;
  for (const ValueId& id : node.inputs) flows.push_back(this->flow(id));
  flows = moving(std::move(flows));
  std::vector<Part> operands;
  std::size_t k_moving = 0;
  for (std::size_t k = 0; k < flows.size(); ++k) {
    const ValueId& id = node.inputs[k];
    const Value one = this->flow(id).is_sequence() ? Value() : fixed(*graph_, id);
    if (!flows[k].is_sequence()) operands.push_back({one, fixed(*initial_, id)});
    else operands.push_back(delayed(one ? Part{full(one, flows[k].axis, rows(flows[k])), {}, 0}
                                        : parts_[id.node][id.output], flows[k], flow.align));
    if (flows[k].is_sequence()) k_moving = k;
  }
  const Part* moving = &operands[k_moving];
  const Flow* sequence = &flows[k_moving];
  const auto axis_is_time = [&] { return node.attributes.get<std::int64_t>("axis") == sequence->axis; };
  if (node.op == Op::scan) return emit_scan(node, flow, flows, operands, results);
  if (node.op == Op::windows && axis_is_time()) return results.push_back(windows(node, flow.outputs[0], *moving));
  if (is_extended && axis_is_time()) return results.push_back(extended(node, *sequence, flow.outputs[0], *moving));
  const Flow& y = flow.outputs[0];
  if (node.op == Op::slice && axis_is_time()) {
    Part result{moving->block, {}, y.delay};
    if (y.delay < 0)
      result.head = slice(moving->head, sequence->axis, node.attributes.get<std::int64_t>("start"), -y.delay);
    return results.push_back(result);
  }
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Flow& f = flows[k];
    if (f.kind != Flow::Kind::repeated || is_elementwise(node.op)) continue;
    operands[k].block = full(operands[k].block, f.axis, moving->block.shape()[sequence->axis]);
    if (flow.align < 0) operands[k].head = full(operands[k].head, f.axis, moving->head.shape()[sequence->axis]);
  }
  const auto blocks = emit_in(*graph_, node, flow, operands, [&](const Flow& f) { return rows(f); });
  std::vector<Value> heads(blocks.size());
  if (flow.align < 0) heads = emit_in(*initial_, node, flow, operands, [](const Flow& f) { return -f.delay; });
  for (std::size_t k = 0; k < blocks.size(); ++k) results.push_back({blocks[k], heads[k], flow.outputs[k].delay});
}

BlockStream Emitter::run(const NamedValue& output) {
  PerNode<bool> needed(source_);
  needed[output.value.node] = true;
  for (std::size_t n = needed.size(); n-- > 0;)
    if (needed[n])
      for (const ValueId& id : source_.nodes()[n].inputs) needed[id.node] = true;
  for (std::size_t n = 0; n < needed.size(); ++n) {
    const auto is_moving = [](const Flow& f) { return f.is_sequence(); };
    if (needed[n] && std::ranges::any_of(flows_[n].outputs, is_moving)) emit(source_.nodes()[n], flows_[n], parts_[n]);
  }
  const Flow& f = flow(output.value);
  Part y = delayed(parts_[output.value.node][output.value.output], f, std::max<std::int64_t>(f.delay, 0));
  graph_->output("y", moved_axis(y.block, f.axis, 0));
  for (std::size_t k = 0; k < next_.size(); ++k) graph_->output(state_name(k), next_[k]);
  stream_.graph = graph_;
  stream_.initial = initial_;
  stream_.output = output.name;
  stream_.rows = rows(f);
  stream_.delay = y.delay;
  stream_.length = f.length;
  return std::move(stream_);
}

}  // namespace

BlockStream emit_blocks(const Graph& graph, const PerNode<NodeFlow>& flows, const NamedValue& output,
                        std::int64_t block) {
  return Emitter(graph, flows, block).run(output);
}

}  // namespace unroll::streaming
