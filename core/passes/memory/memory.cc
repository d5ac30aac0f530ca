// SPDX-License-Identifier: Apache-2.0
// The memory plan assigns a location to every value. Values with disjoint lifetimes share bytes of the arena.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "core/passes/memory/branches.h"
#include "core/passes/memory/views.h"
#include "core/passes/passes.h"
#include "core/support/checked_size.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/row_sums.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

bool is_off(const PlanOptions& options, std::string_view name) {
  return std::find(options.without.begin(), options.without.end(), name) != options.without.end();
}

// Arena bytes that are in use while nodes first .. last run.
struct Block {
  std::int32_t first, last;
  std::size_t bytes;
  std::size_t offset = 0;
};

// Finds nodes that may run at once: those in different branches of one fork.
class Concurrency {
 public:
  Concurrency(std::size_t n_nodes, const std::vector<Fork>& forks) : of_(n_nodes + 1), forks_(forks) {
    for (std::size_t f = 0; f < forks.size(); ++f)
      for (std::size_t b = 0; b < forks[f].n_branches(); ++b)
        for (std::int32_t i = forks[f].bounds[b]; i < forks[f].bounds[b + 1]; ++i)
          of_[i] = {static_cast<std::int32_t>(f), static_cast<std::int32_t>(b)};
  }
  bool at_once(std::int32_t a, std::int32_t b) const {
    const BranchOf &x = of_[a], &y = of_[b];
    return x.fork >= 0 && x.fork == y.fork && x.branch != y.branch;
  }
  std::int32_t first_of_fork(std::int32_t node) const { return fork(node).bounds.front(); }
  std::int32_t last_of_fork(std::int32_t node) const { return fork(node).bounds.back() - 1; }

 private:
  const Fork& fork(std::int32_t node) const {
    return forks_[of_[node].fork];
  }
  std::vector<BranchOf> of_;  // [node], and none for the end
  const std::vector<Fork>& forks_;
};

// Greedy by size (Pisarchyk, Lee 2020, arXiv 2001.03288): the largest block first, each at the lowest offset that is
// free during its lifetime.
std::size_t place_blocks(std::vector<Block>& blocks, bool reuse, const Concurrency& concurrency) {
  // True if all accesses to `a` are finished before the first one to `b`.
  const auto before = [&](const Block& a, const Block& b) {
    return a.last < b.first && !concurrency.at_once(a.last, b.first);
  };
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<std::size_t> placed;  // ascending offset
  CheckedSize total = 0;
  std::size_t peak = 0;
  for (const std::size_t i : order) {
    Block& block = blocks[i];
    std::size_t offset = 0;
    for (const std::size_t k : placed) {
      const Block& other = blocks[k];
      if (reuse && (before(other, block) || before(block, other))) continue;
      if (offset + block.bytes <= other.offset) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    block.offset = offset;
    total = CheckedSize(offset) + CheckedSize(block.bytes);
    peak = std::max(peak, total.require(ErrorKind::memory, "plan", "the arena overflows"));
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](std::size_t o, std::size_t k) { return o < blocks[k].offset; });
    placed.insert(at, i);
  }
  return peak;
}

class MemoryPlanner {
 public:
  MemoryPlanner(std::shared_ptr<const Graph> graph, const Capabilities& backend, const PlanOptions& options)
      : graph_(*graph), backend_(backend), options_(options), plan_(std::make_shared<Plan>()) {
    plan_->graph = std::move(graph);
    plan_->weights = options.weights;
    plan_->one_thread = options.one_thread;
    plan_->alignment = backend.alignment;
    if (backend.lanes > 1 && !options.one_thread && !is_off(options, "branches"))
      plan_->forks = neighboring_branches(graph_);
    concurrency_.emplace(graph_.nodes().size(), plan_->forks);
    const auto nodes = graph_.nodes();
    const auto n = nodes.size();
    plan_->storage.resize(n);
    plan_->bodies.resize(n);
    plan_->scratch_offset.resize(n);
    plan_->scratch_bytes.resize(n);
    for (std::size_t i = 0; i < n; ++i) plan_->storage[i].resize(nodes[i].outputs.size());
    const bool strided = backend.views && !is_off(options, "views");
    views_ = find_views(graph_, {strided, strided && backend.windows_as_rows && !is_off(options, "windows_as_rows")});
  }

