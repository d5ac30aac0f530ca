// SPDX-License-Identifier: Apache-2.0
#include "tests/support/strict.h"

#include <algorithm>
#include <map>

#include "tests/support/strict_memory.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/row_sums.h"
#include "unroll/support/error.h"

namespace unroll::strict {

namespace {

using common::Hazards;

Ints dense_strides(const Shape& shape) {
  Ints strides(static_cast<std::size_t>(shape.rank()), 1);
  for (std::size_t axis = strides.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[static_cast<int>(axis)];
  return strides;
}

class Run {
 public:
  Run(const Plan& plan, const Hazards& hazards, std::size_t most)
      : plan_(plan), graph_(*plan.graph), hazards_(hazards), most_(most),
        memory_(hazards, [this](const std::string& what) { complain_once(what); }) {}

  std::vector<std::string> run() {
    if (hazards_.tasks.size() != graph_.nodes().size() + 1) {
      complain("states " + std::to_string(hazards_.tasks.size()) + " tasks");
      return findings_;
    }
    allocate();
    for (std::int32_t id = 0; id < n_nodes(); ++id) {
      run_node(id);
      if (findings_.size() >= most_) return std::move(findings_);
    }
    copy_outputs();
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k)
      if (!memory_.holds(bound_place(k), symbols(graph_.outputs()[k].value)))
        complain("output '" + graph_.outputs()[k].name + "' does not end where it is bound");
    return std::move(findings_);
  }

 private:
  // ---- what there is

  std::int32_t n_nodes() const { return static_cast<std::int32_t>(graph_.nodes().size()); }
  const Storage& storage(ValueId id) const {
    return plan_.storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  }
  std::vector<Symbol>& symbols(ValueId id) { return symbols_[id]; }

  Place place(const Storage& s, const Type& type) const {
    return {s.place, common::space_of(plan_, s), s.offset, s.strides.empty() ? dense_strides(type.shape) : s.strides,
            s.viewed.rank() > 0 ? s.viewed : type.shape, dtype_bytes(type.dtype)};
  }
  Place place(ValueId id) const { return place(storage(id), graph_.type(id)); }

  std::vector<Symbol> fresh(std::int64_t elements) {
    std::vector<Symbol> list(static_cast<std::size_t>(elements));
    for (Symbol& s : list) s = next_symbol_++;
    return list;
  }

  void allocate() {
    std::size_t total = plan_.arena_bytes;
    memory_.allocate({Storage::Place::arena, 0}, plan_.arena_bytes);
    if (plan_.arena_bytes % plan_.alignment != 0) complain("the arena is not whole blocks");
    const auto bound = [&](const Storage& s, ValueId id) {
      memory_.allocate(common::space_of(plan_, s), graph_.type(id).bytes());
      total += graph_.type(id).bytes();
      if (total > k_most_bytes)
        throw Error(ErrorKind::unsupported, "null", "the plan has more than " + std::to_string(k_most_bytes) + " bytes",
                    "The null backend runs plans symbolically: use a smaller plan");
    };
    const auto given = [&](ValueId id, const Storage& s) {
      bound(s, id);
      symbols(id) = fresh(graph_.type(id).shape.elements());
      memory_.write(place(s, graph_.type(id)), &symbols(id));
    };
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k)
      bound({Storage::Place::output, static_cast<std::int32_t>(k), 0, {}}, graph_.outputs()[k].value);
    for (std::size_t k = 0; k < graph_.inputs().size(); ++k)
      given(graph_.inputs()[k].value, {Storage::Place::input, static_cast<std::int32_t>(k), 0, {}});
    for (std::int32_t id = 0; id < n_nodes(); ++id)
      if (graph_.node(id).op == Op::constant) given({id, 0}, {Storage::Place::constant, id, 0, {}});
  }

  // ---- findings

  std::string task_name() const {
    if (task_ == n_nodes()) return "the copy of outputs";
    return task_ < 0 ? "before" : "%" + std::to_string(task_) + " " + std::string(op_info(graph_.node(task_).op).name);
  }
  void complain(const std::string& what) {
    if (findings_.size() < most_) findings_.push_back(what);
  }
  // Only the first of a task and a kind: one mistake shows in many bytes.
  void complain_once(const std::string& what) {
    if (complained_ == what) return;
    complained_ = what;
    complain(task_name() + " " + what);
  }

  // ---- nodes

  void run_node(std::int32_t id) {
    const Node& node = graph_.node(id);
    begin(id);
    if (node.op == Op::input || node.op == Op::constant) return;
    if (op_info(node.op).kind == OpKind::move && node.op != Op::pad) run_move(id);
    else run_plain(id);
    memory_.check_stated();
  }
  void begin(int task) {
    task_ = task;
    memory_.begin(task);
  }

