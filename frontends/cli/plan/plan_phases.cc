// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/plan/plan_phases.h"

#include <algorithm>
#include <optional>

#include "core/train/update_graph.h"
#include "frontends/cli/plan/plan_values.h"

namespace unroll::cli {
namespace {

// What an output of a plan is, by its name (core/train/update_graph.h).
enum class Role : std::uint8_t {
  result,    // loss, report, y, hn
  carried,   // a state, or sums for the report: the new value where the update is good
  gradient,  // d_<input>, sums of gradients
  replaced,  // a parameter, a slot, an average, or what the trainer counts
};
constexpr std::pair<std::string_view, Role> k_prefixes[] = {
    {"state.", Role::carried},          {"accumulated.0.gradient.", Role::gradient}, {"optimizer.", Role::replaced},
    {k_average_prefix, Role::replaced}, {k_totals, Role::carried},          {"accumulated.0.sums", Role::carried},
    {"accumulated.total.", Role::gradient},
    {"trainer.", Role::replaced},
};
constexpr std::int64_t k_norm_in_totals = 2;

// The value that one element of a vector is taken from unchanged: through selects of a new or an old value, sums with
// an old one, and parts put together. Null where it is an input or a constant.
std::optional<ValueId> source_of(const Graph& graph, ValueId id, std::int64_t element) {
  const Node& node = graph.node(id.node);
  const auto first_of = [&](std::size_t from, std::size_t to) -> std::optional<ValueId> {
    for (std::size_t k = from; k < to; ++k)
      if (const auto found = source_of(graph, node.inputs[k], element)) return found;
    return std::nullopt;
  };
  switch (node.op) {
    case Op::input:
    case Op::constant: return std::nullopt;
    case Op::select: return first_of(1, 3);
    case Op::add: return first_of(0, 2);
    case Op::reshape: return source_of(graph, node.inputs[0], element);
    case Op::slice: return source_of(graph, node.inputs[0], element + node.attributes.get<std::int64_t>("start"));
    case Op::concat:
      for (const ValueId part : node.inputs) {
        const std::int64_t size = graph.type(part).shape.elements();
        if (element < size) return source_of(graph, part, element);
        element -= size;
      }
      return std::nullopt;
    case Op::fused: {
      // Inside, an input stands for an operand; what is computed inside is the node's own.
      const Graph& body = *node.body;
      std::vector<ValueId> open{body.outputs()[static_cast<std::size_t>(id.output)].value};
      while (!open.empty()) {
        const ValueId at = open.back();
        open.pop_back();
        const Node& inner = body.node(at.node);
        if (inner.op == Op::select) open.insert(open.end(), inner.inputs.begin() + 1, inner.inputs.end());
        if (inner.op == Op::add) open.insert(open.end(), inner.inputs.begin(), inner.inputs.end());
        for (std::size_t i = 0; i < node.inputs.size(); ++i)
          if (body.inputs()[i].value == at)
            if (const auto found = source_of(graph, node.inputs[i], element)) return found;
      }
      return id;
    }
    default: return id;
  }
}


// The phases of a plan's values.
class Phases {
 public:
  Phases(const Graph& graph, const PlanValues& values, const std::set<std::string>& parameters)
      : graph_(graph), values_(values), parameters_(parameters) {
    find_norm();
    std::vector<int> results, gradients, all;
    for (const NamedValue& output : graph.outputs()) {
      const int v = values.of(output.value);
      all.push_back(v);
      switch (role_of(output.name)) {
        case Role::result: results.push_back(v); break;
        case Role::gradient: gradients.push_back(v); break;
        case Role::carried: before_norm(v, results); break;
        case Role::replaced: break;
      }
    }
    if (norm_) gradients.push_back(*norm_);
    forward_ = of_nodes(values.ancestors(results));
    backward_ = of_nodes(values.ancestors(gradients));
    needed_ = of_nodes(values.ancestors(all));
  }

  PlanPhase of(int v) const {
    if (is_set(forward_, v) || !is_set(needed_, v)) return PlanPhase::forward;
    return is_set(backward_, v) ? PlanPhase::backward : PlanPhase::update;
  }
  // The norm, the numbers that it is added up of, and what depends on it.
  const Flags& about_norm() const { return about_norm_; }