  std::shared_ptr<const Plan> run() {
    find_lifetimes();
    resolve_donors();
    place_outputs();
    std::vector<Block> blocks = collect_blocks();
    plan_->arena_bytes = aligned(place_blocks(blocks, !is_off(options_, "reuse"), *concurrency_));
    assign(blocks);
    return plan_;
  }

 private:
  std::size_t aligned(std::size_t bytes) const {
    return CheckedSize(bytes).aligned(backend_.alignment).require(ErrorKind::memory, "plan", "a value is too large");
  }

  struct Life {
    std::int32_t first = -1, last = -1;  // nodes that write first and read last; where that is in one of several
                                         // branches that touch it, the ends of their fork
    bool read = false;
    bool in_branches = false;  // several branches touch it, and nothing after their fork does
  };
  template <class T>
  static auto& at(T& table, const ValueId& id) {
    return table[id.node][id.output];
  }
  const View& view(const ValueId& id) const { return at(views_, id); }
  bool is_whole(const ValueId& id) const {  // the value is exactly its root
    return view(id).start == 0 && view(id).strides.empty() &&
           graph_.type(id).bytes() == graph_.type(view(id).root).bytes();
  }

  void touch(Life& life, std::int32_t node) {
    const std::int32_t before = life.last;  // nodes come in order
    if (before < 0) life.first = node;
    life.last = std::max(life.last, node);
    if (node > before) life.in_branches = false;
    if (before >= 0 && concurrency_->at_once(before, node)) fill_fork(life, node);
  }
  void fill_fork(Life& life, std::int32_t node) {
    life.first = std::min(life.first, concurrency_->first_of_fork(node));
    life.last = std::max(life.last, concurrency_->last_of_fork(node));
    life.in_branches = true;
  }

