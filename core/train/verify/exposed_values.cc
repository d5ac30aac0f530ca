// SPDX-License-Identifier: Apache-2.0
#include "core/train/verify/exposed_values.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"

namespace unroll {

namespace {

struct Exposed {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<std::pair<std::string, ValueId>> values;  // of `graph`
};

// Properties of a loop's body that decide which of its values can be exposed.
struct ExposedBody {
  std::size_t n_states = 0;
  std::vector<bool> rows;  // packed: which inputs have the batch as axis 0
  std::int64_t batch = 0;
};

// Elements of a value that is repeated for every row to come out of a packed loop: biases, not weights.
constexpr std::int64_t k_most_shared = 4096;

class Exposing {
 public:
  Exposing(const Graph& source, const ExposedBody* body) : source_(source), body_(body) {}

  Exposed run() {
    for (const Node& node : source_.nodes()) add(node);
    for (const ValueId id : shared_)
      if (const Value rows = in_each_row(at(id))) result_.values.emplace_back(value_name("", id), rows.id());
    for (const NamedValue& output : source_.outputs()) result_.graph->output(output.name, at(output.value));
    for (const auto& [name, id] : result_.values) result_.graph->output(k_exposed + name, result_.graph->value(id));
    return std::move(result_);
  }

 private:
  Value at(const ValueId& id) const {
    return values_[id.node][id.output];
  }
  // v [...] as [B,...]. It must be made of something that has rows, because a packed loop's step has only some of them.
  Value in_each_row(Value v) const {
    for (std::size_t i = 0; i < source_.inputs().size(); ++i) {
      Value row = at(source_.inputs()[i].value);
      if (!body_->rows[i] || row.dtype() == DType::b8 || row.shape().elements() == 0) continue;
      for (int axis = 1; axis < row.rank(); ++axis) row = slice(row, axis, 0, 1);
      if (is_half(row.dtype())) row = cast(row, DType::f32);  // equal does not take 16-bit numbers
      Ints dims(static_cast<std::size_t>(v.rank()) + 1, 1);
      dims[0] = body_->batch;
      return select(equal(reshape(row, Shape(dims)), reshape(row, Shape(dims))), v, v);
    }
    return {};
  }
  bool packed() const { return body_ && !body_->rows.empty(); }

  void add(const Node& node) {
    const auto id = static_cast<std::int32_t>(values_.size());
    if (node.op == Op::input) {
      const std::size_t nth = n_inputs_++;
      values_.push_back({result_.graph->input(node.attributes.get<std::string>("name"), node.outputs[0])});
      by_rows_.push_back(packed() && body_->rows[nth]);
      if (body_ && nth < body_->n_states) expose({id, 0});
      return;
    }
    std::vector<Value> operands;
    bool by_rows = false;
    for (const ValueId& v : node.inputs) {
      operands.push_back(at(v));
      by_rows = by_rows || by_rows_[v.node];
    }
    by_rows_.push_back(by_rows);
    if (node.op == Op::scan) return add_loop(node, id, operands);
    values_.push_back(result_.graph->append_copy(source_, node, operands));
    if (node.op == Op::constant) return;
    const bool saves = node.op != Op::gradient && node.attributes.get_or<std::int64_t>("saved_bytes", 0) > 0;
    for (std::size_t k = 0; k + (saves ? 1 : 0) < node.outputs.size(); ++k) expose({id, static_cast<std::int32_t>(k)});
  }

  void add_loop(const Node& node, std::int32_t id, std::span<const Value> operands) {
    const ScanLayout l = scan_layout(node);
    ExposedBody body{static_cast<std::size_t>(l.n_states), {}, 0};
    if (l.packed) {
      body.batch = node.inputs.empty() || node.body->outputs().empty()
                       ? 0
                       : node.body->type(node.body->outputs()[0].value).shape[0];
      for (std::size_t i = 0; i < node.body->inputs().size(); ++i) {
        const bool sequence = i >= body.n_states && i < body.n_states + static_cast<std::size_t>(l.n_sequences);
        const Type& slice = node.body->type(node.body->inputs()[i].value);
        const bool by_rows = sequence && operands[i].rank() == slice.shape.rank();
        body.rows.push_back(i < body.n_states || by_rows);
      }
    }
    Exposed inner = Exposing(*node.body, &body).run();
    const OriginScope of_node(*result_.graph, node.origin);
    values_.push_back(result_.graph->append(Op::scan, operands, node.attributes, inner.graph));
    const std::size_t n_own = node.outputs.size();
    for (std::size_t k = 0; k < n_own; ++k) expose({id, static_cast<std::int32_t>(k)});
    for (std::size_t k = 0; k < inner.values.size(); ++k)
      expose({id, static_cast<std::int32_t>(n_own + k)}, std::to_string(id) + "/" + inner.values[k].first);
  }

  void expose(ValueId id, std::string name = {}) {
    const Value value = at(id);
    if (value.shape().elements() == 0) return;
    if (packed() && !by_rows_[id.node]) {
      const bool fits = value.shape().elements() <= k_most_shared && value.rank() < Shape::k_max_rank;
      if (name.empty() && fits) shared_.push_back(id);
      return;
    }
    if (packed() && (value.rank() == 0 || value.shape()[0] != body_->batch)) return;
    result_.values.emplace_back(name.empty() ? value_name("", id) : std::move(name), value.id());
  }

  const Graph& source_;
  const ExposedBody* body_;
  Exposed result_;
  PerNode<std::vector<Value>> values_;  // of each node of the source
  std::vector<ValueId> shared_;         // in a packed loop: the same for all rows
  PerNode<bool> by_rows_;               // in a packed loop: made of what has rows
  std::size_t n_inputs_ = 0;
};

}  // namespace

std::string value_name(const std::string& inside, ValueId id) {
  return inside + std::to_string(id.node) + "." + std::to_string(id.output);
}

ExposedGraph expose_values(const Graph& source) {
  Exposed exposed = Exposing(source, nullptr).run();
  ExposedGraph result{exposed.graph, {}};
  for (const auto& value : exposed.values) result.names.insert(value.first);
  return result;
}

}  // namespace unroll
