// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/plan/plan_layers.h"

#include <algorithm>
#include <map>

#include "core/train/update_graph.h"

namespace unroll::cli {
namespace {

using Layers = std::set<std::string>;

// "_l0" of "weight_hh_l0" or "weight_hh_l0_reverse": where it begins, or npos.
std::size_t stack_suffix(const std::string& name) {
  const std::size_t at = name.rfind("_l");
  if (at == std::string::npos || at + 2 == name.size()) return std::string::npos;
  const std::size_t end = name.find_first_not_of("0123456789", at + 2);
  return end == std::string::npos || (end > at + 2 && name.substr(end) == "_reverse") ? at : std::string::npos;
}

// The layers of a plan's nodes.
class LayerMap {
 public:
  LayerMap(const Graph& graph, const PlanValues& values, const std::vector<PlanPhase>& phases, const Flags& about_norm,
           const std::set<std::string>& parameters)
      : graph_(graph), values_(values), phases_(phases), about_norm_(about_norm), gives_(size()), own_(size()),
        before_(size()), after_(size()), names_(size()) {
    const bool bare = is_bare_stack(parameters);
    for (const std::string& name : parameters) layers_[name] = layer_of_parameter(name, bare);
    find_given();
    find_own();
    find_neighbours();
    for (const PlanPhase phase : {PlanPhase::forward, PlanPhase::backward, PlanPhase::update})
      for (std::size_t n = 0; n < size(); ++n)
        if (phase_of(n) == phase) names_[n] = name_of(n);
  }

  std::vector<std::string> names() const { return names_; }

 private:
  std::size_t size() const { return graph_.nodes().size(); }
  const Node& node(std::size_t n) const { return graph_.nodes()[n]; }
  PlanPhase phase_of(std::size_t n) const { return phases_[n]; }
  static std::string one_of(const Layers& layers) { return layers.size() == 1 ? *layers.begin() : k_shared; }

  std::string name_of(std::size_t n) const {
    if (!own_[n].empty()) return one_of(own_[n]);
    switch (phase_of(n)) {
      case PlanPhase::forward:
        if (after_[n].empty() && leads_to_loss_[n]) return k_loss;
        return one_of(before_[n].empty() ? after_[n] : before_[n]);
      case PlanPhase::backward: return backward_name_of(n);
      case PlanPhase::update:
      case PlanPhase::communication: break;
    }
    return one_of(gives_[n].empty() ? before_[n] : gives_[n]);
  }

  // By what the forward phase saved for it, and by what it leads to.
  std::string backward_name_of(std::size_t n) const {
    Layers saved;
    bool of_loss = false;
    for (const ValueId from : node(n).inputs) {
      const auto f = static_cast<std::size_t>(from.node);
      if (op_info(node(f).op).kind == OpKind::source) continue;
      of_loss = of_loss || names_[f] == k_loss;
      if (is_saved(from)) saved.insert(names_[f]);
    }
    if (before_[n].empty() && of_loss) return k_loss;
    if (after_[n].empty() || after_[n] == before_[n]) return one_of(before_[n]);
    return saved.empty() || saved == after_[n] ? one_of(after_[n]) : k_shared;
  }

  bool is_saved(ValueId id) const {
    const bool forward = phase_of(static_cast<std::size_t>(id.node)) == PlanPhase::forward;
    return forward && is_float(graph_.type(id).dtype);
  }

  // Of an input or output: its parameter's, itself or behind a prefix.
  const std::string* layer_of(const std::string& name) const {
    for (std::size_t from = 0; from != std::string::npos;) {
      if (const auto at = layers_.find(name.substr(from)); at != layers_.end()) return &at->second;
      const std::size_t dot = name.find_first_of("._", from);
      from = dot == std::string::npos ? dot : dot + 1;
    }
    return nullptr;
  }

  // Which layers' parameters, slots or gradients the values become, element by element.
  void find_given() {
    for (const NamedValue& output : graph_.outputs())
      if (const std::string* layer = layer_of(output.name)) give(values_.of(output.value), *layer);
  }
  void give(int v, const std::string& layer) {
    std::set<int> seen;
    std::vector<int> open{v};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (values_.elements(at) == 1 && is_set(about_norm_, at)) continue;
      if (!seen.insert(at).second) continue;
      const auto n = static_cast<std::size_t>(values_.node_id(at));
      gives_[n].insert(layer);
      const bool elementwise = is_elementwise(node(n).op) || node(n).op == Op::fused || node(n).op == Op::reshape;
      if (phase_of(n) == PlanPhase::forward || !elementwise) continue;
      for (const int from : values_.needs(at))
        if (values_.elements(from) == values_.elements(at)) open.push_back(from);
    }
  }

