// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/columns.h"

#include <algorithm>

#include "core/support/text/counted.h"
#include "unroll/ir/ops.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

Index last_of(const Shape& shape) { return shape.rank() == 0 ? 0 : shape[shape.rank() - 1]; }
Index rows_of(const Shape& shape) { return last_of(shape) == 0 ? 0 : shape.elements() / last_of(shape); }

// In a packed scan the first axis counts rows; a step may have fewer of them.
int least_rank(const PlanView& view) { return view.packed ? 2 : 1; }

bool is_pointwise(const PlanView& view, const Node& node) {
  const Shape& shape = node.outputs[0].shape;
  if (shape.rank() < least_rank(view) || shape.elements() == 0) return false;
  if (node.op == Op::slice || node.op == Op::fused) return true;
  return is_elementwise(node.op);
}

// True for a concat along the last axis of pieces of equal size.
bool is_concat_of_equals(const PlanView& view, const Node& node) {
  const Graph& graph = view.graph();
  if (node.op != Op::concat || node.outputs[0].shape.rank() < least_rank(view)) return false;
  const Shape& shape = node.outputs[0].shape;
  if (node.attributes.get<Index>("axis") != shape.rank() - 1 || shape.elements() == 0) return false;
  const Index units = last_of(graph.type(node.inputs[0]).shape);
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](const ValueId& id) { return last_of(graph.type(id).shape) == units; });
}

// An operand of a pointwise call, over the call's whole shape.
struct Strided {
  Ref ref;
  DType dtype;
  Strides strides{};
  Index apart_groups = 0;  // groups of the matmul that it is a group of; 0: normal rows of columns
  Index group = 0;
};

// First element of a worker's columns in the operand, and their strides.
struct OwnOperand {
  Ref ref;
  Strides strides;
};
OwnOperand own_operand(const Strided& operand, const Shape& shape, Range units) {
  const Index size = element_bytes(operand.dtype);
  const std::size_t last = shape.rank() - 1;
  const Index width = units.end - units.begin;
  Index skip = units.begin * operand.strides[last];
  Strides strides = operand.strides;
  if (operand.apart_groups > 0) {  // rows of the worker's columns, all groups in each
    skip = operand.apart_groups * rows_of(shape) * units.begin + operand.group * width;
    strides = dense_strides(shape.with(shape.rank() - 1, operand.apart_groups * width));
  }
  return {{operand.ref.base, operand.ref.offset + skip * size}, strides};
}

Access access_of(const Strided& operand, const Shape& shape, bool writes) {
  const Index size = element_bytes(operand.dtype), units = last_of(shape);
  if (operand.apart_groups > 0) {
    const std::size_t bytes = operand.apart_groups * shape.elements() * size;
    return {operand.ref, bytes, {units, static_cast<Index>(operand.ref.offset), size, true}, writes};
  }
  Index reach = 1;
  bool by_units = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const Index stride = operand.strides[axis];
    reach += (shape[axis] - 1) * stride;
    if (shape[axis] == 1) continue;
    by_units = by_units && (axis + 1 == shape.rank() ? stride == 1 : stride % units == 0);
  }
  Owner owner;
  if (by_units) owner = {units, static_cast<Index>(operand.ref.offset) % (units * size), size, false};
  return {operand.ref, static_cast<std::size_t>(reach * size), owner, writes};
}

// One program for each number of columns that workers have.
class OwnPrograms {
 public:
  OwnPrograms(Expression source, const std::vector<Strided>& inputs, const std::vector<Strided>& results, int parts) {
    const Shape shape = source.shape;
    const int last = shape.rank() - 1;
    Index known = -1;
    for (int worker = 0; worker < parts; ++worker) {
      const Range units = units_of(worker, parts, shape[last]);
      const Index width = units.end - units.begin;
      Own own;
      source.shape = shape.with(last, width);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const OwnOperand at = own_operand(inputs[i], shape, units);
        source.inputs[i].strides = at.strides;
        own.inputs.push_back(at.ref);
      }
      for (std::size_t k = 0; k < results.size(); ++k) {
        const OwnOperand at = own_operand(results[k], shape, units);
        source.results[k].strides = at.strides;
        own.results.push_back(at.ref);
      }
      own.in.resize(inputs.size());
      own.out.resize(results.size());
      own.program = width == known ? parts_.back().program : std::make_shared<const Elementwise>(source);
      known = width;
      parts_.push_back(std::move(own));
    }
  }

  void run(const Frame& frame, const Worker& worker) {
    Own& own = parts_[worker.index];
    for (std::size_t i = 0; i < own.in.size(); ++i) own.in[i] = own.inputs[i].in(frame);
    for (std::size_t k = 0; k < own.out.size(); ++k) own.out[k] = own.results[k].in(frame);
    own.program->run(own.in, own.out, Worker{}, frame.rows);
  }

 private:
  struct alignas(64) Own {
    std::shared_ptr<const Elementwise> program;
    std::vector<Ref> inputs, results;
    std::vector<const void*> in;
    std::vector<void*> out;
  };
  std::vector<Own> parts_;
};

