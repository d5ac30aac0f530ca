// SPDX-License-Identifier: Apache-2.0
#include "core/passes/log.h"

#include <algorithm>

#include "unroll/ops.h"

namespace unroll {

namespace {

// "loop of 100 steps, backwards, states f32[32,256] f32[32,256]": what stays recognisable from pass to pass.
std::string loop_text(const Node& scan) {
  const ScanLayout l = scan_layout(scan);
  std::string text = "loop of " + std::to_string(l.steps) + " steps";
  if (scan.attributes.get_or<bool>("reverse", false)) text += ", backwards";
  if (l.packed) text += ", packed";
  constexpr int k_most_states = 3;  // a gradient's loop has one for each parameter
  for (int i = 0; i < std::min(l.n_states, k_most_states); ++i) {
    text += i == 0 ? ", states " : " ";
    text += scan.outputs[static_cast<std::size_t>(i)].text();
  }
  if (l.n_states > k_most_states) text += " and " + std::to_string(l.n_states - k_most_states) + " more";
  return text;
}

}  // namespace

void PassLog::begin(std::string_view pass) {
  pass_ = pass;
  loops_.clear();
}

void PassLog::enter(const Node& scan) { loops_.push_back(loop_text(scan)); }

void PassLog::add(std::string what, std::string why) {
  PassNote note{pass_, loops_.empty() ? "" : loops_.back(), std::move(what), std::move(why), 1};
  const auto same = [&](const PassNote& other) {
    return other.pass == note.pass && other.where == note.where && other.what == note.what && other.why == note.why;
  };
  const auto found = std::find_if(notes_.begin(), notes_.end(), same);
  if (found == notes_.end()) notes_.push_back(std::move(note));
  else ++found->count;
}

std::string node_text(const Node& node) {
  std::string text(op_info(node.op).name);
  if (node.op == Op::gradient) text += " of " + node.attributes.get<std::string>("of");
  return node.outputs.empty() ? text : text + " " + node.outputs[0].text();
}

}  // namespace unroll
