// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpret.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "backends/reference/kernels.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/row_sums.h"
#include "unroll/support/error.h"
#include "unroll/support/tensor.h"

namespace unroll::reference {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int k_unwritten = 0xFF;

void copy_bytes(std::byte* to, const std::byte* from, std::size_t n_bytes) {
  if (n_bytes > 0 && to != from) std::memmove(to, from, n_bytes);
}

Bytes unwritten(std::size_t n_bytes) {
  Bytes bytes(n_bytes);
  if (n_bytes > 0) std::memset(bytes.data(), k_unwritten, n_bytes);
  return bytes;
}

bool overlap(const View& a, const View& b) {
  if (!a.data || !b.data) return false;
  const std::size_t na = a.type.bytes(), nb = b.type.bytes();
  const std::less<const std::byte*> before;
  return na > 0 && nb > 0 && before(a.data, b.data + nb) && before(b.data, a.data + na);
}

// Constants are only read.
std::byte* constant_data(const Node& node) {
  return const_cast<std::byte*>(node.attributes.get<std::shared_ptr<const Tensor>>("value")->bytes().data());
}

// Bytes of a row of a state or of a per-step output: axis 0 is B.
std::size_t row_bytes(const Type& type) {
  return type.shape[0] == 0 ? 0 : type.bytes() / type.shape[0];
}

// Runs one scan: the body plan once per step, on the current states and slice t of every sequence.
class ScanRun {
 public:
  ScanRun(const Plan& body, const Node& node, std::span<const View> inputs, std::span<const View> outputs)
      : body_(body), layout_(scan_layout(node)), inputs_(inputs), outputs_(outputs) {
    for (std::size_t i = 0; i < n_states(); ++i) {
      const std::size_t n_bytes = inputs[i].type.bytes();
      now_.emplace_back(n_bytes);
      next_.push_back(unwritten(n_bytes));
      copy_bytes(now_.back().data(), inputs[i].data, n_bytes);
    }
  }

  void run() {
    for (std::int64_t step = 0; step < layout_.steps; ++step) {
      const std::int64_t t = layout_.reverse ? layout_.steps - 1 - step : step;
      seen_ = now_;
      if (layout_.has_reset) reset_rows(t);
      if (layout_.packed) {
        run_packed_step(t);
      } else {
        interpret(body_, frame(t));
      }
      if (layout_.has_lengths) hold_rows(t);
      std::swap(now_, next_);
    }
    for (std::size_t i = 0; i < n_states(); ++i) copy_bytes(outputs_[i].data, now_[i].data(), now_[i].size());
  }

 private:
  std::size_t n_states() const { return layout_.n_states; }
  const View& masks(std::size_t i) const {
    return inputs_[layout_.n_states + layout_.n_sequences + layout_.n_constants + i];
  }
  static std::byte* slice_at(const View& stacked, std::int64_t t) {
    const std::size_t slice = row_bytes(stacked.type);
    return slice == 0 ? stacked.data : stacked.data + slice * t;
  }

