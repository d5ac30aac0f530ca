// SPDX-License-Identifier: Apache-2.0
// The passes, in execution order. Each maps a graph to a graph; plan_memory makes the plan.
#include <algorithm>

#include "core/passes/memory/branches.h"
#include "core/passes/passes.h"
#include "core/support/interruption.h"
#include "core/support/text/size_text.h"
#include "unroll/error.h"
#include "unroll/run.h"

namespace unroll {

namespace {

struct Context {
  const Backend& backend;
  const PlanOptions& options;
  PassLog* log;
  bool checkpoints = false;
};
struct Pass {
  std::string_view name;
  bool required;  // cannot be left out
  std::shared_ptr<const Graph> (*run)(const Graph&, const Context&);
};

template <std::shared_ptr<const Graph> (*F)(const Graph&)>
std::shared_ptr<const Graph> plain(const Graph& graph, const Context&) {
  return F(graph);
}
template <std::shared_ptr<const Graph> (*F)(const Graph&, PassLog*)>
std::shared_ptr<const Graph> told(const Graph& graph, const Context& context) {
  return F(graph, context.log);
}
template <std::shared_ptr<const Graph> (*F)(const Graph&, const Tuning&, PassLog*)>
std::shared_ptr<const Graph> tuned(const Graph& graph, const Context& context) {
  return F(graph, context.backend.describe().tuning, context.log);
}
std::shared_ptr<const Graph> claim_in_precision(const Graph& graph, const Context& context) {
  const Precision precision = context.options.precision;
  if (precision == Precision::f32) return claim(graph, context.backend, context.log);
  const auto ask = [&](const Graph& g, const Node& node) { return context.backend.claim_in(g, node, precision); };
  return claim(graph, ask, context.log);
}
std::shared_ptr<const Graph> set_precision_of(const Graph& graph, const Context& context) {
  return set_precision(graph, context.options.precision, context.backend.describe().dtypes, context.log);
}
std::shared_ptr<const Graph> checkpoint_if_wanted(const Graph& graph, const Context& context) {
  return context.checkpoints ? checkpoint(graph, context.log) : copy_graph(graph);
}
std::shared_ptr<const Graph> row_groups_if_wanted(const Graph& graph, const Context& context) {
  const Capabilities& can = context.backend.describe();
  return can.groups_rows ? row_groups(graph, can.tuning, context.log) : copy_graph(graph);
}
std::shared_ptr<const Graph> pack_if_wanted(const Graph& graph, const Context& context) {
  return context.backend.describe().lengths == LengthsForm::packed ? pack(graph, context.log) : copy_graph(graph);
}
std::shared_ptr<const Graph> restore_lengths_if_wanted(const Graph& graph, const Context& context) {
  const bool wanted = context.backend.describe().lengths == LengthsForm::restored;
  return wanted ? restore_lengths(graph, context.log) : copy_graph(graph);
}
std::shared_ptr<const Graph> chunk_if_wanted(const Graph& graph, const Context& context) {
  const std::int64_t steps = context.options.chunk_steps;
  return steps > 0 ? chunk_scans(graph, steps) : copy_graph(graph);
}
std::shared_ptr<const Graph> fuse_if_wanted(const Graph& graph, const Context& context) {
  const Capabilities& can = context.backend.describe();
  return can.fuses ? fuse(graph, can.max_fused_ops, context.log) : copy_graph(graph);
}
std::shared_ptr<const Graph> order_branches_if_wanted(const Graph& graph, const Context& context) {
  return context.backend.describe().lanes > 1 ? order_branches(graph, context.log) : copy_graph(graph);
}

constexpr Pass k_passes[] = {
    {"recognize", false, told<recognise>},
    {"fold", false, plain<fold>},
    {"cse", false, plain<eliminate_common>},
    {"claim", true, claim_in_precision},
    {"lower_masks", true, plain<lower_scan_masks>},
    {"inline_steps", false, told<inline_steps>},
    {"fold", false, plain<fold>},
    {"cse", false, plain<eliminate_common>},
    {"merge_scans", false, told<merge_scans>},
    {"scan_dce", false, plain<prune_scans>},
    {"checkpoint", false, checkpoint_if_wanted},
    {"scan_dce", false, plain<prune_scans>},
    {"concat_products", false, tuned<concat_products>},
    {"cse", false, plain<eliminate_common>},
    {"join_parts", false, plain<join_parts>},
    {"defer", false, tuned<defer_stateless>},
    {"split", false, tuned<split_scans>},
    {"defer", false, tuned<defer>},
    {"fold", false, plain<fold>},
    {"cse", false, plain<eliminate_common>},
    {"scan_dce", false, plain<prune_scans>},
    {"pack", false, pack_if_wanted},
    {"restore_lengths", false, restore_lengths_if_wanted},
    {"split_calls", false, told<split_calls>},
    {"chunk_scans", false, chunk_if_wanted},
    {"precision", false, set_precision_of},
    {"bind_constants", false, plain<bind_constants>},
    {"fold", false, plain<fold>},
    {"cse", false, plain<eliminate_common>},
    {"scan_dce", false, plain<prune_scans>},
    {"raise_reshapes", false, plain<raise_reshapes>},
    {"row_groups", false, row_groups_if_wanted},  // within a group slices cost nothing: whole rows are fewer calls
    {"sum_rows", false, tuned<sum_rows>},
    {"sink_slices", false, plain<sink_slices>},
    {"cse", false, plain<eliminate_common>},
    {"fuse", false, fuse_if_wanted},
    {"branches", false, order_branches_if_wanted},
    {"early_exchanges", false, plain<early_exchanges>},
};
// Switches inside plan_memory.
constexpr std::string_view k_memory_switches[] = {"views", "in_place", "reuse"};

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : k_passes)
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.emplace_back(pass.name);
  names.insert(names.end(), std::begin(k_memory_switches), std::end(k_memory_switches));
  return names;
}

