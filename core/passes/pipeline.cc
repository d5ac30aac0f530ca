// SPDX-License-Identifier: Apache-2.0
// The passes, in execution order. Each maps a graph to a graph; plan_memory makes the plan.
#include <algorithm>

#include "core/ir/graph_hash.h"
#include "core/ir/input_range.h"
#include "core/passes/passes.h"
#include "core/support/interruption.h"
#include "core/support/text/size_text.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct Context {
  const Backend& backend;
  const PlanOptions& options;
  PassLog* log;
  bool checkpoints = false;
};
struct Pass {
  std::string_view name;  // empty: all simplifiers
  // Null where the pass does not apply.
  std::shared_ptr<const Graph> (*run)(const Graph& graph, const Context& context);
};

constexpr Pass k_simplifiers[] = {
#define UNROLL_PASS(...)
#define UNROLL_SIMPLIFY()
#define UNROLL_SIMPLIFIER(name) {#name, [](const Graph& graph, const Context&) { return name(graph); }},
#include "core/passes/passes.def"
#undef UNROLL_PASS
#undef UNROLL_SIMPLIFY
#undef UNROLL_SIMPLIFIER
};
constexpr Pass k_passes[] = {
#define UNROLL_SIMPLIFIER(...)
#define UNROLL_SIMPLIFY() {"", nullptr},
#define UNROLL_PASS(name, function, parameters, arguments, condition)                           \
  {#name, [](const Graph& graph, const Context& context) -> std::shared_ptr<const Graph> {      \
     [[maybe_unused]] const auto& [backend, options, log, checkpoints] = context;               \
     [[maybe_unused]] const Capabilities& can = backend.describe();                             \
     return condition ? function arguments : nullptr;                                           \
   }},
#include "core/passes/passes.def"
#undef UNROLL_PASS
#undef UNROLL_SIMPLIFY
#undef UNROLL_SIMPLIFIER
};
// No backend runs composites that it did not claim, nor masks of scans.
constexpr std::string_view k_required[] = {"claim", "lower_masks"};
// Switches inside plan_memory.
constexpr std::string_view k_memory_switches[] = {"views", "windows_as_rows", "in_place", "reuse"};
constexpr std::size_t k_max_rounds = 32;  // of simplifiers

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : k_simplifiers) names.emplace_back(pass.name);
  for (const Pass& pass : k_passes)
    if (pass.run) names.emplace_back(pass.name);
  names.insert(names.end(), std::begin(k_memory_switches), std::end(k_memory_switches));
  return names;
}

namespace {

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::shared_ptr<const Graph> run_pass(const Pass& pass, std::shared_ptr<const Graph> graph, const Context& context) {
  if (is_among(context.options.without, pass.name) && !is_among(k_required, pass.name)) return graph;
  check_interruption();
  context.log->begin(pass.name);
  const auto result = pass.run(*graph, context);
  if (!result) return graph;
  if (context.options.verify_each) verify(*result);
  return result;
}

std::shared_ptr<const Graph> simplify(std::shared_ptr<const Graph> graph, const Context& context) {
  constexpr std::size_t n = std::size(k_simplifiers);
  std::size_t unchanged = 0;  // passes in a row
  for (std::size_t i = 0; unchanged < n && i < n * k_max_rounds; ++i) {
    const auto before = graph;
    graph = run_pass(k_simplifiers[i % n], before, context);
    unchanged = is_same_graph(*before, *graph) ? unchanged + 1 : 0;
  }
  return graph;
}

// Passes make inputs anew, without their ranges.
std::shared_ptr<const Graph> with_ranges(const Graph& source, std::shared_ptr<const Graph> lowered) {
  if (!has_ranges(source)) return lowered;
  const std::shared_ptr<Graph> graph = copy_graph(*lowered);
  std::vector<Value> inputs;
  for (const NamedValue& input : source.inputs()) inputs.push_back(graph->find_input(input.name));
  copy_ranges(source, inputs);
  return graph;
}

std::shared_ptr<const Graph> run_passes(const Graph& graph, const Context& context) {
  const auto known = pass_names();
  for (const std::string& name : context.options.without)
    if (!is_among(known, name))
      throw Error(ErrorKind::usage, "plan", "unknown pass '" + name + "'", "See pass_names()");
  std::shared_ptr<const Graph> result = copy_graph(graph), simplified;
  for (const Pass& pass : k_passes) {
    if (pass.run) result = run_pass(pass, result, context);
    else if (!simplified || !is_same_graph(*simplified, *result)) simplified = result = simplify(result, context);
  }
  result = with_ranges(graph, std::move(result));
  verify(*result, Stage::planned);
  return result;
}

// The largest values of a plan, largest first.
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