std::vector<Access> accesses_of(const Shape& shape, const std::vector<Strided>& inputs,
                                const std::vector<Strided>& results) {
  std::vector<Access> accesses;
  for (const Strided& input : inputs) accesses.push_back(access_of(input, shape, false));
  for (const Strided& result : results) accesses.push_back(access_of(result, shape, true));
  return accesses;
}

class ColumnElementwise : public Call {
 public:
  ColumnElementwise(const Expression& source, const std::vector<Strided>& inputs, const std::vector<Strided>& results,
                    int parts)
      : programs_(source, inputs, results, parts),
        accesses_(accesses_of(source.shape, inputs, results)),
        n_instructions_(source.instructions.size()) {}
  void run(const Frame& frame, const Worker& worker) override { programs_.run(frame, worker); }
  std::string implementation() const override {
    return "tiles of own columns, " + counted(n_instructions_, "op");
  }
  std::vector<Access> accesses() const override { return accesses_; }

 private:
  OwnPrograms programs_;
  std::vector<Access> accesses_;
  std::size_t n_instructions_;
};

// Copies whose source and destination differ in this step.
class ColumnCopies : public Call {
 public:
  explicit ColumnCopies(int parts) : parts_(parts) {}
  void add(const Shape& shape, const Strided& from, const Strided& to) {
    Expression source;
    source.shape = shape;
    source.inputs.push_back({from.dtype, from.strides});
    source.results.push_back({0, to.strides});
    pieces_.push_back({from.ref, to.ref, OwnPrograms(std::move(source), {from}, {to}, parts_)});
    for (Access& access : accesses_of(shape, {from}, {to})) accesses_.push_back(access);
  }
  bool empty() const { return pieces_.empty(); }
  void run(const Frame& frame, const Worker& worker) override {
    for (Piece& piece : pieces_)
      if (piece.from.in(frame) != piece.to.in(frame)) piece.copy.run(frame, worker);
  }
  std::string implementation() const override {
    return "copy of " + std::to_string(pieces_.size()) + " by own columns";
  }
  std::vector<Access> accesses() const override { return accesses_; }

 private:
  struct Piece {
    Ref from, to;
    OwnPrograms copy;
  };
  int parts_;
  std::vector<Piece> pieces_;
  std::vector<Access> accesses_;
};

// Returns the place of a slice's elements in its source.
Ref slice_ref(const PlanView& view, const Node& slice) {
  const ValueId whole = slice.inputs[0];
  const std::size_t axis = slice.attributes.get<Index>("axis");
  const Index skip = slice.attributes.get<Index>("start") * view.strides(whole)[axis];
  const Ref ref = view.ref(whole);
  return {ref.base, ref.offset + skip * element_bytes(slice.outputs[0].dtype)};
}
bool is_view(const PlanView& view, std::int32_t slice) {
  return view.ref({slice, 0}) == slice_ref(view, view.graph().node(slice));
}

bool same_places(const Shape& shape, const Strides& a, const Strides& b) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && a[axis] != b[axis]) return false;
  return true;
}

// A slice of a matmul in separate columns, read there.
Strided group_of(const PlanView& view, const ColumnSplit::Product& product, const Node& slice) {
  Strided operand{view.ref(slice.inputs[0]), slice.outputs[0].dtype};
  operand.apart_groups = product.groups;
  operand.group = slice.attributes.get<Index>("start") / last_of(slice.outputs[0].shape);
  return operand;
}

// A value as operand of a call of this shape. A slice that is copied is read from its copy, because the matmul's memory
// may already hold another value.
Strided operand_of(const PlanView& view, const ColumnSplit& split, const ValueId& id, const Shape& shape) {
  const Node& node = view.graph().node(id.node);
  if (node.op == Op::slice && is_view(view, id.node))
    if (const auto& product = split.product(node.inputs[0].node); product.apart) return group_of(view, product, node);
  return {view.ref(id), view.graph().type(id).dtype, view.strides(id, shape)};
}

}  // namespace

Range units_of(int worker, int parts, Index units) {
  for (Index grain = 16;; grain /= 2) {
    const Index blocks = (units + grain - 1) / grain;
    const Index most = (blocks + parts - 1) / parts * grain;  // per worker
    if (grain == 1 || most * parts * 16 <= units * 17) return Worker{worker, parts}.share(units, grain);
  }
}

