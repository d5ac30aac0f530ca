// SPDX-License-Identifier: Apache-2.0
// Operands of products that the blocks of a cluster pass to each other, and the nodes that compute them.
#include <algorithm>

#include "backends/cuda/resident/resident.h"
#include "unroll/ir/ops.h"

namespace unroll::cuda {

namespace {

class Finder {
 public:
  Finder(const Plan& body, const ScanForm& form, const common::Hazards& hazards,
         const std::vector<device::JoinedConcat>& concats, const std::vector<ResidentProduct>& products)
      : graph_(*body.graph), form_(form), hazards_(hazards), concats_(concats), products_(products) {}

  // None: another kernel computes it, or parts of it.
  std::vector<ExchangeSource> sources(ValueId a) const {
    for (std::size_t j = 0; j < form_.states.size(); ++j)
      if (graph_.inputs()[j].value == a) {  // the step before computed it
        a = graph_.outputs()[j].value;
        break;
      }
    const Node& node = graph_.node(a.node);
    std::vector<ExchangeSource> all;
    if (node.op == Op::concat && is_stored_by_parts(a.node)) {
      std::int64_t first = 0;
      for (const ValueId part : node.inputs) {
        all.push_back({part.node, part.output, first});
        first += graph_.type(part).shape[graph_.type(part).shape.rank() - 1];
      }
    } else {
      all.push_back({a.node, a.output, 0});
    }
    for (const ExchangeSource& each : all)
      if (!is_by_units(each)) return {};
    return all;
  }

 private:
  bool is_stored_by_parts(std::int32_t concat) const {
    const Node& node = graph_.node(concat);
    if (device::axis_of(node) != graph_.type({concat, 0}).shape.rank() - 1) return false;
    const auto joins = [&](const device::JoinedConcat& each) { return each.concat == concat; };
    return hazards_.tasks[concat].writes.empty() || std::any_of(concats_.begin(), concats_.end(), joins);
  }
  bool is_by_units(const ExchangeSource& source) const {
    const Node& node = graph_.node(source.node);
    const auto is_it = [&](const ResidentProduct& p) { return p.node == source.node; };
    const Shape& shape = graph_.type({source.node, source.output}).shape;
    const bool has_units = shape.rank() > 1 && shape[shape.rank() - 1] > 1;
    return has_units && (device::is_pointwise(node) || std::any_of(products_.begin(), products_.end(), is_it));
  }

  const Graph& graph_;
  const ScanForm& form_;
  const common::Hazards& hazards_;
  const std::vector<device::JoinedConcat>& concats_;
  const std::vector<ResidentProduct>& products_;
};

// True if only products read the operand, from the buffer.
bool only_products_read(const ResidentPlan& plan, const Plan& body, const ExchangeBuffer& buffer) {
  const Graph& graph = *body.graph;
  const auto& storage = body.storage[buffer.a.node];
  if (storage[buffer.a.output].place != Storage::Place::arena) return false;
  if (buffer.sources.size() != 1 || buffer.sources[0].node != buffer.a.node) return false;  // a state, or by parts
  for (const NamedValue& output : graph.outputs())
    if (output.value == buffer.a) return false;
  const auto is_one = [&](std::int32_t reader) {
    return std::any_of(buffer.products.begin(), buffer.products.end(), [&](int number) {
      const ResidentProduct& p = plan.products[number];
      return p.rounding >= 0 ? p.only_rounded && p.rounding == reader : p.node == reader;
    });
  };
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (std::count(node.inputs.begin(), node.inputs.end(), buffer.a) > 0 && !is_one(id)) return false;
  }
  return true;
}

// True if the product would read the result where it is stored.
bool lies_as(const ExchangeBuffer& buffer, const common::Expression& e, const common::Expression::Result& result) {
  const int rank = e.shape.rank();
  if (rank < 2 || e.shape.elements() / e.shape[rank - 1] != buffer.m) return false;
  if (result.strides[rank - 1] != 1) return false;
  std::vector<std::int64_t> sizes, steps;
  for (int axis = 0; axis + 1 < rank; ++axis) {
    sizes.push_back(e.shape[axis]);
    steps.push_back(result.strides[axis]);
  }
  const device::Axes axes = device::joined_axes(sizes, {steps});
  return axes.sizes.empty() || (axes.sizes.size() == 1 && axes.strides[0][0] == buffer.row);
}

}  // namespace

