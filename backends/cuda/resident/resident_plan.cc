// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>
#include <utility>

#include "backends/cuda/resident/resident.h"
#include "core/support/text/size_text.h"
#include "unroll/ir/ops.h"

namespace unroll::cuda {

namespace {

using Index = std::int64_t;

constexpr Index k_warps = k_resident_threads / 32;
constexpr Index k_tile = 16, k_columns = 8;         // of tensor cores: units, rows of the state
constexpr Index k_fewest_rows = 8;                  // of a group
constexpr Index k_least_slice = 32;                 // terms of a warp that are worth another sum
constexpr Index k_sums_of_thread = 64;              // registers
constexpr Index k_weights_of_thread = 128;          // registers, in fragments of four
constexpr Index k_weights_in_cluster = 112;         // likewise, beside what passes operands, without spills
// Multiplications of a block in the microsecond or so that a wait of the grid takes, by the rates of data sheets; not
// measured.
constexpr Index k_work_of_wait = 128 << 10, k_tensor_gain = 4;
constexpr std::size_t k_most_sums_bytes = 48 << 10;
constexpr std::size_t k_command_bytes = 8 << 10;     // of a command, and of reductions of rows
constexpr int k_first_tensor_arch = 80, k_first_cluster_arch = 90;
constexpr int k_wgmma_arch = 90;
// Multiprocessors for each cluster of the largest size: those of an H100 are in parts of 16 and 18, of which some are
// not whole. The device says how many clusters there are when the loop runs.
constexpr Index k_cluster_part = 18;
constexpr Index k_wgmma_columns = 64, k_wgmma_terms = 16;  // of an instruction

Index round_up(Index n, Index unit) { return (n + unit - 1) / unit * unit; }

class ResidentPlanner {
 public:
  ResidentPlanner(const Plan& outer, std::int32_t scan, const common::Hazards& hazards, const JoinedNodes& joined,
                  const LoopOptions& options, std::size_t static_bytes)
      : outer_(outer), scan_(scan), body_(*outer.bodies[scan]), graph_(*body_.graph),
        hazards_(hazards), joined_(joined), options_(options),
        shared_bytes_(options.shared_bytes - std::min(options.shared_bytes, std::max(static_bytes, k_command_bytes))),
        form_(scan_form(outer, scan)) {}

  ResidentPlan run() {
    plan_.reason = reason();
    if (plan_.reason.empty() && choose()) add_buffers();
    return std::move(plan_);
  }

 private:
  std::string reason() {
    if (!form_) return form_.reason;
    if (form_.products.empty()) return "no product by a weight";
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph_.nodes().size()); ++id) {
      if (graph_.node(id).op != Op::matmul) continue;
      const ScanForm::Product* const product = form_.product(id);
      if (!product) return "%" + std::to_string(id) + " matmul is no product by a weight";
      if (std::string why = add(*product); !why.empty()) return "%" + std::to_string(id) + " matmul " + why;
    }
    return {};
  }

  const Storage& storage(ValueId id) const {
    return body_.storage[id.node][id.output];
  }
  bool has_one_reader(ValueId id) const {
    int readers = 0;
    for (const Node& node : graph_.nodes())
      readers += static_cast<int>(std::count(node.inputs.begin(), node.inputs.end(), id));
    for (const NamedValue& output : graph_.outputs()) readers += output.value == id;
    return readers == 1;
  }

  std::string add(const ScanForm::Product& from) {
    const Node& node = graph_.node(from.node);
    ResidentProduct p{.node = from.node, .transposed = from.transposed, .m = from.m, .n = from.n, .k = from.k};
    p.weight = form_.layout.n_states + form_.layout.n_sequences + from.weight;
    p.a = node.inputs[0];
    const Shape& result = graph_.type({from.node, 0}).shape;
    if (result.rank() != 2 && !storage({from.node, 0}).strides.empty()) return "has a strided result";
    const DType operands = graph_.type(p.a).dtype;
    if (operands == DType::f64 || graph_.type({from.node, 0}).dtype != DType::f32) return "is not in f32";
    if (from.m == 0 || from.n == 0 || from.k == 0) return "has no elements";
    for (const device::Joined& each : joined_.products)
      if (each.product == from.node) p.joined = &each;
    p.gates = p.joined ? p.joined->n_gates : from.gates;
    p.units = p.n / p.gates;
    const bool has_tensor = options_.arch >= k_first_tensor_arch;
    if (is_half(operands) && !has_tensor) return "in 16 bits needs a device of compute capability 8.0";
    if (is_half(operands)) p.kind = operands == DType::bf16 ? ProductKind::bf16 : ProductKind::f16;
    take_rounding(p, has_tensor);
    p.a_dtype = graph_.type(p.a).dtype;
    if (!find_rows(p)) return "has an operand whose rows do not lie in one stride";
    plan_.products.push_back(p);
    return {};
  }