  void find_lifetimes() {
    const auto n = static_cast<std::int32_t>(graph_.nodes().size());
    life_.resize(n);
    for (std::int32_t i = 0; i < n; ++i) life_[i].resize(graph_.node(i).outputs.size());
    for (std::int32_t i = 0; i < n; ++i) {
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(i).outputs.size()); ++k)
        touch(at(life_, view({i, k}).root), i);
      for (const ValueId& id : graph_.node(i).inputs) {
        Life& life = at(life_, view(id).root);
        touch(life, i);
        life.read = true;
      }
    }
    for (const NamedValue& output : graph_.outputs()) {
      Life& life = at(life_, view(output.value).root);
      life.last = n;
      life.read = true;
    }
    if (backend_.tuning.joins_products) live_together();
  }

  // Over all axes but the last one.
  bool sums_rows(const Node& node) const {
    if (node.op != Op::reduce_sum) return false;
    Ints leading(static_cast<std::size_t>(graph_.type(node.inputs[0]).shape.rank()));
    std::iota(leading.begin(), leading.end(), 0);
    if (!leading.empty()) leading.pop_back();
    return node.attributes.get<Ints>("axes") == leading;
  }
  // Weight gradients d^T x and d^T h, and the sums of d: what they read lives until the last of them has run, and what
  // they write from the first of them on.
  void live_together() {
    std::map<ValueId, std::vector<std::int32_t>> readers;  // of the value behind the views
    const auto n = static_cast<std::int32_t>(graph_.nodes().size());
    for (std::int32_t i = 0; i < n; ++i) {
      const Node& node = graph_.node(i);
      const bool is_product = node.op == Op::matmul && node.attributes.get_or<bool>("transpose_a", false);
      if (is_product || sums_rows(node)) readers[view(node.inputs[0]).root].push_back(i);
    }
    for (const auto& [root, nodes] : readers)
      for (const std::int32_t i : nodes) {
        Life& made = at(life_, view({i, 0}).root);
        made.first = std::min(made.first, nodes.front());
        if (concurrency_->at_once(nodes.front(), i)) fill_fork(made, i);
        for (const ValueId& id : graph_.node(i).inputs) {
          Life& read = at(life_, view(id).root);
          read.last = std::max(read.last, nodes.back());
          if (concurrency_->at_once(i, nodes.back())) fill_fork(read, i);
        }
      }
  }

  void resolve_donors() {
    plan_->donors.assign(graph_.outputs().size(), -1);
    const auto find = [](std::span<const NamedValue> list, const std::string& name) {
      const auto found = std::find_if(list.begin(), list.end(), [&](const NamedValue& v) { return v.name == name; });
      if (found == list.end())
        throw Error(ErrorKind::usage, "plan", "donate names '" + name + "', which the graph does not have");
      return static_cast<std::size_t>(found - list.begin());
    };
    for (const auto& [output, input] : options_.donate) {
      const std::size_t o = find(graph_.outputs(), output), i = find(graph_.inputs(), input);
      if (graph_.type(graph_.outputs()[o].value).bytes() != graph_.type(graph_.inputs()[i].value).bytes())
        throw Error(ErrorKind::shape, "plan",
                    "output '" + output + "' cannot take the buffer of '" + input + "': sizes differ");
      plan_->donors[o] = static_cast<int>(i);
    }
  }

  // Writing the value of node `writer` over input `donor` disturbs no reader.
  bool may_overwrite(std::int32_t writer, int donor) const {
    const ValueId input = graph_.inputs()[donor].value;
    const Node& node = graph_.node(writer);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i) {
      if (i <= writer && !concurrency_->at_once(i, writer)) continue;
      for (const ValueId& id : graph_.node(i).inputs)
        if (view(id).root == input) return false;
    }
    for (const NamedValue& output : graph_.outputs())
      if (view(output.value).root == input) return false;
    for (const ValueId& id : node.inputs)
      if (view(id).root == input && !same_index(node, id)) return false;
    return true;
  }

  // An elementwise node reads element e of this operand only to write element e of its results.
  bool same_index(const Node& node, const ValueId& operand) const {
    const bool elementwise = is_elementwise(node.op) || node.op == Op::fused;
    return elementwise && is_whole(operand) && graph_.type(operand).shape == node.outputs[0].shape;
  }

  // The kernel of the result's node has read what it needs of this operand before it writes the same bytes.
  bool may_continue(const ValueId& result, const ValueId& operand) const {
    const Node& node = graph_.node(result.node);
    if (node.op != Op::fused_reduction) return same_index(node, operand);
    return backend_.rows_in_place && rows_per_sum(node, result.output) == 0 &&
           is_whole(operand) && graph_.type(operand).shape == graph_.type(result).shape;
  }

  void place_outputs() {
    const auto outputs = graph_.outputs();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const ValueId root = view(outputs[k].value).root;
      const Op op = graph_.node(root.node).op;
      Storage& storage = at(plan_->storage, root);
      const bool free =
          storage.place == Storage::Place::none && op != Op::input && op != Op::constant && is_whole(outputs[k].value);
      const Life& life = at(life_, root);
      if (free && (plan_->donors[k] < 0 || (life.first == root.node && may_overwrite(root.node, plan_->donors[k]))))
        storage = {Storage::Place::output, static_cast<std::int32_t>(k), 0, {}};
    }
  }

  std::vector<Block> collect_blocks() {
    std::vector<Block> blocks;
    const auto n = static_cast<std::int32_t>(graph_.nodes().size());
    // All at once: an operand may be a view of a concat that comes later.
    for (const Node& node : graph_.nodes()) block_of_.emplace_back(node.outputs.size(), k_no_block);
    scratch_block_.assign(n, k_no_block);
    for (std::int32_t i = 0; i < n; ++i) {
      const Node& node = graph_.node(i);
      if (node.op == Op::input || node.op == Op::constant) continue;
      if (node.op == Op::scan) add_body(i, blocks);
      if (const auto bytes = node.attributes.get_or<std::int64_t>("scratch_bytes", 0); bytes > 0)
        add_scratch(i, aligned(static_cast<std::size_t>(bytes)), blocks);
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
        const ValueId id{i, k};
        if (view(id).root != id || at(plan_->storage, id).place != Storage::Place::none) continue;
        const Life& life = at(life_, id);
        if (node.op == Op::scan && !life.read) continue;
        at(block_of_, id) = take_over(id, blocks);
        if (at(block_of_, id) != k_no_block) continue;
        at(block_of_, id) = blocks.size();
        blocks.push_back({life.first, life.last, aligned(graph_.type(id).bytes())});
      }
    }
    return blocks;
  }

  // In place: a result continues the block of an operand that is read here for the last time.
  std::size_t take_over(const ValueId& id, std::vector<Block>& blocks) {
    const Node& node = graph_.node(id.node);
    if (is_off(options_, "in_place") || at(life_, id).first != id.node) return k_no_block;
    const auto& earlier = block_of_[id.node];  // of this node's results
    for (const ValueId& operand : node.inputs) {
      const ValueId root = view(operand).root;
      const std::size_t block = at(block_of_, root);
      if (block == k_no_block || !may_continue(id, operand) || blocks[block].last != id.node) continue;
      // A node of another branch may still read it, or a result that nobody reads may have it already.
      if (at(life_, root).in_branches || std::find(earlier.begin(), earlier.end(), block) != earlier.end()) continue;
      if (graph_.type(operand).bytes() != graph_.type(id).bytes() ||
          dtype_bytes(graph_.type(operand).dtype) != dtype_bytes(graph_.type(id).dtype))
        continue;
      // Another operand of the node may read the same memory at other indices.
      const bool alone = std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& other) {
        return view(other).root != root || may_continue(id, other);
      });
      if (!alone) continue;
      blocks[block].last = at(life_, id).last;
      return block;
    }
    return k_no_block;
  }

  void add_body(std::int32_t i, std::vector<Block>& blocks) {
    const Node& node = graph_.node(i);
    PlanOptions options = options_;
    options.donate.clear();
    options.without.emplace_back("branches");  // within a step nodes run one after the other
    options.without.emplace_back("windows_as_rows");
    auto body = MemoryPlanner(node.body, backend_, options).run();
    const ScanLayout l = scan_layout(node);
    // Steps without states run side by side, each lane with an arena of its own.
    CheckedSize bytes = CheckedSize(body->arena_bytes) *
                        CheckedSize(l.n_states == 0 ? static_cast<std::size_t>(std::max(backend_.lanes, 1)) : 1);
    for (int s = 0; s < l.n_states; ++s)
      bytes += CheckedSize(2) * CheckedSize(aligned(graph_.type(node.inputs[s]).bytes()));
    plan_->bodies[i] = std::move(body);
    add_scratch(i, bytes.require(ErrorKind::memory, "plan", "the scan's scratch overflows"), blocks);
  }

  // Memory that node i needs while it runs.
  void add_scratch(std::int32_t i, std::size_t bytes, std::vector<Block>& blocks) {
    plan_->scratch_bytes[i] = bytes;
    scratch_block_[i] = blocks.size();
    blocks.push_back({i, i, bytes});
  }

  void assign(const std::vector<Block>& blocks) {
    const auto n = static_cast<std::int32_t>(graph_.nodes().size());
    for (std::size_t k = 0; k < graph_.inputs().size(); ++k)
      at(plan_->storage, graph_.inputs()[k].value) = {Storage::Place::input, static_cast<std::int32_t>(k), 0, {}};
    for (std::int32_t i = 0; i < n; ++i) {
      if (graph_.node(i).op == Op::constant) at(plan_->storage, {i, 0}) = {Storage::Place::constant, i, 0, {}};
      if (scratch_block_[i] != k_no_block)
        plan_->scratch_offset[i] = blocks[scratch_block_[i]].offset;
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(i).outputs.size()); ++k)
        if (const std::size_t block = at(block_of_, ValueId{i, k}); block != k_no_block)
          at(plan_->storage, {i, k}) = {Storage::Place::arena, 0, blocks[block].offset, {}};
    }
    for (std::int32_t i = 0; i < n; ++i)  // views last: a concat may own what an earlier node writes
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(i).outputs.size()); ++k) {
        const View& v = view({i, k});
        if (v.root == ValueId{i, k}) continue;
        Storage storage = at(plan_->storage, v.root);
        storage.offset += static_cast<std::size_t>(v.start) * dtype_bytes(graph_.type({i, k}).dtype);
        storage.strides = v.strides;
        storage.viewed = v.viewed;
        at(plan_->storage, {i, k}) = std::move(storage);
      }
    for (const NamedValue& output : graph_.outputs()) plan_->outputs.push_back(at(plan_->storage, output.value));
  }

  static constexpr std::size_t k_no_block = static_cast<std::size_t>(-1);
  const Graph& graph_;
  const Capabilities& backend_;
  const PlanOptions& options_;
  std::shared_ptr<Plan> plan_;
  std::optional<Concurrency> concurrency_;
  std::vector<std::vector<View>> views_;
  std::vector<std::vector<Life>> life_;
  std::vector<std::vector<std::size_t>> block_of_;
  std::vector<std::size_t> scratch_block_;
};

}  // namespace

std::shared_ptr<const Plan> plan_memory(std::shared_ptr<const Graph> graph, const Capabilities& backend,
                                        const PlanOptions& options) {
  return MemoryPlanner(std::move(graph), backend, options).run();
}

}  // namespace unroll
