// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "backends/cuda/resident/resident.h"
#include "unroll/ir/ops.h"

namespace unroll::cuda {

namespace {

using common::Expression;
using common::Strides;
using device::Operand;

// Products of a resident loop are no calls of a library.
const Tf32Values& no_tf32() {
  static const Tf32Values none;
  return none;
}

// The nodes of a step as parts of the kernel of a resident loop.
class LoopCompiler final : public NodeCompiler {
 public:
  LoopCompiler(Program& out, const Plan& body, const common::Hazards& hazards, const ResidentPlan& plan,
               const JoinedNodes& joined, const LoopOptions& options)
      : NodeCompiler(out, body, {options.multiprocessors, nullptr, nullptr, options}, no_tf32()), hazards_(hazards),
        resident_(plan), concats_(joined.concats) {
    for (const ResidentProduct& p : plan.products)
      weights_.push_back(operand(graph().inputs()[p.weight].value));
  }

  // Prepares the loop `scan`, whose rows end at their lengths.
  void pack(const Plan& outer, std::int32_t scan, PlanProgram& made) {
    left_ = set_packed(outer, scan, hazards_, made.states, [&](std::int32_t id) { return !is_done(id); });
  }
  void compile_step(PlanProgram& made) {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph().nodes().size()); ++id) {
      const common::Task& task = hazards_.tasks[id];
      if (task.writes.empty() || is_done(id)) continue;
      NodeWork work{id};
      work.reads = task.reads, work.writes = task.writes;
      const int number = product_of(id);
      if (number >= 0) product(work, number);
      else if (device::is_pointwise(graph().node(id))) elementwise(work);
      else compile(work);
      add_second_places(work);
      if (!work.launches.empty()) made.works.push_back(std::move(work));
    }
    for (const int output : left_) {
      NodeWork work;
      compile_move(work, output);
      made.works.push_back(std::move(work));
    }
  }

  const std::map<int, ResidentPart>& parts() const { return parts_; }
  const device::Operands& weights() const { return weights_; }

 private:
  // Products that wait for what follows them, nodes that it stores, roundings that products do, and concatenations
  // whose parts are stored there too.
  bool is_done(std::int32_t id) const {
    const auto joins = [&](const device::JoinedConcat& each) { return each.concat == id; };
    if (std::any_of(concats_.begin(), concats_.end(), joins)) return true;
    return std::any_of(resident_.products.begin(), resident_.products.end(), [&](const ResidentProduct& p) {
      const auto keeps = [&](const auto& copy) { return copy.first == id; };
      return (id == p.rounding && p.only_rounded) || (p.joined && (id == p.node || std::any_of(p.joined->kept.begin(),
                                                                           p.joined->kept.end(), keeps)));
    });
  }
  // The product that runs where the node is: itself, or before what follows it. -1: none.
  int product_of(std::int32_t id) const {
    for (std::size_t k = 0; k < resident_.products.size(); ++k) {
      const ResidentProduct& p = resident_.products[k];
      if ((p.joined ? p.joined->epilogue : p.node) == id) return static_cast<int>(k);
    }
    return -1;
  }

  // The node also stores parts of concatenations.
  void add_concats(NodeWork& work) const {
    for (const device::JoinedConcat& each : concats_) {
      if (each.node != work.node) continue;
      const auto& writes = hazards_.tasks[each.concat].writes;
      work.writes.insert(work.writes.end(), writes.begin(), writes.end());
    }
  }
  void elementwise(NodeWork& work) {
    work_ = &work;
    add_concats(work);
    Operands operands;
    Expression e = elementwise_expression(work.node, operands);
    units(std::move(e), std::move(operands), outputs_of(work.node, e));
  }
  // Results that are parts of concatenations, too, have a second place there.
  Expression elementwise_expression(std::int32_t id, Operands& operands) {
    Expression e = node_expression(id, operands);
    add_parts(concats_, id, [&](std::int32_t output) { return register_of({id, output}, e); }, e, operands);
    return e;
  }