namespace {

std::shared_ptr<const Graph> run_passes(const Graph& graph, const Context& context) {
  const PlanOptions& options = context.options;
  const auto known = pass_names();
  for (const std::string& name : options.without)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorKind::usage, "plan", "unknown pass '" + name + "'", "See pass_names()");
  std::shared_ptr<const Graph> result = copy_graph(graph);
  for (const Pass& pass : k_passes) {
    const bool off = std::find(options.without.begin(), options.without.end(), pass.name) != options.without.end();
    if (off && !pass.required) continue;
    check_interruption();
    context.log->begin(pass.name);
    result = pass.run(*result, context);
    if (options.verify_each) verify(*result);
  }
  verify(*result, Stage::planned);
  return result;
}

// What takes most of a plan's bytes, largest first.
std::string largest_consumers(const Plan& plan) {
  constexpr std::size_t k_named = 4;
  std::vector<std::pair<std::size_t, std::string>> all;
  const Graph& graph = *plan.graph;
  for (const NamedValue& input : graph.inputs())
    all.emplace_back(graph.type(input.value).bytes(), "input '" + input.name + "'");
  for (const NamedValue& output : graph.outputs())
    all.emplace_back(graph.type(output.value).bytes(), "output '" + output.name + "'");
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const std::string name(op_info(node.op).name);
    if (node.op == Op::reshape) continue;  // lies where its operand does
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (plan.storage[n][k].place == Storage::Place::arena && plan.storage[n][k].strides.empty())
        all.emplace_back(node.outputs[k].bytes(), "a result " + node.outputs[k].text() + " of " + name);
    if (plan.scratch_bytes[n] > 0) all.emplace_back(plan.scratch_bytes[n], "the inside of a " + name);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), k_named); ++i)
    text += (i == 0 ? "" : ", ") + all[i].second + " " + size_text(all[i].first);
  return text;
}

// Throws where a kernel could not address a value.
void require_ranges(const Plan& plan, const Capabilities& can) {
  if (can.largest_buffer_range == 0) return;
  const Graph& graph = *plan.graph;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (std::size_t k = 0; k < node.outputs.size(); ++k)
      if (const Type& type = node.outputs[k];
          plan.storage[n][k].place != Storage::Place::none && type.bytes() > can.largest_buffer_range)
        throw Error(ErrorKind::unsupported, "plan",
                    "a value " + type.text() + " of " + std::string(op_info(node.op).name) + " has " +
                        size_text(type.bytes()) + "; the kernels of '" + can.name + "' address at most " +
                        size_text(can.largest_buffer_range),
                    "Reduce the batch size, the number of steps or the vocabulary");
    if (plan.bodies[n]) require_ranges(*plan.bodies[n], can);
  }
}

}  // namespace

std::shared_ptr<const Graph> lower(const Graph& graph, const Backend& backend, const PlanOptions& options) {
  PassLog log;
  return run_passes(graph, {backend, options, &log});
}

std::size_t planned_bytes(const Plan& plan) {
  std::size_t bytes = plan.arena_bytes;
  const Graph& graph = *plan.graph;
  for (const NamedValue& input : graph.inputs()) bytes += graph.type(input.value).bytes();
  for (std::size_t k = 0; k < graph.outputs().size(); ++k)
    if (plan.donors[k] < 0) bytes += graph.type(graph.outputs()[k].value).bytes();
  for (const Node& node : graph.nodes())
    if (node.op == Op::constant) bytes += node.outputs[0].bytes();
  return bytes;
}

std::shared_ptr<const Plan> plan(const Graph& graph, const Backend& backend, const PlanOptions& options) {
  const Capabilities& can = backend.describe();
  if (std::find(can.weights.begin(), can.weights.end(), options.weights) == can.weights.end())
    throw Error(ErrorKind::unsupported, "plan", "backend '" + can.name + "' keeps no weights in this format",
                "use f32, or the cpu backend");
  const auto make = [&](const PlanOptions& how, bool checkpoints) {
    PassLog log;
    auto made = std::make_shared<Plan>(*plan_memory(run_passes(graph, {backend, how, &log, checkpoints}), can, how));
    made->notes = log.take();
    require_ranges(*made, can);
    return made;
  };
  std::shared_ptr<const Plan> whole = make(options, false);
  const std::size_t limit = options.memory_limit;
  if (limit == 0 || planned_bytes(*whole) <= limit) return whole;
  PlanOptions least_memory = options;  // branches side by side share no memory
  least_memory.without.emplace_back("branches");
  if (!whole->forks.empty()) whole = make(least_memory, false);
  const std::size_t all = planned_bytes(*whole);
  if (all <= limit) return whole;
  const std::shared_ptr<const Plan> cut = make(least_memory, true);
  const std::size_t least = planned_bytes(*cut);
  if (least <= limit) return cut;
  throw Error(ErrorKind::memory, "plan",
              "needs " + size_text(all) + ", with checkpoints " + size_text(least) + "; the limit is " +
                  size_text(limit) + ". The largest: " + largest_consumers(least < all ? *cut : *whole),
              "Raise the limit, or take a smaller batch or fewer steps");
}

}  // namespace unroll