  // What is computed from nothing but parameters counts as these. A loop backwards without parameters is of the layer
  // whose values it reads.
  void find_own() {
    std::vector<char> of_parameters(size());
    for (std::size_t n = 0; n < size(); ++n) {
      if (node(n).op == Op::input) {
        const auto at = layers_.find(node(n).attributes.get<std::string>("name"));
        if (at == layers_.end()) continue;
        own_[n] = {at->second};
        of_parameters[n] = 1;
        continue;
      }
      of_parameters[n] = !node(n).inputs.empty();
      for (const ValueId from : node(n).inputs) {
        const auto f = static_cast<std::size_t>(from.node);
        if (of_parameters[f]) own_[n].insert(own_[f].begin(), own_[f].end());
        else if (node(f).op != Op::constant) of_parameters[n] = 0;
      }
      if (phase_of(n) == PlanPhase::backward) own_[n].insert(gives_[n].begin(), gives_[n].end());
      if (phase_of(n) == PlanPhase::backward && own_[n].empty() && node(n).op == Op::scan)
        for (const ValueId from : node(n).inputs)
          if (is_saved(from)) own_[n].merge(Layers(own_[static_cast<std::size_t>(from.node)]));
      if (phase_of(n) == PlanPhase::update) own_[n].clear();  // it gives, or is of what it is made of
    }
  }

  // The nearest layers of the same phase before and after each node; of the update phase those of its gradients.
  void find_neighbours() {
    leads_to_loss_.resize(size());
    for (const NamedValue& output : graph_.outputs())
      if (output.name == "loss" || output.name == "report" || output.name == k_totals ||
          output.name == accumulated_name(0, k_sums_part))
        leads_to_loss_[static_cast<std::size_t>(output.value.node)] = 1;
    for (std::size_t n = 0; n < size(); ++n)
      for (const ValueId from : node(n).inputs) join(before_, n, static_cast<std::size_t>(from.node));
    for (std::size_t n = size(); n-- > 0;)
      for (const ValueId id : node(n).inputs) {
        const auto from = static_cast<std::size_t>(id.node);
        join(after_, from, n);
        if (leads_to_loss_[n]) leads_to_loss_[from] = 1;
      }
  }
  void join(std::vector<Layers>& near, std::size_t n, std::size_t other) {
    const bool gradient = phase_of(n) == PlanPhase::update && phase_of(other) == PlanPhase::backward;
    if ((phase_of(n) != phase_of(other) && !gradient) || node(other).op == Op::input) return;
    const Layers& layers = own_[other].empty() ? near[other] : own_[other];
    near[n].insert(layers.begin(), layers.end());
  }

  const Graph& graph_;
  const PlanValues& values_;
  const std::vector<PlanPhase>& phases_;
  const Flags& about_norm_;
  std::map<std::string, std::string> layers_;  // of each parameter
  std::vector<Layers> gives_, own_, before_, after_;
  std::vector<char> leads_to_loss_;
  std::vector<std::string> names_;
};

}  // namespace

std::string layer_of_parameter(const std::string& name, bool bare_stack) {
  const std::size_t dot = name.find('.'), suffix = stack_suffix(name);
  const std::string first = name.substr(0, dot);
  if (suffix == std::string::npos) return first;
  const std::size_t end = name.find("_reverse", suffix);
  const std::string layer = name.substr(suffix + 1, end == std::string::npos ? end : end - suffix - 1);
  return bare_stack || dot == std::string::npos ? layer : first + "." + layer;
}

bool is_bare_stack(const std::set<std::string>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(),
                     [](const std::string& name) { return stack_suffix(name) != std::string::npos; });
}

std::vector<std::string> node_layers(const Graph& graph, const PlanValues& values, const std::vector<PlanPhase>& phases,
                                     const Flags& about_norm, const std::set<std::string>& parameters) {
  return LayerMap(graph, values, phases, about_norm, parameters).names();
}

}  // namespace unroll::cli
