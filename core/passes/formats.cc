// SPDX-License-Identifier: Apache-2.0
// Two walks. Backward: which readers want a value narrow (in the format) and which want it as it is. Forward: the graph
// is copied; a value that only narrow readers have is made narrow where it is made, moves keep what they move narrow,
// and other readers of a narrow value get a cast of it, which `fuse` makes a load of an elementwise group.
#include "core/passes/formats.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// Demands of readers.
enum Demand : unsigned {
  k_wide = 1,
  k_narrow = 2,
  k_either = 4,  // sums read both
  k_named = 8,   // an output of the whole graph
};
bool only_narrow(unsigned demand) { return (demand & (k_wide | k_narrow | k_named)) == k_narrow; }

bool is_move(Op op) { return op_info(op).kind == OpKind::move; }
bool is_f32_product(const Graph& graph, const Node& node) {
  return node.op == Op::matmul && graph.type(node.inputs[0]).dtype == DType::f32;
}
bool holds_product(const Graph& body) {
  return std::any_of(body.nodes().begin(), body.nodes().end(),
                     [&](const Node& node) { return is_f32_product(body, node); });
}
// Numbers of one step that are worth a smaller format: one for each row (a deviation) is not.
bool is_wide_row(const Type& step) {
  return step.dtype == DType::f32 && step.shape.rank() > 0 && step.shape[step.shape.rank() - 1] > 1;
}

// Flags of the inputs and outputs of a scan's body that are narrow.
struct Border {
  std::vector<bool> inputs, outputs;
};

class Demands {
 public:
  // `narrow_outputs` of a body; empty: of the whole graph, whose outputs keep their types.
  Demands(const Graph& graph, bool stores, const std::vector<bool>& narrow_outputs)
      : graph_(graph), stores_(stores), is_body_(!narrow_outputs.empty() || graph.outputs().empty()), of_(graph) {
    for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
      const bool narrow = is_body_ && narrow_outputs[k];
      add(graph.outputs()[k].value, narrow ? k_narrow : is_body_ ? k_wide : k_wide | k_named);
    }
    for (auto n = static_cast<std::int32_t>(graph.nodes().size()); n-- > 0;) visit(n);
  }

  unsigned of(ValueId id) const { return of_[id]; }
  const Border& border(std::int32_t scan) const { return borders_.at(scan); }

 private:
  void add(ValueId id, unsigned demand) {
    if (graph_.type(id).dtype != DType::f32) return;
    of_[id] |= demand;
  }

  void visit(std::int32_t n) {
    const Node& node = graph_.node(n);
    if (node.op == Op::scan) return visit_scan(n, node);
    const unsigned result = of({n, 0});
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      unsigned demand = k_wide;
      if (is_f32_product(graph_, node) && i < 2) demand = k_narrow;
      else if (node.op == Op::reduce_sum) demand = k_either;
      else if (is_move(node.op)) demand = result;
      // A gather may read only some rows of its table.
      else if (node.op == Op::gather && i == 0 && only_narrow(result) && reads_most(node)) demand = k_narrow;
      add(node.inputs[i], demand);
    }
  }
  bool reads_most(const Node& gather) const {
    return graph_.type(gather.inputs[0]).shape.elements() <= gather.outputs[0].shape.elements();
  }

  void visit_scan(std::int32_t n, const Node& node) {
    const Graph& body = *node.body;
    const ScanLayout layout = scan_layout(node);
    const bool stores = stores_ && holds_product(body);
    Border border;
    for (std::size_t k = 0; k < body.outputs().size(); ++k) {
      const unsigned demand = of({n, static_cast<std::int32_t>(k)});
      const bool worth = is_wide_row(body.type(body.outputs()[k].value));
      const bool stack = stores ? (demand & k_named) == 0 && demand != 0 : stores_ && only_narrow(demand);
      border.outputs.push_back(worth && (is_state(layout, k) ? stores : stack));
    }
    border.inputs = settle_states(body, layout, border.outputs);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (i >= border.inputs.size()) break;  // lengths, batch sizes
      const bool sequence = scan_role(layout, i) == ScanRole::sequence;
      if (sequence && !stores_) border.inputs[i] = false;
      if (sequence && stores && is_wide_row(body.type(body.inputs()[i].value)) && is_made(node.inputs[i]))
        border.inputs[i] = true;
      add(node.inputs[i], border.inputs[i] ? k_narrow : k_wide);
    }
    borders_.emplace(n, std::move(border));
  }
  // The inputs of the body that are only read narrow. Other states stay wide at both ends, which may make more of them
  // wide: again until nothing changes.
  std::vector<bool> settle_states(const Graph& body, const ScanLayout& layout,
                                  std::vector<bool>& narrow_outputs) const {
    for (;;) {
      const Demands inside(body, stores_, narrow_outputs);
      std::vector<bool> narrow;
      bool settled = true;
      for (std::size_t i = 0; i < body.inputs().size(); ++i) {
        narrow.push_back(only_narrow(inside.of(body.inputs()[i].value)));
        if (!is_state(layout, i)) continue;
        narrow[i] = narrow[i] && narrow_outputs[i];
        settled = settled && narrow[i] == narrow_outputs[i];
        narrow_outputs[i] = narrow[i];
      }
      if (settled) return narrow;
    }
  }
  // Not at hand already in f32.
  bool is_made(ValueId id) const {
    while (is_move(graph_.node(id.node).op)) id = graph_.node(id.node).inputs[0];
    switch (op_info(graph_.node(id.node).op).kind) {
      case OpKind::source: return is_body_ && graph_.node(id.node).op == Op::input;
      case OpKind::index:
      case OpKind::random: return false;
      default: return true;
    }
  }

  const Graph& graph_;
  bool stores_, is_body_;
  PerValue<unsigned> of_;
  std::map<std::int32_t, Border> borders_;
};