 private:
  Role role_of(const std::string& name) const {
    for (const auto& [prefix, role] : k_prefixes)
      if (name.starts_with(prefix)) return role;
    const auto is_input = [&](std::string_view wanted) {
      const auto inputs = graph_.inputs();
      return std::any_of(inputs.begin(), inputs.end(), [&](const NamedValue& i) { return i.name == wanted; });
    };
    if (name.starts_with("d_") && is_input(std::string_view(name).substr(2))) return Role::gradient;
    return parameters_.contains(name) && is_input(name) ? Role::replaced : Role::result;
  }

  // A node runs for all of its outputs where one is needed.
  Flags of_nodes(Flags flags) const {
    for (int v = 0; v < values_.size(); ++v)
      if (is_set(flags, v))
        for (const int sibling : values_.siblings(v)) flags[static_cast<std::size_t>(sibling)] = 1;
    return flags;
  }

  // Also the numbers that it is made of, up to the sums over each gradient.
  void find_norm() {
    for (const NamedValue& output : graph_.outputs()) {
      if (output.name != k_totals) continue;
      const auto norm = source_of(graph_, output.value, k_norm_in_totals);
      if (norm) norm_ = values_.of(*norm);
    }
    made_of_.resize(static_cast<std::size_t>(values_.size()));
    about_norm_ = made_of_;
    if (!norm_) return;
    std::vector<int> open{*norm_}, all;
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      const Node& node = values_.node(v);
      if (is_set(made_of_, v) || values_.elements(v) != 1 || node.op == Op::input || node.op == Op::constant) continue;
      // One kernel may compute the norm and what follows from it.
      for (const int sibling : values_.siblings(v)) {
        made_of_[static_cast<std::size_t>(sibling)] = 1;
        all.push_back(sibling);
      }
      const OpKind kind = op_info(node.op).kind;
      const bool adds_up = kind == OpKind::reduce || kind == OpKind::matmul || node.op == Op::scan;
      if (!adds_up) open.insert(open.end(), values_.needs(v).begin(), values_.needs(v).end());
    }
    about_norm_ = values_.descendants(all);
  }

  // What `v` takes from before the norm was known: the loss, metrics, new states, and nothing of the gradients.
  void before_norm(int v, std::vector<int>& found) const {
    std::set<int> seen;
    std::vector<int> open{v};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (!seen.insert(at).second || is_set(made_of_, at)) continue;
      if (is_set(about_norm_, at)) open.insert(open.end(), values_.needs(at).begin(), values_.needs(at).end());
      else found.push_back(at);
    }
  }

  const Graph& graph_;
  const PlanValues& values_;
  const std::set<std::string>& parameters_;
  std::optional<int> norm_;
  Flags made_of_, about_norm_;
  Flags forward_, backward_, needed_;
};

}  // namespace

std::string_view phase_name(PlanPhase phase) {
  constexpr std::string_view k_names[] = {"forward", "backward", "update", "communication"};
  return k_names[static_cast<std::size_t>(phase)];
}

std::vector<NodePlace> plan_phases(const Plan& plan, const std::set<std::string>& parameters) {
  const Graph& graph = *plan.graph;
  const PlanValues values(graph);
  const Phases phases(graph, values, parameters);
  std::vector<PlanPhase> of_nodes;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id)
    of_nodes.push_back(phases.of(values.of({id, 0})));
  const std::vector<std::string> layers = node_layers(graph, values, of_nodes, phases.about_norm(), parameters);
  std::vector<NodePlace> places;
  for (std::size_t n = 0; n < layers.size(); ++n) {
    const bool exchanges = graph.nodes()[n].op == Op::all_reduce;
    places.push_back(exchanges ? NodePlace{PlanPhase::communication, k_shared} : NodePlace{of_nodes[n], layers[n]});
  }
  return places;
}

std::vector<NodePlace> line_places(const std::vector<ReportLine>& lines, const std::vector<NodePlace>& nodes) {
  std::vector<NodePlace> places;
  // What the lines around the current one are: a loop gives its place to what is in it.
  struct Around {
    NodePlace place;
    bool is_loop;
  };
  std::vector<Around> around;
  for (const ReportLine& line : lines) {
    around.resize(std::min(around.size(), static_cast<std::size_t>(line.depth)));
    const auto loop = std::find_if(around.begin(), around.end(), [](const Around& a) { return a.is_loop; });
    const bool known = line.node >= 0 && static_cast<std::size_t>(line.node) < nodes.size();
    NodePlace place{PlanPhase::forward, k_shared};
    if (loop != around.end()) place = loop->place;
    else if (known) place = nodes[static_cast<std::size_t>(line.node)];
    places.push_back(place);
    around.push_back({place, loop == around.end() && known});
  }
  return places;
}

}  // namespace unroll::cli