std::vector<ExchangeBuffer> find_exchange_buffers(const Plan& body, const ScanForm& form,
                                                  const common::Hazards& hazards,
                                                  const std::vector<device::JoinedConcat>& concats,
                                                  std::vector<ResidentProduct>& products) {
  const Finder finder(body, form, hazards, concats, products);
  std::vector<ExchangeBuffer> all;
  for (int number = 0; number < static_cast<int>(products.size()); ++number) {
    ResidentProduct& p = products[number];
    const auto shares = [&](const ExchangeBuffer& each) {
      const ResidentProduct& other = products[each.products[0]];
      return each.a == p.a && other.kind == p.kind && (other.rounding >= 0) == (p.rounding >= 0);
    };
    auto found = std::find_if(all.begin(), all.end(), shares);
    if (found == all.end()) {
      ExchangeBuffer made{.a = p.a, .sources = finder.sources(p.a), .m = p.m, .k = p.k, .row = p.row};
      if (made.sources.empty()) continue;
      made.element = p.kind == ProductKind::bf16 || p.kind == ProductKind::f16 ? 2 : 4;
      found = all.insert(all.end(), std::move(made));
    }
    found->products.push_back(number);
    p.buffer = static_cast<int>(found - all.begin());
  }
  return all;
}

std::vector<ExchangeWidth> ResidentPlan::widths() const {
  std::vector<ExchangeWidth> all;
  for (const ExchangeBuffer& each : buffers) all.push_back({each.k, each.products.size()});
  return all;
}

std::vector<PassedResult> passed_results(const ResidentPlan& plan, const Plan& body, const common::Expression& e,
                                         const std::vector<ProducedValue>& produced) {
  std::vector<PassedResult> all;
  for (int number = 0; number < static_cast<int>(plan.buffers.size()); ++number) {
    const ExchangeBuffer& buffer = plan.buffers[number];
    for (const ExchangeSource& source : buffer.sources)
      for (const ProducedValue& each : produced) {
        if (each.value != ValueId{source.node, source.output}) continue;
        PassedResult made{.buffer = number, .first = source.first + each.first};
        for (std::size_t k = 0; k < e.results.size(); ++k)
          if (e.results[k].from == each.from && lies_as(buffer, e, e.results[k])) made.results.push_back(k);
        made.only_there = made.results.size() == 1 && only_products_read(plan, body, buffer);
        if (!made.results.empty()) all.push_back(std::move(made));
      }
  }
  return all;
}

ExchangeUse exchange_use(const ResidentPlan& plan, const UnitPrinter& printer, std::size_t first_access) {
  ExchangeUse use;
  use.writes = buffers_of(printer.passed());
  for (const PassedResult& each : printer.passed()) {
    const ExchangeBuffer& buffer = plan.buffers[each.buffer];
    const ResidentProduct& p = plan.products[buffer.products[0]];
    ExchangeUse::Piece piece{each.buffer, each.first, printer.units(), dtype_bytes(p.a_dtype), {}, each.only_there};
    for (const std::size_t result : each.results) piece.accesses.push_back(first_access + printer.access_of(result));
    use.pieces.push_back(std::move(piece));
  }
  return use;
}

std::vector<int> buffers_of(const std::vector<PassedResult>& passed) {
  std::vector<int> all;
  for (const PassedResult& each : passed)
    if (!std::count(all.begin(), all.end(), each.buffer)) all.push_back(each.buffer);
  return all;
}

}  // namespace unroll::cuda
