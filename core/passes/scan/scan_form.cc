// SPDX-License-Identifier: Apache-2.0
#include "unroll/passes/scan_form.h"

#include <algorithm>
#include <optional>

#include "unroll/ir/row_sums.h"
#include "unroll/passes/product_groups.h"

namespace unroll {

namespace {

using Index = std::int64_t;

const Storage& storage_of(const Plan& plan, const ValueId& id) {
  return plan.storage[id.node][id.output];
}
Index last_of(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }
bool is_pointwise(const Node& node) { return node.op == Op::fused || is_elementwise(node.op); }
// Every operand lines up with the rows of the result, or is the same for all.
bool goes_by_rows(const Node& node) { return node.op == Op::fused_reduction || is_pointwise(node); }
Index axis_of(const Node& node) { return node.attributes.get<Index>("axis"); }
bool reduces_rows(const Node& node) {
  const Ints& axes = node.attributes.get<Ints>("axes");
  return !axes.empty() && axes.front() == 0;
}
bool is_last_axis(const Node& node) { return axis_of(node) == node.outputs[0].shape.rank() - 1; }

// Checks that row r of every output depends on row r of states and sequences alone.
class RowCheck {
 public:
  RowCheck(const Graph& body, const ScanForm& form, Index rows)
      : graph_(body), form_(form), rows_(rows), has_rows_(body.nodes().size(), false) {}

  Index unit() const { return unit_; }
  bool run() {
    const int n = form_.layout.n_states + form_.layout.n_sequences;
    for (int i = 0; i < n; ++i) {
      const ValueId id = graph_.inputs()[i].value;
      has_rows_[id.node] = begins_with_rows(graph_.type(id).shape);
    }
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i)
      if (!check(i)) return false;
    return std::all_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](const NamedValue& output) { return has(output.value); });
  }

 private:
  bool begins_with_rows(const Shape& shape) const { return shape.rank() > 0 && shape[0] == rows_; }
  bool has(const ValueId& id) const { return has_rows_[id.node]; }

  // Outputs have rows when any operand has.
  bool check(std::int32_t id) {
    const Node& node = graph_.node(id);
    const auto is_row = [&](const ValueId& v) { return has(v); };
    if (node.op == Op::input || std::none_of(node.inputs.begin(), node.inputs.end(), is_row)) return true;
    has_rows_[id] = true;
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (!begins_with_rows(node.outputs[k].shape) && !is_sum(node, k)) return false;
    if (goes_by_rows(node)) return check_pointwise(node);
    switch (node.op) {
      case Op::slice:
      case Op::pad: return axis_of(node) > 0;
      case Op::concat: return axis_of(node) > 0 && std::all_of(node.inputs.begin(), node.inputs.end(), is_row);
      case Op::reduce_sum:
      case Op::reduce_max: return !reduces_rows(node);
      case Op::matmul: return has(node.inputs[0]) && form_.product(id);
      default: return false;
    }
  }
  bool is_sum(const Node& node, std::size_t output) {
    const Index n = node.op == Op::fused_reduction ? rows_per_sum(node, output) : 0;
    if (n == 0 || node.outputs[output].shape[0] * n != rows_) return false;
    unit_ = n;
    return true;
  }
  // Operands with rows have them where the result has, others have one row for all.
  bool check_pointwise(const Node& node) const {
    const Shape& shape = node.outputs[0].shape;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& v) {
      const Shape& from = graph_.type(v).shape;
      return has(v) ? from.rank() == shape.rank() : from.rank() < shape.rank() || from[0] == 1;
    });
  }

  const Graph& graph_;
  const ScanForm& form_;
  Index rows_, unit_ = 1;
  std::vector<bool> has_rows_;  // [node]
};

class Builder {
 public:
  Builder(const Plan& plan, std::int32_t scan)
      : outer_(plan), scan_(scan), body_(*plan.bodies[scan]), graph_(*body_.graph),
        gate_moved_by_(graph_.nodes().size()) {
    form_.layout = scan_layout(plan.graph->node(scan));
  }

  ScanForm run() {
    for (std::int32_t i = 0; i < size(); ++i) find_product(i);
    place_states();
    if (form_.reason = reason(); !form_.reason.empty()) return std::move(form_);
    find_stages();
    if (form_.layout.has_lengths) form_.lengths = form_.layout.n_inputs() - 1;
    if (!form_.layout.packed) find_rows();
    return std::move(form_);
  }

 private:
  std::int32_t size() const { return static_cast<std::int32_t>(graph_.nodes().size()); }
  const Storage& storage(const ValueId& id) const { return storage_of(body_, id); }
  int first_constant() const { return form_.layout.n_states + form_.layout.n_sequences; }

