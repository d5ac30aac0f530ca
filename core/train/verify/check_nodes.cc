// SPDX-License-Identifier: Apache-2.0
// Verifies the nodes of a plan one by one. Each is computed from its actual operands, so that an error is attributed to
// the node that caused it.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/support/machine_memory.h"
#include "core/support/text/exact_text.h"
#include "core/train/device/node_words.h"
#include "core/train/verify/exposed_values.h"
#include "core/train/verify/node_verifier.h"
#include "unroll/ir/ops.h"
#include "unroll/train/compare.h"

namespace unroll {

namespace {

// All passes that make a graph another one.
std::vector<std::string> graph_passes() {
  std::vector<std::string> names = pass_names();
  for (const char* of_memory : {"views", "windows_as_rows", "in_place", "reuse"}) std::erase(names, of_memory);
  return names;
}

Tensor tensor_slice(const Tensor& whole, const Type& type, std::int64_t first_byte) {
  Tensor part(type);
  if (!part.bytes().empty()) std::memcpy(part.bytes().data(), whole.bytes().data() + first_byte, part.bytes().size());
  return part;
}
// Slice `index` of a tensor that is a stack of them.
Tensor slice_of(const Tensor& stack, const Type& type, std::int64_t index) {
  return tensor_slice(stack, type, index * static_cast<std::int64_t>(type.bytes()));
}

// A number of a, of its first n elements, that is not that of b; -1: none.
std::int64_t first_difference(const Tensor& a, const Tensor& b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (a.at(i) != b.at(i) && (a.at(i) == a.at(i) || b.at(i) == b.at(i))) return i;
  return -1;
}

// The position of the walk: the graph, or a step of a loop's body.
struct Level {
  Inside inside;
  std::string prefix;                  // of value_name
  std::vector<std::int32_t> path;      // nodes of the loops around it
  std::string place;
  std::vector<const Tensor*> inputs;   // null: not known
  // The place of this step's part in the stacked outputs of its loops. A packed loop stacks rows, not slices.
  std::int64_t slice = 0;
  std::int64_t first_row = 0, rows = 0, batch = 0;  // of a packed loop's step; batch 0: not packed
  Live live = {};
};

class NodeWalk {
 public:
  NodeWalk(const TensorMap& values, const Backend& tested, Backend& verifier, NodeCheck& check,
           const StageReport& stage)
      : values_(values),
        backend_(verifier),
        verifier_(verifier, tested.describe().flushes_denormals),
        check_(check),
        stage_(stage) {}

  // False when a node is at fault.
  bool graph(const Level& level) {
    const auto n = static_cast<std::int32_t>(level.inside.graph.nodes().size());
    std::map<std::int32_t, Live> lives;
    for (std::int32_t id = 0; id < n; ++id) {
      const Node& node = level.inside.graph.node(id);
      if (node.op == Op::input || node.op == Op::constant) continue;
      lives[id] = level.inside.around ? level.live : live_of(level, node, lives);
      if (!(node.op == Op::scan ? loop(level, id, lives) : single(level, id, lives[id]))) return false;
    }
    return true;
  }