  // The register of an output of a node in its expression, which also has the inputs that it only stores.
  std::uint16_t register_of(ValueId value, const Expression& e) const {
    const Node& node = graph().node(value.node);
    const Expression all =
        node.op == Op::fused ? common::expression_of_body(*node.body) : common::expression_of_node(graph(), node);
    std::size_t from = all.results[value.output].from;
    if (from >= all.inputs.size()) from += e.inputs.size() - all.inputs.size();
    return static_cast<std::uint16_t>(from);
  }

  void expression(Expression e, Operands operands) override { units(std::move(e), std::move(operands), {}); }
  void units(Expression e, Operands operands, const std::vector<ProducedValue>& produced) {
    // A number for each row has no units; its rows may end.
    const bool is_row = e.shape.rank() == 1 && live_items(e.shape, e.shape.elements()) > 0;
    if (is_row || !UnitPrinter::fits(e, resident_.map))
      return NodeCompiler::expression(std::move(e), std::move(operands));
    UnitPrinter printer(e, operands);
    printer.set_passed(passed_results(resident_, plan_, e, produced));
    const std::int64_t rows = live_items(e.shape, printer.rows());
    std::vector<UnitAccess> accesses = printer.accesses();
    const std::string text = live_text(print_unit_kernel(printer, resident_, rows), operands, 0, rows > 0);
    const int kernel = out_.kernels.add(text, owned());
    launch(kernel, std::move(operands), std::move(accesses), exchange_use(resident_, printer, 0));
  }