class Assign {
 public:
  Assign(const Graph& source, const ProductFormat& format, PassLog* log, const std::vector<bool>& narrow_outputs)
      : source_(source), format_(format), log_(log), demands_(source, format.storage.has_value(), narrow_outputs),
        forms_(source) {}

  std::shared_ptr<const Graph> run(const std::vector<bool>& narrow_inputs, const std::vector<bool>& narrow_outputs) {
    for (std::size_t i = 0; i < source_.inputs().size(); ++i) {
      const NamedValue& input = source_.inputs()[i];
      Type type = source_.type(input.value);
      const bool narrow = !narrow_inputs.empty() && narrow_inputs[i];
      if (narrow) type.dtype = format_.storage.value_or(type.dtype);
      const Value value = target_->input(input.name, type);
      keep(input.value, value, narrow);
    }
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(source_.nodes().size()); ++n)
      if (source_.node(n).op != Op::input) visit(n);
    for (std::size_t k = 0; k < source_.outputs().size(); ++k) {
      const NamedValue& output = source_.outputs()[k];
      const bool is_narrow = !narrow_outputs.empty() && narrow_outputs[k];
      target_->output(output.name, is_narrow ? narrow(output.value) : wide(output.value));
    }
    return target_;
  }

 private:
  // A value of the source in the new graph; what is missing is made when it is read.
  struct Forms {
    Value wide, narrow;
    bool made_narrow = false;
  };
  Forms& forms(ValueId id) { return forms_[id]; }
  Value wide(ValueId id) {
    Forms& f = forms(id);
    if (!f.wide) f.wide = cast(f.narrow, DType::f32);
    return f.wide;
  }
  Value narrow(ValueId id) {
    Forms& f = forms(id);
    if (f.narrow) return f.narrow;
    const Node& made = f.wide.node();
    double element = 0;
    if (!format_.storage) f.narrow = format_.round(f.wide);
    else if (is_splat(f.wide, element)) f.narrow = filled(*target_, {*format_.storage, f.wide.shape()}, element);
    else if (made.op == Op::constant)  // a backend packs constants when it compiles
      f.narrow =
          constant(*target_, made.attributes.get<std::shared_ptr<const Tensor>>("value")->cast(*format_.storage));
    else f.narrow = cast(f.wide, *format_.storage);
    return f.narrow;
  }
  bool is_narrow_only(ValueId id) { return forms(id).narrow && !forms(id).wide; }

  void keep(ValueId id, Value made, bool is_narrow) {
    Forms& f = forms(id);
    (is_narrow ? f.narrow : f.wide) = made;
    f.made_narrow = is_narrow;
  }
  void keep(std::int32_t n, const std::vector<Value>& results, bool is_narrow = false) {
    for (std::size_t k = 0; k < results.size(); ++k) keep({n, static_cast<std::int32_t>(k)}, results[k], is_narrow);
  }
  // A sum reads a value as it is stored. Demands decide that, not the order of the readers: compilers append the
  // operands of one expression in different orders.
  bool sums_narrow(ValueId id) {
    const bool is_at_hand = op_info(source_.node(id.node).op).kind == OpKind::source;
    return forms(id).made_narrow || (format_.storage && !is_at_hand && only_narrow(demands_.of(id)));
  }

  void visit(std::int32_t n) {
    const Node& node = source_.node(n);
    const OriginScope of_node(*target_, node.origin);
    if (node.op == Op::scan) return visit_scan(n, node);
    if (is_f32_product(source_, node)) return visit_product(n, node);
    const bool f32 = node.outputs[0].dtype == DType::f32;
    const bool moves = f32 && (is_move(node.op) || node.op == Op::gather);
    const std::size_t n_moved = node.op == Op::gather ? 1 : node.inputs.size();
    const auto moved = std::span(node.inputs).first(moves ? n_moved : 0);
    const bool already = std::all_of(moved.begin(), moved.end(), [&](ValueId id) { return is_narrow_only(id); });
    const bool wanted = is_move(node.op) && only_narrow(demands_.of({n, 0}));
    const bool table = node.op == Op::gather && moves && only_narrow(demands_.of(node.inputs[0]));
    const bool is_narrow = moves && (already || wanted || table);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const bool sum = node.op == Op::reduce_sum && sums_narrow(id);
      operands.push_back(sum || (is_narrow && i < n_moved) ? narrow(id) : wide(id));
    }
    keep(n, target_->append_copy(source_, node, operands), is_narrow);
  }

  void visit_product(std::int32_t n, const Node& node) {
    std::vector<Value> operands{narrow(node.inputs[0]), narrow(node.inputs[1])};
    if (node.inputs.size() > 2) operands.push_back(wide(node.inputs[2]));
    Attributes attributes = node.attributes;
    const bool stored = format_.storage && only_narrow(demands_.of({n, 0}));
    if (stored) attributes.set("dtype", *format_.storage);
    keep(n, target_->append(Op::matmul, operands, std::move(attributes)), stored);
  }

  void visit_scan(std::int32_t n, const Node& node) {
    const Border& border = demands_.border(n);
    std::vector<bool> inputs = border.inputs;
    const ScanLayout layout = scan_layout(node);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool sequence = scan_role(layout, i) == ScanRole::sequence;
      if (sequence && format_.storage && is_narrow_only(node.inputs[i])) inputs[i] = true;
      operands.push_back(i < inputs.size() && inputs[i] ? narrow(node.inputs[i]) : wide(node.inputs[i]));
    }
    note(node, inputs, border.outputs);
    const InLoop in_loop(log_, source_, node);
    const auto body = Assign(*node.body, format_, log_, border.outputs).run(inputs, border.outputs);
    const auto results = target_->append(Op::scan, operands, node.attributes, body);
    for (std::size_t k = 0; k < results.size(); ++k)
      keep({n, static_cast<std::int32_t>(k)}, results[k], border.outputs[k]);
  }
  void note(const Node& scan, const std::vector<bool>& inputs, const std::vector<bool>& outputs) const {
    if (!log_ || !format_.storage) return;
    const InLoop in_loop(log_, source_, scan);
    const auto count = [](const std::vector<bool>& flags) {
      return std::to_string(std::count(flags.begin(), flags.end(), true));
    };
    log_->add("stored " + count(inputs) + " operands and " + count(outputs) + " results of the loop as " +
              std::string(dtype_name(*format_.storage)));
  }

  const Graph& source_;
  const ProductFormat& format_;
  PassLog* log_;
  Demands demands_;
  std::shared_ptr<Graph> target_ = std::make_shared<Graph>();
  PerValue<Forms> forms_;
};

}  // namespace