 private:
  // The value in this step; false when it is not known.
  bool find(const Level& level, ValueId id, Tensor& value) const {
    const Graph& graph = level.inside.graph;
    const Node& node = graph.node(id.node);
    if (node.op == Op::constant) {
      value = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
      return true;
    }
    if (node.op == Op::input) {
      const auto inputs = graph.inputs();
      const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const NamedValue& i) { return i.value == id; });
      const Tensor* given = level.inputs[at - inputs.begin()];
      if (given) value = *given;
      return given != nullptr;
    }
    return find_computed(level, id, value);
  }
  bool find_computed(const Level& level, ValueId id, Tensor& value) const {
    const Type& type = level.inside.graph.type(id);
    if (type.shape.elements() == 0) {
      value = Tensor(type);
      return true;
    }
    const auto at = values_.find(k_exposed + value_name(level.prefix, id));
    if (at == values_.end()) return false;
    const Tensor& stack = at->second;
    const bool shared = level.batch > 0 && stack.shape().rank() > type.shape.rank();
    value = shared              ? slice_of(stack, type, level.first_row)
            : level.batch > 0 ? rows_of(stack, type, level)
                              : slice_of(stack, type, level.slice);
    return true;
  }
  // Computes a value that no output shows, as the verifier does.
  bool find_or_compute(const Level& level, ValueId id, Tensor& value) const {
    if (find(level, id, value)) return true;
    const Node& node = level.inside.graph.node(id.node);
    if (node.op == Op::input || node.op == Op::scan || op_info(node.op).kind == OpKind::composite) return false;
    std::vector<Tensor> operands(node.inputs.size());
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!find_or_compute(level, node.inputs[i], operands[i])) return false;
    TensorMap inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) inputs.emplace("operand" + std::to_string(i), operands[i]);
    value = evaluate(*node_alone(node, operands), backend_, inputs).at("result" + std::to_string(id.output));
    return true;
  }
  static Tensor rows_of(const Tensor& stack, const Type& type, const Level& level) {
    const std::size_t row = type.bytes() / level.batch;
    Tensor value(type);
    std::memcpy(value.bytes().data(), stack.bytes().data() + row * level.first_row, row * level.rows);
    return value;
  }

  // Packed values hold only their first rows, and so do values computed from them row by row.
  Live live_of(const Level& level, const Node& node, const std::map<std::int32_t, Live>& lives) const {
    Tensor count;
    if (node.op == Op::matmul && node.inputs.size() == 3) {
      if (node.attributes.get<bool>("transpose_a") || !find(level, node.inputs[2], count)) return {};
      return {static_cast<std::int64_t>(count.at(0)), node.outputs[0].shape[0]};
    }
    if (node.op == Op::gather || node.op == Op::pack_lengths) return {};
    if (node.op == Op::scan && scan_layout(node).packed) {
      if (!find(level, node.inputs.back(), count)) return {};
      Live live{0, 1};
      for (std::int64_t t = 0; t < count.elements(); ++t) live.count += static_cast<std::int64_t>(count.at(t));
      live.of = count.elements() * node.body->type(node.body->outputs()[0].value).shape[0];
      return live;
    }
    for (const ValueId& v : node.inputs)
      if (const auto at = lives.find(v.node); at != lives.end() && at->second.count < at->second.of &&
                                              !is_final_state(level.inside.graph.node(v.node), v))
        return at->second;
    return {};
  }
  static bool is_final_state(const Node& node, ValueId v) {
    return node.op == Op::scan && v.output < scan_layout(node).n_states;
  }

  bool single(const Level& level, std::int32_t id, Live live) {
    const Node& node = level.inside.graph.node(id);
    std::vector<Tensor> operands(n_operands(node)), results(node.outputs.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (find_or_compute(level, node.inputs[i], operands[i])) continue;
      ++check_.unverified;
      return true;
    }
    std::vector<const Tensor*> got;
    const bool saves = node.op != Op::gradient && node.attributes.get_or<std::int64_t>("saved_bytes", 0) > 0;
    for (std::size_t k = 0; k + (saves ? 1 : 0) < results.size(); ++k)
      got.push_back(find(level, {id, static_cast<std::int32_t>(k)}, results[k]) ? &results[k] : nullptr);
    if (std::all_of(got.begin(), got.end(), [](const Tensor* t) { return !t; })) {
      ++check_.unverified;
      return true;
    }
    if (stage_) stage_({"checking node", check_.nodes});
    ++check_.nodes;
    const NodeVerifier::Verdict verdict = verifier_.verify(level.prefix + std::to_string(id), node, operands, got,
                                                           live);
    if (verdict.ratio <= 1) {
      check_.tightest = std::max(check_.tightest, verdict.ratio);
      return true;
    }
    NodeFault& fault = blame(level, id, verdict.value);
    fault.graph = node_alone(node, operands);
    for (std::size_t i = 0; i < operands.size(); ++i) fault.tensors.emplace("operand" + std::to_string(i), operands[i]);
    for (std::size_t k = 0; k < got.size(); ++k)
      if (got[k]) fault.tensors.emplace("got.result" + std::to_string(k), *got[k]);
    return false;
  }

  NodeFault& blame(const Level& level, std::int32_t id, std::string value) {
    NodeFault& fault = check_.fault.emplace();
    fault.node = node_words(level.inside, level.inside.graph.node(id));
    fault.place = level.place;
    fault.value = std::move(value);
    fault.path = level.path;
    fault.path.push_back(id);
    return fault;
  }

  // Each step in the order of execution, then what the loop itself does: handing states on and stacking results.
  bool loop(const Level& level, std::int32_t id, const std::map<std::int32_t, Live>& lives) {
    const Node& node = level.inside.graph.node(id);
    const ScanLayout l = scan_layout(node);
    std::vector<Tensor> given(node.inputs.size());
    std::vector<bool> known;
    for (std::size_t i = 0; i < given.size(); ++i) known.push_back(find_or_compute(level, node.inputs[i], given[i]));
    if (l.packed && !known.back()) {
      ++check_.unverified;
      return true;
    }
    const Live live = lives.at(id);
    std::vector<Tensor> states(given.begin(), given.begin() + l.n_states);
    std::vector<bool> states_known(known.begin(), known.begin() + l.n_states);
    for (std::int64_t step = 0; step < l.steps; ++step) {
      const std::int64_t t = l.reverse ? l.steps - 1 - step : step;
      Level inner{{*node.body, &level.inside, &node}, level.prefix + std::to_string(id) + "/", level.path, {}, {}};
      inner.path.push_back(id);
      inner.place = (level.place.empty() ? "" : level.place + ", ") + "step " + std::to_string(t) + " of " +
                    std::to_string(l.steps) + " of the " + node_words(level.inside, node);
      place_step(inner, node, l, level, given, t, live);
      if (inner.batch > 0 && inner.rows == 0) continue;
      std::vector<Tensor> data(node.body->inputs().size());
      inner.inputs.assign(data.size(), nullptr);
      for (std::size_t i = 0; i < data.size(); ++i)
        if (step_input(inner, node, l, i, t, given, known, data[i])) inner.inputs[i] = &data[i];
      if (!check_states(level, id, inner, states, states_known, data) || !graph(inner)) return false;
      for (std::size_t i = 0; i < states.size(); ++i) {
        Tensor next;
        states_known[i] = find(inner, node.body->outputs()[i].value, next);
        if (states_known[i]) take_rows(states[i], next, inner);
      }
    }
    return check_finals(level, id, states, states_known);
  }

  static void place_step(Level& inner, const Node& node, const ScanLayout& l, const Level& level,
                         const std::vector<Tensor>& given, std::int64_t t, Live live) {
    inner.slice = level.slice * l.steps + t;
    if (l.packed) {
      inner.batch = node.body->type(node.body->outputs()[0].value).shape[0];
      for (std::int64_t s = 0; s < t; ++s) inner.first_row += static_cast<std::int64_t>(given.back().at(s));
      inner.rows = static_cast<std::int64_t>(given.back().at(t));
      inner.live = {inner.rows, inner.batch};
    } else if (live.count < live.of) {
      inner.live = {std::clamp<std::int64_t>(live.count * l.steps - t * live.of, 0, live.of), live.of};
    }
  }

  bool step_input(const Level& inner, const Node& node, const ScanLayout& l, std::size_t i, std::int64_t t,
                  const std::vector<Tensor>& given, const std::vector<bool>& known, Tensor& value) const {
    const ValueId id = node.body->inputs()[i].value;
    const Type& type = node.body->type(id);
    if (std::cmp_less(i, l.n_states)) return find_computed(inner, id, value);
    if (!known[i]) return false;
    const bool sequence = std::cmp_less(i, l.n_states + l.n_sequences);
    if (!sequence) value = given[i];
    else if (l.packed && given[i].shape().rank() == type.shape.rank()) value = rows_of(given[i], type, inner);
    else value = slice_of(given[i], type, t);
    return true;
  }

  // Rows that have ended keep their state.
  static void take_rows(Tensor& state, const Tensor& next, const Level& inner) {
    const std::int64_t n = inner.batch > 0 ? inner.live.elements(next) : next.elements();
    if (state.type() == next.type())
      std::copy_n(next.bytes().begin(), n * dtype_bytes(next.dtype()), state.bytes().begin());
  }

  bool check_states(const Level& level, std::int32_t id, const Level& inner, const std::vector<Tensor>& states,
                    const std::vector<bool>& known, const std::vector<Tensor>& data) {
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (!known[i] || !inner.inputs[i]) continue;
      const std::int64_t at = first_difference(data[i], states[i], inner.live.elements(data[i]));
      if (at < 0) continue;
      blame(level, id, "state " + std::to_string(i) + " in " + inner.place + " is " + short_text(data[i].at(at), 9) +
                           element_words(data[i].type(), at) + ", not " + short_text(states[i].at(at), 9) +
                           " as the previous step returned");
      return false;
    }
    return true;
  }

  bool check_finals(const Level& level, std::int32_t id, const std::vector<Tensor>& states,
                    const std::vector<bool>& known) {
    const Node& node = level.inside.graph.node(id);
    const std::string prefix = level.prefix + std::to_string(id) + "/";
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId output{id, static_cast<std::int32_t>(k)};
      Tensor got, stacked;
      if (!find(level, output, got)) continue;
      Live live;
      if (k < states.size()) {
        if (!known[k]) continue;
        stacked = states[k];
      } else {
        const auto at = values_.find(k_exposed + value_name(prefix, node.body->outputs()[k].value));
        if (at == values_.end() || level.batch > 0) continue;
        stacked = slice_of(at->second, got.type(), level.slice);
        if (scan_layout(node).packed) live = live_of(level, node, {});
      }
      const std::int64_t at = first_difference(got, stacked, live.elements(got));
      if (at < 0) continue;
      blame(level, id, "output " + std::to_string(k) + " is " + short_text(got.at(at), 9) +
                           element_words(got.type(), at) + "; its steps returned " + short_text(stacked.at(at), 9));
      return false;
    }
    return true;
  }

  const TensorMap& values_;
  Backend& backend_;
  NodeVerifier verifier_;
  NodeCheck& check_;
  const StageReport& stage_;
};