  std::string reason() const {
    if (form_.layout.n_states == 0) return "its steps are independent";
    if (form_.layout.has_reset) return "its resets are not lowered into the step";
    for (const Node& node : graph_.nodes())
      if (node.op == Op::scan && scan_layout(node).n_states > 0) return "a step contains a loop";
    return {};
  }

  void find_product(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (node.op != Op::matmul || node.attributes.get<bool>("transpose_a")) return;
    const Storage& b = storage(node.inputs[1]);
    const Shape &from = graph_.type(node.inputs[0]).shape, &weight = graph_.type(node.inputs[1]).shape;
    if (b.place != Storage::Place::input || b.index < first_constant() || b.offset != 0 || !b.strides.empty()) return;
    if (weight.rank() != 2 || from.rank() == 0) return;
    ScanForm::Product product{.node = id, .weight = b.index - first_constant()};
    product.transposed = node.attributes.get<bool>("transpose_b");
    product.k = last_of(from);
    product.m = product.k == 0 ? 0 : from.elements() / product.k;
    product.n = weight[product.transposed ? 0 : 1];
    product.units = product.n;
    find_gates(product);
    form_.products.push_back(product);
  }

  void find_gates(ScanForm::Product& product) {
    if (product.m == 0 || product.n == 0) return;
    const ProductGates gates = product_gates(graph_, product.node);
    product.units = gates.units;
    product.gates = gates.gates;
    if (gates.gates == 1) return;
    for (const std::int32_t id : gates.movement)
      gate_moved_by_[id] = Gate{gates.m * gates.units, gates.units};
  }

  // A result that is only another reading of its operand.
  bool is_view(const Node& node, std::int32_t id) const {
    const bool reads_again = node.op == Op::slice || node.op == Op::reshape || node.op == Op::broadcast;
    if (node.inputs.empty() || !reads_again) return false;
    const Storage &to = storage({id, 0}), &from = storage(node.inputs[0]);
    if (to.place != from.place || to.index != from.index) return false;
    const std::size_t bytes = graph_.type(node.inputs[0]).bytes();
    return to.place != Storage::Place::arena || (to.offset >= from.offset && to.offset < from.offset + bytes);
  }

  // True if a worker's units of the node's results follow from its units of the operand. Values without units, such as
  // one number per row, are computed by every worker.
  bool reads_own_units(std::int32_t id, std::size_t operand) const {
    const Node& node = graph_.node(id);
    const Shape &shape = graph_.type(node.inputs[operand]).shape, &result = node.outputs[0].shape;
    if (last_of(shape) == 1) return true;
    // Several gates lie with each worker's units side by side; one gate has its units in the last axis.
    if (const auto& gate = gate_moved_by_[id]; gate && shape.elements() > gate->elements)
      return result.elements() > gate->elements || last_of(result) == gate->units;
    if (is_pointwise(node)) return last_of(shape) == last_of(result);
    switch (node.op) {
      case Op::slice: return !is_last_axis(node);
      case Op::concat: return !is_last_axis(node) || has_equal_pieces(node);
      case Op::reshape:
      case Op::broadcast: return last_of(shape) == last_of(result);
      default: return false;
    }
  }
  bool has_equal_pieces(const Node& node) const {
    const Index first = last_of(graph_.type(node.inputs[0]).shape);
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const ValueId& id) { return last_of(graph_.type(id).shape) == first; });
  }

  // Work of the step: everything but inputs, constants and views.
  bool is_work(const Node& node, std::int32_t id) const {
    return node.op != Op::input && node.op != Op::constant && !is_view(node, id);
  }

  void find_stages() {
    const auto n_states = form_.layout.n_states;
    std::vector<int> stage(graph_.nodes().size(), 0);
    std::vector<bool> computed(graph_.nodes().size(), false);  // in this step, from work or as a view of it
    std::vector<int> read_by_all(n_states, -1);  // [state] first stage that exchanges it
    std::vector<int> state_of(graph_.nodes().size(), -1);
    for (int i = 0; i < n_states; ++i)
      state_of[graph_.inputs()[i].value.node] = i;
    for (std::int32_t id = 0; id < size(); ++id) {
      const Node& node = graph_.node(id);
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const std::int32_t from = node.inputs[k].node;
        const bool crosses = !reads_own_units(id, k);
        stage[id] = std::max(stage[id], stage[from] + (crosses && computed[from] ? 1 : 0));
        computed[id] = computed[id] || computed[from];
      }
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const int state = state_of[node.inputs[k].node];
        if (state < 0 || reads_own_units(id, k)) continue;
        int& first = read_by_all[state];
        first = first < 0 ? stage[id] : std::min(first, stage[id]);
      }
      if (!is_work(node, id)) {
        if (node.op != Op::input && node.op != Op::constant && state_of[id] < 0 && !node.inputs.empty())
          state_of[id] = state_of[node.inputs[0].node];  // a view of a state
        continue;
      }
      computed[id] = true;
      const auto s = static_cast<std::size_t>(stage[id]);
      form_.stages.resize(std::max(form_.stages.size(), s + 1));
      form_.stages[s].nodes.push_back(id);
    }
    if (form_.stages.empty()) return;
    for (ScanForm::Stage& s : form_.stages) s.exchanges = true;
    form_.stages.back().exchanges = carried_exchange(stage, read_by_all);
    std::erase_if(form_.stages, [](const ScanForm::Stage& s) { return s.nodes.empty(); });
  }

  // True if a state that the next step reads by all workers is written after the last barrier before that read.
  bool carried_exchange(const std::vector<int>& stage, const std::vector<int>& read_by_all) const {
    const int last = static_cast<int>(form_.stages.size()) - 1;
    for (std::size_t i = 0; i < read_by_all.size(); ++i) {
      const int written = stage[graph_.outputs()[i].value.node];
      if (read_by_all[i] == 0 && written == last) return true;
    }
    return false;
  }

  void place_states() {
    const auto n = static_cast<std::size_t>(form_.layout.n_states);
    form_.states.resize(n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = n; k < graph_.outputs().size(); ++k) {
        const ValueId out{scan_, static_cast<std::int32_t>(k)}, value = graph_.outputs()[k].value;
        if (storage_of(outer_, out).place == Storage::Place::none) continue;
        ScanForm::State& state = form_.states[i];
        if (state.after < 0 && value == graph_.outputs()[i].value) state.after = static_cast<int>(k);
        if (state.before < 0 && value == graph_.inputs()[i].value) state.before = static_cast<int>(k);
      }
  }

  void find_rows() {
    const Shape& state = graph_.type(graph_.inputs()[0].value).shape;
    if (state.rank() == 0 || state[0] < 2) return;
    if (form_.lengths >= 0) {  // what restored them has proved it, in bodies of any kind
      form_.rows = state[0];
      return;
    }
    RowCheck check(graph_, form_, state[0]);
    if (!check.run()) return;
    form_.rows = state[0];
    form_.row_unit = check.unit();
  }

  const Plan& outer_;
  const std::int32_t scan_;
  const Plan& body_;
  const Graph& graph_;
  struct Gate {
    Index elements, units;
  };
  std::vector<std::optional<Gate>> gate_moved_by_;  // [node] between a product with several gates and its readers
  ScanForm form_;
};