  std::vector<ProducedValue> outputs_of(std::int32_t id, const Expression& e) const {
    std::vector<ProducedValue> all;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph().node(id).outputs.size()); ++k)
      all.push_back({{id, k}, 0, register_of({id, k}, e)});
    return all;
  }

  // The blocks of a group compute its rows, so that those of other groups need not wait for them.
  void fused_reduction(std::int32_t id) override {
    NodeCompiler::fused_reduction(id);
    Operands operands;
    const Expression e = node_expression(id, operands);
    Launch& made = work_->launches.back();
    const UnitMap& map = resident_.map;
    const std::int64_t rows = e.shape.elements() / e.shape[e.shape.rank() - 1], own = map.own_rows(rows);
    const std::int64_t at_once = std::max<std::int64_t>(e.sum_rows, 1);  // rows of a block
    const bool has_scratch = made.operands.size() - reads_live_rows(made.operands) != operands.size();
    if (has_scratch || own % at_once != 0 || own / at_once > 2 * map.blocks) return;
    if (map.groups > 1 && (e.shape.rank() < 2 || e.shape[0] != map.rows)) return;
    // The number of rows is a size of the kernel, but not their distribution.
    const std::string shared = "// " + std::to_string(own) + " of " + std::to_string(rows) + " rows\n";
    made.kernel = out_.kernels.add_rows(out_.kernels.text(made.kernel) + shared, out_.kernels.needs(made.kernel));
    parts_[made.kernel].own_rows = own / at_once;
    parts_[made.kernel].all_rows = rows / at_once;
    made.blocks = static_cast<unsigned>(map.n_blocks());
    made.accesses = row_accesses(e, operands);
  }

  static BlockNeeds owned() { return {.threads = k_resident_threads}; }
  void launch(int kernel, Operands operands, std::vector<UnitAccess> accesses, ExchangeUse exchange) {
    const std::size_t words = std::max<std::size_t>((exchange.reads >= 0) + exchange.writes.size(), 1);
    work_->launches.push_back({.kernel = kernel,
                               .operands = std::move(operands),
                               .sizes = std::vector<std::byte>(words * sizeof(std::int64_t)),
                               .blocks = static_cast<unsigned>(resident_.map.n_blocks()),
                               .threads = k_resident_threads,
                               .accesses = std::move(accesses),
                               .exchange = std::move(exchange)});
  }

  void product(NodeWork& work, int number) {
    work_ = &work;
    const ResidentProduct& p = resident_.products[number];
    Operands operands{operand(p.a)};
    std::vector<int> gates;
    const Expression e = p.joined ? joined(p, operands, gates) : stored(p, operands, gates);
    const Operands of_expression(operands.begin() + 1, operands.end());
    UnitPrinter printer(e, of_expression, gates);
    printer.set_passed(passed_results(resident_, plan_, e, produced_by(p, e, gates)));
    const std::size_t element = dtype_bytes(p.a_dtype);
    std::vector<UnitAccess> accesses{{.operand = 0,
                                      .bytes = operands[0].bytes,
                                      .row_bytes = p.row * element,
                                      .width = p.k * element,
                                      .rows = static_cast<std::size_t>(p.m)}};
    for (UnitAccess access : printer.accesses()) {
      ++access.operand;
      accesses.push_back(access);
    }
    const std::int64_t rows = live_items(graph().type({p.node, 0}).shape, p.m);
    const std::string text = live_text(print_resident_product(resident_, number, printer, rows), operands, 0, rows > 0);
    const int kernel = out_.kernels.add(text, owned());
    parts_[kernel] = print_resident_weight(resident_, number);
    ExchangeUse use = exchange_use(resident_, printer, 1);
    use.reads = p.buffer;
    launch(kernel, std::move(operands), std::move(accesses), std::move(use));
    if (p.vectors) work_->launches.back().alignment = 16;
  }

  // Results of the node after the product, and of its gates.
  std::vector<ProducedValue> produced_by(const ResidentProduct& p, const Expression& e,
                                         const std::vector<int>& gates) const {
    std::vector<ProducedValue> all;
    const auto add = [&](ValueId value, std::int64_t first, std::int64_t gate) {
      const auto found = std::find(gates.begin(), gates.end(), gate);
      if (found != gates.end()) all.push_back({value, first, static_cast<std::uint16_t>(found - gates.begin())});
    };
    if (p.joined) {
      all = outputs_of(p.joined->epilogue, e);
      for (const auto& [copy, gate] : p.joined->kept)
        if (!device::is_overwritten(plan_, *p.joined, copy)) add({copy, 0}, 0, gate);
    }
    for (std::int64_t gate = 0; gate < p.gates; ++gate) add({p.node, 0}, gate * p.units, gate);
    return all;
  }

  // The gates as they are: gate g to columns [g * units, (g + 1) * units) of the product.
  Expression stored(const ResidentProduct& p, Operands& operands, std::vector<int>& gates) {
    Expression e;
    e.shape = Shape{p.m, p.units};
    const ValueId c{p.node, 0};
    for (std::int64_t gate = 0; gate < p.gates; ++gate) {
      e.inputs.push_back({DType::f32, {}});
      gates.push_back(static_cast<int>(gate));
      store_gate(e, static_cast<std::uint16_t>(gate), p, c, gate, operands);
    }
    return e;
  }
  void store_gate(Expression& e, std::uint16_t from, const ResidentProduct& p, ValueId c, std::int64_t gate,
                  Operands& operands) {
    Expression::Result result{from, {}};
    const Ints whole = common::strides_of(plan_, c);
    result.strides[0] = whole[whole.size() - 2];
    result.strides[1] = whole.back();
    e.results.push_back(result);
    operands.push_back(operand(c));
    device::skip(operands.back(), gate * p.units, DType::f32);
  }

  // The node after the product: gates are its sums. It also stores the gates that something else reads.
  Expression joined(const ResidentProduct& p, Operands& operands, std::vector<int>& gates) {
    Operands all;
    Expression e = elementwise_expression(p.joined->epilogue, all);
    gates = p.joined->gates;
    for (std::size_t k = 0; k < all.size(); ++k)
      if (k >= gates.size() || gates[k] < 0) operands.push_back(all[k]);
    const auto input_of = [&](std::int64_t gate) {
      return static_cast<std::uint16_t>(std::find(gates.begin(), gates.end(), gate) - gates.begin());
    };
    for (const auto& [copy, gate] : p.joined->kept) {
      if (device::is_overwritten(plan_, *p.joined, copy)) continue;
      e.results.push_back({input_of(gate), strides({copy, 0}, e.shape)});
      operands.push_back(operand({copy, 0}));
    }
    for (std::int64_t gate = 0; p.joined->stores && gate < p.gates; ++gate)
      store_gate(e, input_of(gate), p, {p.node, 0}, gate, operands);
    return e;
  }

  const common::Hazards& hazards_;
  const ResidentPlan& resident_;
  const std::vector<device::JoinedConcat>& concats_;
  std::map<int, ResidentPart> parts_;  // by kernel
  device::Operands weights_;
  std::vector<int> left_;  // outputs that no node stores
};