  Frame frame(std::int64_t t) {
    Frame f;
    const std::size_t n_sequences = layout_.n_sequences;
    for (std::size_t i = 0; i < body_.graph->inputs().size(); ++i) {
      if (i < n_states()) f.inputs.push_back(seen_[i].data());
      else if (i < n_states() + n_sequences) f.inputs.push_back(slice_at(inputs_[i], t));
      else f.inputs.push_back(inputs_[i].data);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      f.outputs.push_back(i < n_states() ? next_[i].data() : slice_at(outputs_[i], t));
    return f;
  }

  // Runs the body on all rows, with zeros for absent ones; then keeps the live rows.
  void run_packed_step(std::int64_t t) {
    const auto* sizes = masks(0).as<const std::int32_t>();
    std::size_t before = 0;
    const auto live_at = [&](std::int64_t s) {
      return std::clamp<std::int64_t>(sizes[s], 0, batch());
    };
    for (std::int64_t s = 0; s < t; ++s) before += live_at(s);
    const auto step_type = [](const NamedValue& value, const Graph& body) { return body.type(value.value); };
    Frame f;
    std::vector<Bytes> slices, made;
    for (std::size_t i = 0; i < body_.graph->inputs().size(); ++i) {
      const Type type = step_type(body_.graph->inputs()[i], *body_.graph);
      const bool is_sequence = i >= n_states() && i < n_states() + layout_.n_sequences;
      const bool sequence = is_sequence && inputs_[i].type.shape.rank() == type.shape.rank();
      if (sequence) {
        slices.emplace_back(type.bytes());
        copy_bytes(slices.back().data(), inputs_[i].data + before * row_bytes(type), live_at(t) * row_bytes(type));
      }
      f.inputs.push_back(i < n_states() ? seen_[i].data()
                         : sequence     ? slices.back().data()
                         : is_sequence  ? slice_at(inputs_[i], t)
                                        : inputs_[i].data);
    }
    for (const NamedValue& output : body_.graph->outputs()) {
      made.emplace_back(step_type(output, *body_.graph).bytes());
      f.outputs.push_back(made.back().data());
    }
    interpret(body_, f);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t row = row_bytes(step_type(body_.graph->outputs()[i], *body_.graph));
      if (i < n_states()) copy_bytes(next_[i].data(), now_[i].data(), now_[i].size());
      copy_bytes(i < n_states() ? next_[i].data() : outputs_[i].data + before * row, made[i].data(), live_at(t) * row);
    }
  }
  std::int64_t batch() const {
    return body_.graph->outputs().empty() ? 0 : body_.graph->type(body_.graph->outputs()[0].value).shape[0];
  }

  // Makes the states that the body reads: rows that restart at t are zero.
  void reset_rows(std::int64_t t) {
    const View& reset = masks(layout_.has_lengths ? 1 : 0);
    const std::int64_t batch = reset.type.shape[1];
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::size_t i = 0; i < n_states() && reset.as<const std::uint8_t>()[t * batch + b]; ++i)
        clear_row(seen_[i].data(), row_bytes(inputs_[i].type), b);
  }
  // Rows past their length keep their states from before a reset, and output zeros.
  void hold_rows(std::int64_t t) {
    for (std::int64_t b = 0; b < masks(0).type.shape[0]; ++b) {
      if (t < masks(0).as<const std::int32_t>()[b]) continue;
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Type step_type =
            i < n_states() ? outputs_[i].type : Type{outputs_[i].type.dtype, outputs_[i].type.shape.removed(0)};
        const std::size_t n_bytes = row_bytes(step_type), at = n_bytes * b;
        if (i < n_states()) copy_bytes(next_[i].data() + at, now_[i].data() + at, n_bytes);
        else clear_row(slice_at(outputs_[i], t), n_bytes, b);
      }
    }
  }
  static void clear_row(std::byte* rows, std::size_t n_bytes, std::int64_t b) {
    if (n_bytes > 0) std::memset(rows + n_bytes * b, 0, n_bytes);
  }

  const Plan& body_;
  ScanLayout layout_;
  std::span<const View> inputs_, outputs_;
  std::vector<Bytes> now_, seen_, next_;  // states before the step, as the body reads them, after it
};

void run_node(const Node& node, const Plan* body, std::span<const View> inputs, std::span<const View> outputs);

// Runs the body of an elementwise group or fused reduction node by node, with separate memory for every value.
void run_group(const Node& node, std::span<const View> inputs, std::span<const View> outputs) {
  const Graph& body = *node.body;
  std::vector<Bytes> memory;
  std::vector<std::vector<View>> values(body.nodes().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[body.inputs()[i].value.node] = {inputs[i]};
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Node& inner = body.nodes()[id];
    if (inner.op == Op::input) continue;
    std::vector<View> operands;
    for (const ValueId& v : inner.inputs) operands.push_back(values[v.node][0]);
    if (inner.op == Op::constant) {
      values[id] = {{inner.outputs[0], constant_data(inner)}};
      continue;
    }
    memory.emplace_back(inner.outputs[0].bytes());
    values[id] = {{inner.outputs[0], memory.back().data()}};
    run_node(inner, nullptr, operands, values[id]);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const View& from = values[body.outputs()[k].value.node][0];
    if (const std::int64_t n = rows_per_sum(node, k)) {
      const View rows[] = {{{from.type.dtype, split_rows(from.type.shape, n)}, from.data}};
      run_node(sum_of_split_rows(outputs[k].type), nullptr, rows, outputs.subspan(k, 1));
      continue;
    }
    copy_bytes(outputs[k].data, from.data, from.type.bytes());
  }
}

