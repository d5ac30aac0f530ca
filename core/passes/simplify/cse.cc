// SPDX-License-Identifier: Apache-2.0
// Common subexpression elimination: merges equal nodes, and scans that compute the same recurrence.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "core/ir/graph_hash.h"
#include "core/ir/ops/scan_parts.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

bool is_commutative(Op op) {
  return op == Op::add || op == Op::mul || op == Op::equal || op == Op::logical_and || op == Op::logical_or;
}

// Attributes and bodies of nodes as bytes: equal for equal ones, and compared only between nodes with equal operands.
// The weights of a model are constants, and each pass that looks for equal nodes comes here. So large tensors are
// compared where they are: the first of equal ones stands for all.
class Payloads {
 public:
  std::string of(const Node& node) {
    std::string text = attribute_bytes(node.attributes, [this](const auto& tensor) { return of_tensor(tensor); });
    if (node.body) append(text, *node.body);
    return text;
  }

 private:
  static constexpr std::size_t k_copied_bytes = 1024, k_sampled = 64;

  std::string of_tensor(const std::shared_ptr<const Tensor>& tensor) {
    const auto bytes = tensor->bytes();
    if (bytes.size() <= k_copied_bytes) return type_and_elements(tensor);
    std::string key = tensor->type().text();  // and some bytes, which tell most tensors apart
    for (std::size_t i = 0; i < k_sampled; ++i) key += static_cast<char>(bytes[bytes.size() / k_sampled * i]);
    std::vector<std::shared_ptr<const Tensor>>& alike = large_[key];
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const std::shared_ptr<const Tensor>& other) {
      return other == tensor || std::memcmp(other->bytes().data(), bytes.data(), bytes.size()) == 0;
    });
    const auto place = static_cast<std::size_t>(same - alike.begin());
    if (same == alike.end()) alike.push_back(tensor);
    return key + std::to_string(place);
  }

  void append(std::string& text, const Graph& body) {
    const auto add = [&text](std::string_view part) {
      text.append(std::to_string(part.size())).append(":").append(part);
    };
    const auto add_value = [&text](const ValueId& id) {
      text.append(std::to_string(id.node)).append(".").append(std::to_string(id.output)).append(" ");
    };
    for (const Node& node : body.nodes()) {
      add(op_info(node.op).name);
      for (const ValueId& id : node.inputs) add_value(id);
      for (const Type& type : node.outputs) add(type.text());
      add(of(node));
    }
    for (const NamedValue& output : body.outputs()) {
      add(output.name);
      add_value(output.value);
    }
  }

  std::map<std::string, std::vector<std::shared_ptr<const Tensor>>> large_;
};

using Key = std::tuple<Op, std::vector<ValueId>, std::string>;

std::shared_ptr<const Graph> eliminate(const Graph& graph) {
  std::map<Key, std::vector<Value>> seen;
  Payloads payloads;
  return rewrite(graph, [&](const RewriteNode& at) -> std::vector<Value> {
    std::vector<ValueId> operands;
    for (const Value& v : at.operands) operands.push_back(v.id());
    if (is_commutative(at.node.op)) std::sort(operands.begin(), operands.end());
    std::vector<Value>& known = seen[{at.node.op, operands, payloads.of(at.node)}];
    if (known.empty()) known = at.target.append_copy(at.source, at.node, at.operands);
    return known;
  });
}

// Two bodies in one graph over the same inputs, with common subexpressions removed.
std::shared_ptr<const Graph> join_bodies(const Graph& a, const Graph& b) {
  Graph both;
  std::vector<Value> inputs;
  for (const NamedValue& input : a.inputs()) inputs.push_back(both.input(input.name, a.type(input.value)));
  int n = 0;
  for (const Graph* body : {&a, &b})
    for (const Value& output : inline_graph(both, *body, inputs)) both.output("out" + std::to_string(n++), output);
  return cse(both);
}

struct Merged {
  std::shared_ptr<const Graph> body;  // next states, then the distinct outputs of all
  std::vector<std::vector<std::size_t>> at;  // [scan of the class][its output] -> output of the merged scan
};

// Adds one more scan to a class; false when its states evolve differently.
bool join(Merged& merged, const Node& scan) {
  const ScanLayout layout = scan_layout(scan);
  const auto joined = join_bodies(*merged.body, *scan.body);
  const auto outputs = joined->outputs();
  const std::size_t n_old = merged.body->outputs().size(), n_new = scan.body->outputs().size();
  for (std::size_t i = 0; is_state(layout, i); ++i)
    if (outputs[i].value != outputs[n_old + i].value) return false;
  auto body = std::make_shared<Graph>();
  std::vector<Value> inputs;
  for (const NamedValue& input : joined->inputs()) inputs.push_back(body->input(input.name, joined->type(input.value)));
  const auto values = inline_graph(*body, *joined, inputs);
  std::vector<std::size_t> places;
  std::vector<Value> kept(values.begin(), values.end() - std::ssize(scan.body->outputs()));
  for (std::size_t i = 0; i < n_new; ++i) {
    std::size_t place = i;
    if (!is_state(layout, i)) {
      for (place = 0; place < kept.size(); ++place)
        if (!is_state(layout, place) && kept[place] == values[n_old + i]) break;
      if (place == kept.size()) kept.push_back(values[n_old + i]);
    }
    places.push_back(place);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) body->output("out" + std::to_string(i), kept[i]);
  merged.body = std::move(body);
  merged.at.push_back(std::move(places));
  return true;
}

std::shared_ptr<const Graph> merge(const Graph& graph, PassLog* log) {
  // Classes of scans with equal operands and attributes, in order of appearance.
  std::map<Key, std::vector<Merged>> classes;
  Payloads payloads;
  std::map<std::int32_t, std::pair<Merged*, std::size_t>> member;  // scan node -> its class and place there
  const std::size_t n = graph.nodes().size();
  for (std::size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::scan) continue;
    Node bare = node;
    bare.body = nullptr;
    std::vector<Merged>& candidates = classes[{Op::scan, node.inputs, payloads.of(bare)}];
    candidates.reserve(n);  // pointers into it stay valid
    Merged* home = nullptr;
    for (Merged& candidate : candidates)
      if (join(candidate, node)) {
        home = &candidate;
        break;
      }
    if (!home) {
      std::vector<std::size_t> all(node.body->outputs().size());
      std::iota(all.begin(), all.end(), 0);
      candidates.push_back({node.body, {all}});
      home = &candidates.back();
    }
    member[static_cast<std::int32_t>(i)] = {home, home->at.size() - 1};
  }
  std::map<const Merged*, std::vector<Value>> emitted;
  return rewrite(graph, [&](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op != Op::scan) return {};
    const auto [home, place] = member.at(at.id);
    if (home->at.size() == 1) return {};
    std::vector<Value>& outputs = emitted[home];
    if (outputs.empty()) {
      outputs = copy_node(at, home->body);
      const InLoop in_loop(log, at.source, at.node);
      if (log)
        log->add("merged " + std::to_string(home->at.size()) + " loops into one",
                 "their states are equal in every step");
    }
    std::vector<Value> mine;
    for (const std::size_t k : home->at[place]) mine.push_back(outputs[k]);
    return mine;
  });
}

}  // namespace

std::shared_ptr<const Graph> cse(const Graph& graph) { return with_bodies(graph, eliminate); }
std::shared_ptr<const Graph> merge_scans(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [log](const Graph& g) { return merge(g, log); }, log);
}

}  // namespace unroll