// Empty when there is enough.
std::string lack_of_memory(std::size_t needed, std::size_t free) {
  if (needed <= free) return {};
  return "all values together need " + std::to_string(needed >> 20) + " MiB, " + std::to_string(free >> 20) +
         " MiB are free";
}

}  // namespace

std::string NodeFault::text() const {
  return (place.empty() ? "" : "in " + place + ": ") + node + ": " + value;
}

NodeCheck check_nodes(const Graph& graph, const TensorMap& inputs, Backend& tested, Backend& verifier,
                      const PlanOptions& options, const StageReport& stage) {
  NodeCheck check;
  // Every step of every row as a value of its own: where lengths are restored, they are lowered again.
  std::shared_ptr<const Graph> lowered = lower_scan_masks(*lower(graph, tested, options));
  lowered = with_bodies(*lowered, [](const Graph& g) { return drop_dead(g); });  // numbers that planning again keeps
  const ExposedGraph exposed = expose_values(*lowered);
  const PlanOptions as_it_is{.without = graph_passes()};
  // Once where they are computed, and once more on the host.
  const std::size_t once = planned_bytes(*plan(*exposed.graph, tested, as_it_is));
  const std::size_t device = tested.describe().memory_bytes, free = free_memory();
  check.skipped = device > 0 && once > device ? lack_of_memory(once, device)
                  : free > 0                  ? lack_of_memory(device > 0 ? once : 2 * once, free)
                                              : "";
  if (!check.skipped.empty()) return check;
  if (stage) stage({"running with every value as an output"});
  const TensorMap values = evaluate(*exposed.graph, tested, inputs, as_it_is);
  Level top{{*lowered}, {}, {}, {}, {}};
  for (const NamedValue& input : lowered->inputs()) top.inputs.push_back(&inputs.at(input.name));
  NodeWalk(values, tested, verifier, check, stage).graph(top);
  return check;
}

}  // namespace unroll