void run_node(const Node& node, const Plan* body, std::span<const View> inputs, std::span<const View> outputs) {
  if (node.op == Op::scan) return ScanRun(*body, node, inputs, outputs).run();
  if (node.op == Op::fused || node.op == Op::fused_reduction) return run_group(node, inputs, outputs);
  const Kernel kernel = find_kernel(node.op);
  if (!kernel) throw Error(ErrorKind::internal, op_info(node.op).name, "has no reference kernel");
  kernel({node, inputs, outputs});
}

class PlanRun {
 public:
  PlanRun(const Plan& plan, const Frame& frame) : plan_(plan), frame_(frame), arena_(unwritten(plan.arena_bytes)) {}

  void run(std::span<double> milliseconds) {
    const auto nodes = plan_.graph->nodes();
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      const Node& node = nodes[id];
      if (node.op == Op::input || node.op == Op::constant) continue;
      std::vector<View> inputs;
      for (const ValueId& v : node.inputs) inputs.push_back(view(v));
      const auto begin = milliseconds.empty() ? Clock::time_point() : Clock::now();
      run_placed(node, id, inputs);
      if (!milliseconds.empty())
        milliseconds[id] += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    }
    copy_outputs();
  }

 private:
  std::byte* place(const Storage& storage) {
    switch (storage.place) {
      case Storage::Place::none: return nullptr;
      case Storage::Place::input: return frame_.inputs[storage.index];
      case Storage::Place::output: return frame_.outputs[storage.index];
      case Storage::Place::constant: return constant_data(plan_.graph->node(storage.index));
      case Storage::Place::arena: return arena_.data();
    }
    return nullptr;
  }
  std::byte* at(const Storage& storage) {
    std::byte* begin = place(storage);
    return begin ? begin + storage.offset : nullptr;
  }
  View view(ValueId v) {
    const std::size_t node = v.node, output = v.output;
    return {plan_.graph->type(v), at(plan_.storage[node][output])};
  }

  // Kernels do not work in place: a result that overlaps an operand, or that is not stored, goes to a temporary first.
  void run_placed(const Node& node, std::size_t id, std::span<const View> inputs) {
    std::vector<View> placed, made;
    std::vector<Bytes> aside;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      placed.push_back(view({static_cast<std::int32_t>(id), static_cast<std::int32_t>(k)}));
      if (node.op == Op::reshape && placed[0].data == inputs[0].data) return;  // a view: the elements are already there
      made.push_back(placed.back());
      const bool clash =
          std::any_of(inputs.begin(), inputs.end(), [&](const View& in) { return overlap(in, placed[k]); });
      if (!clash && plan_.storage[id][k].place != Storage::Place::none) continue;
      aside.emplace_back(node.outputs[k].bytes());
      made.back().data = aside.back().data();
    }
    run_node(node, plan_.bodies.empty() ? nullptr : plan_.bodies[id].get(), inputs, made);
    for (std::size_t k = 0; k < placed.size(); ++k)
      if (plan_.storage[id][k].place != Storage::Place::none)
        copy_bytes(placed[k].data, made[k].data, placed[k].type.bytes());
  }

  // Runs after all nodes; an output may share memory with an input that another output is a view of.
  void copy_outputs() {
    std::vector<std::pair<std::size_t, Bytes>> moved;
    for (std::size_t k = 0; k < plan_.outputs.size(); ++k) {
      const Storage& from = plan_.outputs[k];
      if (from.place == Storage::Place::output && from.index == static_cast<std::int32_t>(k)) continue;
      Bytes bytes(plan_.graph->type(plan_.graph->outputs()[k].value).bytes());
      copy_bytes(bytes.data(), at(from), bytes.size());
      moved.emplace_back(k, std::move(bytes));
    }
    for (const auto& [k, bytes] : moved) copy_bytes(frame_.outputs[k], bytes.data(), bytes.size());
  }

  const Plan& plan_;
  const Frame& frame_;
  Bytes arena_;
};

}  // namespace

void interpret(const Plan& plan, const Frame& frame, std::span<double> milliseconds) {
  PlanRun(plan, frame).run(milliseconds);
}

}  // namespace unroll::reference
