// SPDX-License-Identifier: Apache-2.0
#include "core/passes/log.h"

#include <algorithm>

#include "core/support/text/counted.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The name of the graph's input that a value is, but for its form; empty: it is none.
const std::string& input_behind(const Graph& graph, ValueId id) {
  static const std::string none;
  for (;;) {
    const Node& node = graph.node(id.node);
    if (node.op == Op::input) return node.attributes.get<std::string>("name");
    if (node.op != Op::reshape && node.op != Op::transpose && node.op != Op::slice) return none;
    id = node.inputs[0];
  }
}

// "a b and 2 more"
std::string list_text(const std::vector<std::string>& words, std::size_t n, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i) text += (i == 0 ? "" : " ") + words[i];
  return n > most ? text + " and " + std::to_string(n - most) + " more" : text;
}

// ", reads recurrent.weight_hh_l0": of what is the same in all steps the inputs of the graph.
std::string constants_text(const Graph& graph, const Node& scan) {
  constexpr std::size_t k_most = 2;
  const ScanLayout l = scan_layout(scan);
  std::vector<std::string> names;
  for (int i = l.n_states + l.n_sequences; i < l.n_states + l.n_sequences + l.n_constants; ++i) {
    const std::string& name = input_behind(graph, scan.inputs[i]);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names.empty() ? "" : ", reads " + list_text(names, names.size(), k_most);
}

// "loop of 100 steps, backwards, reads w, states f32[32,256] f32[32,256]": what stays recognizable from pass to pass.
std::string loop_text(const Node& scan, const std::string& constants) {
  const ScanLayout l = scan_layout(scan);
  std::string text = "loop of " + counted(l.steps, "step");
  if (scan.attributes.get_or<bool>("reverse", false)) text += ", in reverse";
  if (l.packed) text += ", packed";
  text += constants;
  constexpr std::size_t k_most_states = 3;  // a gradient's loop has one for each parameter
  const auto n_states = static_cast<std::size_t>(l.n_states);
  std::vector<std::string> states;
  for (std::size_t i = 0; i < std::min(n_states, k_most_states); ++i) states.push_back(scan.outputs[i].text());
  return n_states == 0 ? text : text + ", states " + list_text(states, n_states, k_most_states);
}

}  // namespace

void PassLog::begin(std::string_view pass) {
  pass_ = pass;
  loops_.clear();
}

// Inputs of a body have no names that anybody gave.
void PassLog::enter(const Graph& graph, const Node& scan) {
  // Inside the body of a layer's loop everything is of that layer.
  const std::string layer = loops_.empty() || loops_.back().layer.empty() ? scan.origin.layer : loops_.back().layer;
  loops_.push_back({loop_text(scan, loops_.empty() ? constants_text(graph, scan) : ""), layer});
}

void PassLog::add(std::string what, std::string why, const std::string& layer) {
  PassNote note{pass_, loops_.empty() ? "" : loops_.back().text, std::move(what), std::move(why), 1,
                loops_.empty() ? layer : loops_.back().layer};
  const auto same = [&](const PassNote& other) {
    return other.pass == note.pass && other.where == note.where && other.what == note.what && other.why == note.why &&
           other.layer == note.layer;
  };
  const auto found = std::find_if(notes_.begin(), notes_.end(), same);
  if (found == notes_.end()) notes_.push_back(std::move(note));
  else ++found->count;
}

std::string PassLog::named_text(const Graph& graph, const Node& node) const {
  if (!loops_.empty()) return node_text(node);
  std::vector<std::string> names;
  for (const ValueId id : node.inputs) {
    const std::string& name = input_behind(graph, id);
    const Type& type = graph.type(id);
    if (!name.empty() && is_float(type.dtype) && type.shape.rank() <= 2) names.push_back(name);
  }
  if (names.empty()) return node_text(node);
  const bool has_layers = node.attributes.get_or<std::int64_t>("layers", 1) > 1;
  return node_text(node) + " of " + names.front() + (has_layers ? " to " + names.back() : "");
}

std::string node_text(const Node& node) {
  std::string text(op_info(node.op).name);
  if (node.op == Op::gradient) text += " of " + node.attributes.get<std::string>("of");
  return node.outputs.empty() ? text : text + " " + node.outputs[0].text();
}

}  // namespace unroll