  // Elementwise nodes read an element before they write it, kernels of fused reductions what they need of a row.
  static bool may_lie_under_result(const Node& node, const Shape& operand) {
    if (is_elementwise(node.op) || node.op == Op::fused) return operand == node.outputs[0].shape;
    if (node.op != Op::fused_reduction) return false;
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (rows_per_sum(node, k) == 0 && operand == node.outputs[k].shape) return true;
    return false;
  }
  void run_plain(std::int32_t id) {
    const Node& node = graph_.node(id);
    for (const ValueId& input : node.inputs)
      memory_.read(place(input), symbols(input), may_lie_under_result(node, graph_.type(input).shape));
    const auto at = static_cast<std::size_t>(id);
    if (plan_.scratch_bytes[at] > 0)
      memory_.write({Storage::Place::arena, {Storage::Place::arena, 0}, plan_.scratch_offset[at], {1},
                     {static_cast<std::int64_t>(plan_.scratch_bytes[at])}, 1},
                    nullptr);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      symbols({id, k}) = fresh(node.outputs[static_cast<std::size_t>(k)].shape.elements());
      write_result({id, k}, place(ValueId{id, k}), symbols({id, k}));
    }
    if (node.op == Op::scan) check_scan(id);
  }

  void write_result(ValueId id, const Place& p, const std::vector<Symbol>& now) {
    if (p.kind == Storage::Place::none) return;
    if (p.kind != Storage::Place::arena && p.kind != Storage::Place::output)
      return complain_once("writes over an input or a constant");
    if (p.space.place == Storage::Place::input && storage(id).place != Storage::Place::output)
      return complain_once("writes over an input that is not donated");
    memory_.write(p, &now);
  }

  // Elements of the result are elements of operands; those that lie where they are wanted are not touched.
  void run_move(std::int32_t id) {
    const Node& node = graph_.node(id);
    const ValueId out{id, 0};
    const Place whole = place(out);
    std::vector<Symbol> result(static_cast<std::size_t>(whole.shape.elements()));
    std::vector<std::pair<Place, std::vector<Symbol>>> pieces;  // of the result, not in place
    Place part = whole;
    for (const ValueId& input : node.inputs) {
      const std::vector<std::int64_t> from = sources(node, graph_.type(input).shape);
      if (node.op == Op::concat) part.shape = graph_.type(input).shape;
      std::vector<Symbol> moved(from.size());
      for (std::size_t e = 0; e < from.size(); ++e) moved[e] = symbols(input)[static_cast<std::size_t>(from[e])];
      fill_in(result, node, whole, part, moved);
      if (!lies_there(place(input), from, part)) {
        memory_.read(place(input), symbols(input), false);
        pieces.emplace_back(part, std::move(moved));
      }
      if (node.op == Op::concat) advance(part, node);
    }
    for (const auto& [piece, moved] : pieces) write_result(out, piece, moved);
    symbols(out) = std::move(result);
  }
  void fill_in(std::vector<Symbol>& result, const Node& node, const Place& whole, const Place& part,
               const std::vector<Symbol>& moved) const {
    if (node.op != Op::concat) {
      result = moved;
      return;
    }
    const Ints dense = dense_strides(whole.shape);
    const std::int64_t start = concat_start_;
    const auto axis = static_cast<std::size_t>(node.attributes.get<std::int64_t>("axis"));
    for_elements(part.shape, [&](std::int64_t e, const std::vector<std::int64_t>& at) {
      result[static_cast<std::size_t>(dot(at, dense) + start * dense[axis])] = moved[static_cast<std::size_t>(e)];
    });
  }
  // To the next part of a concat.
  void advance(Place& part, const Node& node) {
    const auto axis = static_cast<std::size_t>(node.attributes.get<std::int64_t>("axis"));
    const std::int64_t length = part.shape[static_cast<int>(axis)];
    part.offset += static_cast<std::size_t>(length * part.strides[axis]) * part.element_bytes;
    concat_start_ += length;
    if (concat_start_ == node.outputs[0].shape[static_cast<int>(axis)]) concat_start_ = 0;
  }