std::string places_text(const ScanForm& form, const Graph& body) {
  std::string text;
  for (std::size_t i = 0; i < form.states.size(); ++i) {
    const ScanForm::State& state = form.states[i];
    const int output = state.after >= 0 ? state.after : state.before;
    text += (i == 0 ? "" : ", ") + body.inputs()[i].name + " ";
    if (output < 0) text += "in memory of its own";
    else text += std::string(state.after >= 0 ? "after" : "before") + " each step in output " + std::to_string(output);
  }
  return text;
}

}  // namespace

int ScanForm::exchanges() const {
  return static_cast<int>(std::count_if(stages.begin(), stages.end(), [](const Stage& s) { return s.exchanges; }));
}

const ScanForm::Product* ScanForm::product(std::int32_t node) const {
  const auto at = std::find_if(products.begin(), products.end(), [&](const Product& p) { return p.node == node; });
  return at == products.end() ? nullptr : &*at;
}

ScanForm scan_form(const Plan& plan, std::int32_t scan) {
  return Builder(plan, scan).run();
}

std::vector<std::string> describe(const ScanForm& form, const Plan& body) {
  if (!form) return {"no scan form: " + form.reason};
  std::vector<std::string> lines;
  const auto number = [](Index n) { return std::to_string(n); };
  for (const ScanForm::Product& p : form.products)
    lines.push_back("product %" + number(p.node) + ": [" + number(p.m) + "," + number(p.k) + "] by weight " +
                    number(p.weight) + " [" + number(p.transposed ? p.n : p.k) + "," +
                    number(p.transposed ? p.k : p.n) + "]" +
                    (p.gates > 1 ? ", " + number(p.gates) + " gates of " + number(p.units) + " units" : ""));
  for (std::size_t s = 0; s < form.stages.size(); ++s) {
    std::string line = "stage " + std::to_string(s + 1) + ":";
    for (const std::int32_t id : form.stages[s].nodes)
      line += " %" + std::to_string(id) + " " + std::string(op_info(body.graph->node(id).op).name);
    lines.push_back(line + (form.stages[s].exchanges ? "; barrier" : ""));
  }
  lines.push_back("states: " + places_text(form, *body.graph));
  const std::string unit = form.row_unit > 1 ? ", summed by " + number(form.row_unit) : "";
  const std::string ends = form.lengths >= 0 ? ", each ends at its length" : "";
  lines.push_back(form.rows > 0 ? number(form.rows) + " independent rows" + unit + ends : "rows depend on each other");
  return lines;
}

}  // namespace unroll