  // A cast or rounding of the operand: each warp does it as it loads. No block then waits for its result.
  void take_rounding(ResidentProduct& p, bool has_tensor) {
    const Node& node = graph_.node(p.a.node);
    const bool casts = node.op == Op::cast && p.is_tensor() && graph_.type(node.inputs[0]).dtype == DType::f32;
    const bool rounds = node.op == Op::round_tf32 && has_tensor;
    if (rounds) p.kind = ProductKind::tf32;
    if ((!casts && !rounds) || storage(node.inputs[0]).place == Storage::Place::none || is_overwritten(p)) return;
    p.rounding = p.a.node;
    p.only_rounded = has_one_reader(p.a) && storage(p.a).place == Storage::Place::arena;
    p.a = node.inputs[0];
  }
  // True if operands of the node before the product are overwritten before the product and its epilogue have run.
  bool is_overwritten(const ResidentProduct& p) const {
    const auto& reads = hazards_.tasks[p.a.node].reads;
    const std::int32_t last = p.joined ? p.joined->epilogue : p.node;
    for (std::int32_t id = p.a.node + 1; id <= last; ++id)
      if (common::touch(reads, hazards_.tasks[id].writes)) return true;
    return false;
  }

  bool find_rows(ResidentProduct& p) const {
    const Shape& shape = graph_.type(p.a).shape;
    const Ints strides = common::strides_of(body_, p.a);
    if (shape.rank() < 2 || strides.back() != 1) return false;
    std::vector<Index> sizes, steps;
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) {
      sizes.push_back(shape[axis]);
      steps.push_back(strides[axis]);
    }
    const device::Axes axes = device::joined_axes(sizes, {steps});
    if (axes.sizes.size() > 1) return false;
    p.row = axes.sizes.empty() ? p.k : axes.strides[0][0];
    const Index vector = 16 / static_cast<Index>(dtype_bytes(graph_.type(p.a).dtype));
    const Index whole = std::max<Index>(vector, p.is_tensor() && p.kind != ProductKind::tf32 ? 8 : 4);
    const Storage& at = storage(p.a);
    p.vectors = p.k % whole == 0 && p.row % vector == 0 && at.offset % 16 == 0 && begins_aligned(at);
    return true;
  }
  // Checks where inputs of the body begin in each step: slices of sequences, initial states, outputs of the step
  // before.
  bool begins_aligned(const Storage& at) const {
    if (at.place == Storage::Place::arena || at.place == Storage::Place::constant) return true;
    const std::size_t index = at.index;
    if (at.place == Storage::Place::output)
      return graph_.type(graph_.outputs()[index].value).bytes() % 16 == 0 &&
             is_aligned({scan_, static_cast<std::int32_t>(index)});
    bool aligned = is_aligned(outer_.graph->node(scan_).inputs[index]);
    if (index < form_.states.size())
      for (const int output : {form_.states[index].after, form_.states[index].before, static_cast<int>(index)})
        aligned = aligned && (output < 0 || is_aligned({scan_, output}));
    return aligned && graph_.type(graph_.inputs()[index].value).bytes() % 16 == 0;
  }
  bool is_aligned(ValueId outer) const {
    const auto& of_node = outer_.storage[outer.node];
    return of_node[outer.output].offset % 16 == 0;
  }

  // Rows are shared by as many groups as fit: a group reads its rows of the state only. The units then have what is
  // left of the multiprocessors. They have one block or a cluster, if these compute a step about as fast as the blocks
  // of a grid wait for each other.
  bool choose() {
    UnitMap& map = plan_.map;
    const Index multiprocessors = std::max(options_.multiprocessors, 1);
    map.rows = graph_.type(plan_.products[0].a).shape[0];
    for (const ResidentProduct& p : plan_.products)
      if (p.m % map.rows != 0 || graph_.type(p.a).shape[0] != map.rows) map.rows = 0;
    const Index most = map.rows == 0 ? 1 : std::clamp<Index>(map.rows / k_fewest_rows, 1, multiprocessors);
    const std::pair<Index, Index> ways[] = {{1, most},  // blocks of a group, and groups at most
                                            {k_portable_cluster, most_clusters(k_portable_cluster)},
                                            {k_most_cluster, most_clusters(k_most_cluster)},
                                            {multiprocessors, most}};
    std::size_t needed = 0;
    for (const auto& way : ways)
      for (Index groups = std::min(most, way.second); groups > 0; --groups) {
        const Index rows = (map.rows + groups - 1) / groups;
        map.groups = map.rows == 0 ? 1 : (map.rows + rows - 1) / rows;
        map.blocks = std::min(way.first, multiprocessors / map.groups);
        needed = set_sizes();
        const bool is_last = &way == std::end(ways) - 1;
        const bool is_wanted = is_last || (is_small() && (way.first > 1 || !options_.shares_units));
        if (needed <= shared_bytes_ && is_wanted && (way.first > 1 || !has_fused_reductions())) return true;
        if (!is_last) break;
      }
    plan_.reason = "the weights do not fit: " + size_text(needed) + " of shared memory for each of " +
                   std::to_string(map.n_blocks()) + " blocks; there are " + size_text(shared_bytes_);
    return false;
  }
  // The number of clusters that a device runs at the same time, as far as is known here.
  Index most_clusters(Index blocks) const {
    if (options_.arch < k_first_cluster_arch || blocks > k_most_cluster) return 0;
    return blocks <= k_portable_cluster ? options_.multiprocessors : options_.multiprocessors / k_cluster_part;
  }
  bool may_cluster() const { return plan_.map.blocks > 1 && plan_.map.groups <= most_clusters(plan_.map.blocks); }
  // If the blocks of a group may be a cluster, they pass operands through their shared memory, where that has room.
  void add_buffers() {
    const UnitMap& map = plan_.map;
    if (!options_.passes_shared || !may_cluster()) return;
    std::vector<ResidentProduct> products = plan_.products;
    auto buffers = find_exchange_buffers(body_, form_, hazards_, joined_.concats, products);
    for (ResidentProduct& p : products) take_wgmma(p);
    std::size_t at = round_up(static_cast<Index>(plan_.shared_bytes), 16);
    for (ExchangeBuffer& b : buffers) {
      Index columns = 0, rows = 0;
      for (const int number : b.products) {
        const ResidentProduct& p = products[number];
        columns = std::max(columns, p.is_tensor() ? p.slices * p.slice : round_up(p.k, 4));
        rows = std::max(rows, round_up(map.own_rows(p.m), p.is_wgmma ? p.tile_rows : 8));
      }
      b.chunk = rows * 16 + 32;
      b.slot = columns / b.vector() * b.chunk + 16;
      b.at = at;
      at += k_exchange_slots * b.slot;
    }
    if (buffers.empty() || at > shared_bytes_) return;
    plan_.products = std::move(products), plan_.buffers = std::move(buffers);
    plan_.shared_bytes = at;
  }
  // Whole tiles of 64 columns by tensor cores of warpgroups, which only this architecture has.
  void take_wgmma(ResidentProduct& p) const {
    const bool is_narrow = p.kind == ProductKind::bf16 || p.kind == ProductKind::f16;
    const bool takes = options_.uses_wgmma && options_.arch == k_wgmma_arch && is_narrow && p.in_registers;
    if (!takes || p.buffer < 0 || p.columns % k_wgmma_columns != 0) return;
    p.is_wgmma = true;
    p.slice = round_up((p.k + 1) / 2, k_wgmma_terms);
    p.slices = (p.k + p.slice - 1) / p.slice;
    p.fragments = p.slice / k_wgmma_terms * (p.columns / k_wgmma_columns);
  }
  // A block computes rows one after the other: too few blocks for them would take long.
  bool has_fused_reductions() const {
    const auto nodes = graph_.nodes();
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == Op::fused_reduction; });
  }
  // True if a block computes its units of all its rows in about that time.
  bool is_small() const {
    Index work = 0;
    for (const ResidentProduct& p : plan_.products)
      work += p.k * p.columns * plan_.map.own_rows(p.m) / (p.is_tensor() ? k_tensor_gain : 1);
    return work <= k_work_of_wait;
  }

  // The shared memory of a block.
  std::size_t set_sizes() {
    UnitMap& map = plan_.map;
    map.granules.clear();
    for (const ResidentProduct& p : plan_.products) {
      Index& granule = map.granules.try_emplace(p.units, 4).first->second;
      granule = std::max<Index>(granule, p.is_tensor() ? k_tile : 4);
    }
    Index blocks = 1;
    for (const ResidentProduct& p : plan_.products) {
      const Index own = map.own_units(p.units);
      blocks = std::max(blocks, (p.units + own - 1) / own);
    }
    map.blocks = std::min(map.blocks, blocks);
    Index registers = 0;
    for (ResidentProduct& p : plan_.products) {
      set_tiles(p);
      registers += p.fragments * 4;
    }
    std::size_t at = 0, sums = 0;
    const Index most = may_cluster() ? k_weights_in_cluster : k_weights_of_thread;
    for (ResidentProduct& p : plan_.products) {
      p.in_registers = p.is_tensor() && registers <= most;
      p.shared_at = at;
      if (!p.in_registers) at += p.shared_bytes;
      sums = std::max(sums, p.sums_bytes());
    }
    plan_.sums_at = at;
    return plan_.shared_bytes = at + sums;
  }

  void set_tiles(ResidentProduct& p) const {
    const Index rows = plan_.map.own_rows(p.m);
    p.own = plan_.map.own_units(p.units);
    p.columns = p.gates * p.own;
    p.slice = std::max(round_up((p.k + k_warps - 1) / k_warps, p.terms()), k_least_slice);
    p.slices = (p.k + p.slice - 1) / p.slice;
    Index row_unit = k_columns, sums = 0;  // of a thread, for that many rows
    if (p.is_tensor()) {
      const Index tiles = p.columns / k_tile;
      p.fragments = p.slice / (p.terms() / 2) * tiles;
      p.shared_bytes = p.slices * p.fragments * 32 * 16;
      sums = tiles * 4;
    } else {
      set_lanes(p);
      p.shared_bytes = round_up(p.k, 4) * p.columns * sizeof(float);
      row_unit = 32 / p.lanes;
      sums = p.columns / p.lanes;
    }
    p.tile_rows = row_unit;
    for (Index n = 2; n <= 4; ++n) {
      ResidentProduct wider = p;
      wider.tile_rows = n * row_unit;
      if (wider.tile_rows < rows + row_unit && n * sums <= k_sums_of_thread && wider.sums_bytes() <= k_most_sums_bytes)
        p.tile_rows = wider.tile_rows;
    }
  }
  // Lanes of a warp along the columns, which each have four at a time: few columns of padding, and at best eight.
  static void set_lanes(ResidentProduct& p) {
    const Index quads = (p.columns + 3) / 4;
    Index best = 0;
    for (const Index lanes : {8, 4, 16, 2, 1}) {
      const Index padded = round_up(quads, lanes);
      if (best == 0 || padded < best) best = padded, p.lanes = lanes;
    }
    p.columns = best * 4;
  }

  const Plan& outer_;
  const std::int32_t scan_;
  const Plan& body_;
  const Graph& graph_;
  const common::Hazards& hazards_;
  const JoinedNodes& joined_;
  const LoopOptions& options_;
  const std::size_t shared_bytes_;  // for weights and sums
  ScanForm form_;
  ResidentPlan plan_;
};

}  // namespace

std::string ResidentPlan::what() const {
  std::size_t bytes = 0;
  bool registers = false, tensor = false, wgmma = false;
  for (const ResidentProduct& p : products) {
    bytes += p.shared_bytes;
    registers = registers || p.in_registers;
    tensor = tensor || p.is_tensor();
    wgmma = wgmma || p.is_wgmma;
  }
  const auto number = [](Index n) { return std::to_string(n); };
  return "weights resident in " + number(map.n_blocks()) + " blocks (" + number(map.blocks) + " along units, " +
         number(map.groups) + " along rows), " + size_text(bytes) + " each in " +
         (registers ? "registers" : "shared memory") + (tensor ? ", tensor cores" : "") +
         (wgmma ? " by wgmma" : "");
}

ResidentPlan plan_resident(const Plan& outer, std::int32_t scan, const common::Hazards& hazards,
                           const JoinedNodes& joined, const LoopOptions& options, std::size_t static_bytes) {
  return ResidentPlanner(outer, scan, hazards, joined, options, static_bytes).run();
}

}  // namespace unroll::cuda