  // For each element of the result (of a part, for concat) the element of the operand that it is.
  static std::vector<std::int64_t> sources(const Node& node, const Shape& x) {
    const Shape& y = node.op == Op::concat || node.op == Op::reshape ? x : node.outputs[0].shape;
    const Ints dense = dense_strides(x);
    Ints strides = dense;
    std::int64_t start = 0;
    if (node.op == Op::slice) {
      const auto axis = static_cast<std::size_t>(node.attributes.get<std::int64_t>("axis"));
      start = node.attributes.get<std::int64_t>("start") * dense[axis];
    } else if (node.op == Op::transpose) {
      const Ints& permutation = node.attributes.get<Ints>("permutation");
      for (std::size_t axis = 0; axis < strides.size(); ++axis)
        strides[axis] = dense[static_cast<std::size_t>(permutation[axis])];
    } else if (node.op == Op::broadcast) {
      strides.assign(static_cast<std::size_t>(y.rank()), 0);
      for (int axis = 0, shift = y.rank() - x.rank(); axis < x.rank(); ++axis)
        if (x[axis] != 1) strides[static_cast<std::size_t>(axis + shift)] = dense[static_cast<std::size_t>(axis)];
    } else if (node.op == Op::windows) {
      const auto axis = static_cast<std::size_t>(node.attributes.get<std::int64_t>("axis"));
      strides[axis] = dense[axis] * node.attributes.get<std::int64_t>("stride");
      strides.insert(strides.end() - 1, dense[axis] * node.attributes.get<std::int64_t>("dilation"));
    }
    std::vector<std::int64_t> list;
    for_elements(y, [&](std::int64_t, const auto& at) { list.push_back(start + dot(at, strides)); });
    return list;
  }

  // Whether each element of the target lies where its source does.
  static bool lies_there(const Place& source, const std::vector<std::int64_t>& from, const Place& target) {
    if (target.shape.elements() == 0) return true;
    if (source.space != target.space || source.kind == Storage::Place::none) return false;
    const auto first = [](const Place& p) { return static_cast<std::int64_t>(p.offset / p.element_bytes); };
    std::vector<std::int64_t> there;
    for_elements(source.shape, [&](std::int64_t, const auto& at) {
      there.push_back(first(source) + dot(at, source.strides));
    });
    bool same = source.offset % source.element_bytes == target.offset % target.element_bytes;
    for_elements(target.shape, [&](std::int64_t e, const auto& at) {
      const auto from_element = static_cast<std::size_t>(from[static_cast<std::size_t>(e)]);
      same = same && there[from_element] == first(target) + dot(at, target.strides);
    });
    return same;
  }

  void check_scan(std::int32_t id) {
    const Node& node = graph_.node(id);
    const auto at = static_cast<std::size_t>(id);
    if (!plan_.bodies[at] || !hazards_.bodies[at]) return complain_once("has no body to run");
    const Plan& body = *plan_.bodies[at];
    std::size_t needed = body.arena_bytes;
    for (int s = 0; s < scan_layout(node).n_states; ++s) {
      const std::size_t bytes = graph_.type(node.inputs[static_cast<std::size_t>(s)]).bytes();
      needed += 2 * ((bytes + plan_.alignment - 1) / plan_.alignment * plan_.alignment);
    }
    if (plan_.scratch_bytes[at] < needed) complain_once("has too little scratch for its body and states");
    if (plan_.scratch_offset[at] % plan_.alignment != 0) complain_once("has scratch that is not aligned");
    for (const std::string& finding : violations(body, *hazards_.bodies[at], most_))
      complain("in the body of %" + std::to_string(id) + ": " + finding);
  }

  // ---- the end

  // All are read before any is written.
  void copy_outputs() {
    begin(n_nodes());
    std::vector<std::size_t> copied;
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      const ValueId id = graph_.outputs()[k].value;
      const Place from = place(plan_.outputs[k], graph_.type(id)), to = bound_place(k);
      std::vector<std::int64_t> each(static_cast<std::size_t>(from.shape.elements()));
      for (std::size_t e = 0; e < each.size(); ++e) each[e] = static_cast<std::int64_t>(e);
      if (lies_there(from, each, to)) continue;
      memory_.read(from, symbols(id), false);
      copied.push_back(k);
    }
    for (const std::size_t k : copied) memory_.write(bound_place(k), &symbols(graph_.outputs()[k].value));
    memory_.check_stated();
  }
  Place bound_place(std::size_t k) const {
    return place({Storage::Place::output, static_cast<std::int32_t>(k), 0, {}}, graph_.type(graph_.outputs()[k].value));
  }

  const Plan& plan_;
  const Graph& graph_;
  const Hazards& hazards_;
  const std::size_t most_;
  SymbolicMemory memory_;
  std::map<ValueId, std::vector<Symbol>> symbols_;  // of every element
  Symbol next_symbol_ = k_first_symbol;
  int task_ = SymbolicMemory::k_before_all;
  std::int64_t concat_start_ = 0;  // along the axis
  std::vector<std::string> findings_;
  std::string complained_;
};

}  // namespace

std::vector<std::string> violations(const Plan& plan, const Hazards& hazards, std::size_t most) {
  return Run(plan, hazards, most).run();
}

}  // namespace unroll::strict