ColumnSplit::ColumnSplit(const PlanView& view, const ScanForm& form)
    : view_(view), splits_(view.graph().nodes().size(), false), products_(view.graph().nodes().size()) {
  const Graph& graph = view.graph();
  for (std::size_t i = 0; i < splits_.size(); ++i)
    splits_[i] = is_pointwise(view, graph.nodes()[i]) || is_concat_of_equals(view, graph.nodes()[i]);
  for (const ScanForm::Product& product : form.products)
    if (is_packed_matmul(view, product.node, form)) products_[product.node] = product_of(product);
}

ColumnSplit::Product ColumnSplit::product_of(const ScanForm::Product& product) const {
  if (product.gates > 1 && gates_read_by_columns(product)) return {product.units, product.gates, true};
  return {product.n, 1, false};
}

// True if only slices of one gate each read the matmul, and only column calls of one gate's shape read the gates
// without copying them.
bool ColumnSplit::gates_read_by_columns(const ScanForm::Product& product) const {
  const Graph& graph = view_.graph();
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& slice = graph.nodes()[i];
    const ValueId gate{static_cast<std::int32_t>(i), 0}, whole{product.node, 0};
    if (std::find(slice.inputs.begin(), slice.inputs.end(), whole) == slice.inputs.end()) continue;
    if (slice.op != Op::slice || last_of(slice.outputs[0].shape) != product.units) return false;
    if (!is_view(view_, gate.node)) continue;  // copied, by columns
    for (std::size_t k = i + 1; k < graph.nodes().size(); ++k) {
      const Node& reader = graph.nodes()[k];
      if (std::find(reader.inputs.begin(), reader.inputs.end(), gate) == reader.inputs.end()) continue;
      const bool pointwise = reader.op == Op::fused || is_elementwise(reader.op);
      if (!pointwise || !splits(static_cast<std::int32_t>(k)) || reader.outputs[0].shape != slice.outputs[0].shape)
        return false;
    }
  }
  return true;
}

std::unique_ptr<Call> make_column_call(const PlanView& view, std::int32_t id, const ColumnSplit& split) {
  const Node& node = view.graph().node(id);
  const Shape& shape = node.outputs[0].shape;
  const int parts = view.parts;
  const auto output = [&](std::int32_t k) {
    const ValueId out{id, k};
    return Strided{view.ref(out), node.outputs[k].dtype, view.strides(out)};
  };
  if (node.op == Op::slice) {
    if (is_view(view, id)) return nullptr;
    const auto& product = split.product(node.inputs[0].node);
    const Strided from = product.apart
                             ? group_of(view, product, node)
                             : Strided{slice_ref(view, node), node.outputs[0].dtype, view.strides(node.inputs[0])};
    auto copies = std::make_unique<ColumnCopies>(parts);
    copies->add(shape, from, output(0));
    return copies;
  }
  if (node.op == Op::concat) {
    auto copies = std::make_unique<ColumnCopies>(parts);
    const Strided to = output(0);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Shape& piece = view.graph().type(node.inputs[i]).shape;
      const Strided from = operand_of(view, split, node.inputs[i], piece);
      Strided there = to;
      there.ref.offset += i * last_of(piece) * element_bytes(to.dtype);
      if (from.apart_groups == 0 && from.ref == there.ref && same_places(piece, from.strides, there.strides))
        continue;  // written in place
      copies->add(piece, from, there);
    }
    if (copies->empty()) return nullptr;
    return copies;
  }
  Expression source =
      node.op == Op::fused ? common::expression_of_body(*node.body) : common::expression_of_node(view.graph(), node);
  std::vector<Strided> inputs, results;
  for (const ValueId& input : node.inputs) inputs.push_back(operand_of(view, split, input, shape));
  std::vector<Ref> read;
  for (const Strided& input : inputs) read.push_back(input.ref);
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    results.push_back(output(static_cast<std::int32_t>(k)));
    source.results[k].apart = view.is_apart(results[k].ref, read);
  }
  return std::make_unique<ColumnElementwise>(std::move(source), inputs, results, parts);
}

std::unique_ptr<Call> make_column_output_copies(const PlanView& view, int n_states, bool& possible) {
  const std::vector<OutputPiece> pieces = output_pieces(view, n_states);
  possible = std::none_of(pieces.begin(), pieces.end(), [&](const OutputPiece& piece) {
    return piece.staged || piece.type.shape.rank() < least_rank(view);
  });
  if (!possible || pieces.empty()) return nullptr;
  auto copies = std::make_unique<ColumnCopies>(view.parts);
  for (const OutputPiece& piece : pieces) {
    const Strides strides = dense_strides(piece.type.shape);
    copies->add(piece.type.shape, {piece.from, piece.type.dtype, strides}, {piece.to, piece.type.dtype, strides});
  }
  return copies;
}

}  // namespace unroll::cpu