std::shared_ptr<const Graph> assign_format(const Graph& graph, const ProductFormat& format, PassLog* log) {
  return Assign(graph, format, log, {}).run({}, {});
}

std::shared_ptr<const Graph> without_dtype(const Graph& graph, DType dtype, Value (*round)(Value)) {
  auto target = std::make_shared<Graph>();
  std::vector<std::vector<Value>> values;
  const auto plain = [&](Type type) { return Type{type.dtype == dtype ? DType::f32 : type.dtype, type.shape}; };
  for (const Node& node : graph.nodes()) {
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs)
      operands.push_back(values[id.node][id.output]);
    const bool stores = !node.outputs.empty() && node.outputs[0].dtype == dtype;
    const OriginScope of_node(*target, node.origin);
    Attributes attributes = node.attributes;
    if (node.op == Op::input) {
      values.push_back({target->input(attributes.get<std::string>("name"), plain(node.outputs[0]))});
    } else if (node.op == Op::cast && stores) {
      values.push_back({round(cast(operands[0], DType::f32))});
    } else if (node.op == Op::constant && stores) {
      values.push_back({constant(*target, attributes.get<std::shared_ptr<const Tensor>>("value")->cast(DType::f32))});
    } else if (node.op == Op::cast && graph.type(node.inputs[0]).dtype == dtype) {
      values.push_back({cast(operands[0], node.outputs[0].dtype)});
    } else {
      if (node.op == Op::matmul) attributes.erase("dtype");
      const auto body = node.body ? without_dtype(*node.body, dtype, round) : nullptr;
      values.push_back(target->append(node.op, operands, std::move(attributes), body));
      if (node.op == Op::matmul && stores) values.back()[0] = round(values.back()[0]);
    }
  }
  for (const NamedValue& output : graph.outputs())
    target->output(output.name,
                   values[output.value.node][output.value.output]);
  return target;
}

}  // namespace unroll