// Products with what follows them in the same step, where all gates that something else needs are at hand.
std::vector<device::Joined> joined_in_step(const Plan& body, const common::Hazards& hazards,
                                           const device::LoopOutputs& outputs,
                                           const std::vector<device::JoinedConcat>& concats) {
  std::vector<device::Joined> joined = device::joined_products(body, hazards, outputs, concats);
  std::erase_if(joined, [&](const device::Joined& each) {
    bool misses = each.state >= 0;
    for (int gate = 0; each.stores && gate < each.n_gates; ++gate)
      misses = misses || !std::count(each.gates.begin(), each.gates.end(), gate);
    return misses || (each.stores && body.graph->type({each.epilogue, 0}).shape.rank() != 2);
  });
  return joined;
}

}  // namespace

ResidentLoop compile_resident(Program& out, const Plan& outer, std::int32_t scan, const common::Hazards& hazards,
                              const device::LoopOutputs& outputs, const LoopOptions& options) {
  const std::shared_ptr<const Plan>& body = outer.bodies[scan];
  JoinedNodes joined;
  joined.concats = device::joined_concats(*body, hazards);
  joined.products = joined_in_step(*body, hazards, outputs, joined.concats);
  ResidentLoop made;
  // Fused reductions have shared memory of their own; how much is known when they are printed.
  std::size_t static_bytes = 0;
  for (int attempts = 0; attempts < 2; ++attempts) {
    const ResidentPlan plan = plan_resident(outer, scan, hazards, joined, options, static_bytes);
    made.reason = plan.reason;
    if (!plan.reason.empty()) return made;
    Program attempt = out;
    attempt.kernels = {};
    LoopCompiler compiler(attempt, *body, hazards, plan, joined, options);
    const bool is_packed = scan_layout(outer.graph->node(scan)).packed;
    made.body = places_of(attempt, body, is_packed ? device::LoopOutputs{} : outputs, compiler);
    if (is_packed) compiler.pack(outer, scan, *made.body);
    compiler.compile_step(*made.body);
    WholeLoop loop{.threads = k_resident_threads,
                   .blocks = static_cast<unsigned>(plan.map.n_blocks()),
                   .group_blocks = static_cast<unsigned>(plan.map.blocks),
                   .shared_bytes = plan.shared_bytes,
                   .weights = compiler.weights(),
                   .buffers = plan.widths(),
                   .what = plan.what()};
    Kernels kernels = out.kernels;
    const LoopText text{attempt.kernels, *made.body, compiler.parts(), print_buffers(plan), print_begin(plan)};
    if (!print_loop(text, loop, kernels, made.reason)) return made;
    static_bytes = loop.static_bytes;
    if (loop.shared_bytes + loop.static_bytes > options.shared_bytes) continue;
    attempt.kernels = std::move(kernels);
    out = std::move(attempt);
    made.loop = std::move(loop);
    return made;
  }
  made.reason = "its fused reductions leave no shared memory for the weights";
  return made;
}

}  // namespace unroll::cuda
