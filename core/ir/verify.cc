// SPDX-License-Identifier: Apache-2.0
// The numbered rules of a valid graph. Graph::append already ensures most of them. The verifier finds errors of passes
// that edit nodes, and of append itself.
#include "core/ir/verify.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/ir/ops/attribute_table.h"
#include "core/ir/ops/row_ops.h"
#include "core/ir/shapes/shape_rules.h"
#include "unroll/ir/graph.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr VerifyRule k_rules[] = {
    {1, "every node has an op of the table"},
    {2, "every operand is an output of an earlier node of the same graph"},
    {3, "a node has as many operands as its op allows"},
    {4, "a node has exactly the attributes of its op, each of the right type"},
    {5, "scan, fused and fused_reduction nodes have a body, other nodes have none"},
    {6, "the body of a scan takes its states, slices and constants, and returns every next state"},
    {7, "the body of a fused node has only elementwise ops"},
    {8, "output types are those of the shape rule"},
    {9, "the list of inputs contains all input nodes in order; names are unique"},
    {10, "every named output exists; names are unique"},
    {11, "in a planned graph all composite and gradient nodes are claimed"},
    {12, "bodies are nested at most 64 deep"},
    {13, "the body of a fused_reduction node has only ops that work row by row"},
};

class Verifier {
 public:
  Verifier(const Graph& graph, Stage stage, std::string where, int depth)
      : graph_(graph), stage_(stage), where_(std::move(where)), depth_(depth) {}

  void run() {
    require(12, depth_ <= k_max_depth, "a body is nested deeper");
    for (at_ = 0; at_ < static_cast<std::int32_t>(graph_.nodes().size()); ++at_) check_node(graph_.node(at_));
    at_ = -1;
    check_inputs();
    check_outputs();
  }

 private:
  [[noreturn]] void fail(int rule, const std::string& what) const {
    std::string place = where_;
    if (at_ >= 0) place += " %" + std::to_string(at_);
    if (at_ >= 0 && known()) place += " " + std::string(op_info(graph_.node(at_).op).name);
    const std::string text(k_rules[rule - 1].text);
    throw Error(ErrorKind::graph, "verify",
                "R" + std::to_string(rule) + ": " + text + "; " + what + (place.empty() ? "" : ", at" + place));
  }
  void require(int rule, bool holds, const std::string& what) const {
    if (!holds) fail(rule, what);
  }
  bool known() const { return static_cast<std::size_t>(graph_.node(at_).op) < op_table().size(); }

  // Is it an output of one of the first n nodes?
  bool exists(ValueId id, std::int32_t n) const {
    return id.node >= 0 && id.node < n && id.output >= 0 &&
           static_cast<std::size_t>(id.output) < graph_.node(id.node).outputs.size();
  }

  void check_node(const Node& node) {
    require(1, known(), "got number " + std::to_string(static_cast<int>(node.op)));
    const OpInfo& info = op_info(node.op);
    std::vector<Type> types;
    for (const ValueId& id : node.inputs) {
      if (!exists(id, at_))
        fail(2, "operand " + std::to_string(types.size()) + " is %" + std::to_string(id.node) + "." +
                    std::to_string(id.output));
      types.push_back(graph_.type(id));
    }
    const int n = static_cast<int>(node.inputs.size());
    if (n < info.min_inputs || (info.max_inputs >= 0 && n > info.max_inputs)) fail(3, "got " + std::to_string(n));
    check_attributes(node);
    const bool wants_body = node.op == Op::scan || node.op == Op::fused || node.op == Op::fused_reduction;
    require(5, wants_body == (node.body != nullptr), node.body ? "got a body" : "got none");
    if (node.body) Verifier(*node.body, stage_, where_ + " %" + std::to_string(at_) + " body,", depth_ + 1).run();
    if (node.op == Op::fused) check_elementwise(*node.body);
    if (node.op == Op::fused_reduction) check_row_ops(*node.body);
    check_types(node, types);
    const bool is_composite = info.tier == OpTier::composite || node.op == Op::gradient;
    if (stage_ == Stage::planned && is_composite)
      require(11, node.attributes.get_or<bool>("claimed", false), "this one is not claimed");
  }

  void check_attributes(const Node& node) const {
    std::vector<AttributeSpec> specs = attributes_of(node.op);
    if (node.op == Op::gradient && node.attributes.has("of")) {
      const auto* name = std::get_if<std::string>(&node.attributes.all().find("of")->second);
      const OpInfo* of = name ? find_op(*name) : nullptr;
      require(4, of && of->tier == OpTier::composite, "'of' names no composite");
      const std::vector<AttributeSpec> more = attributes_of(of->op);
      specs.insert(specs.end(), more.begin(), more.end());
    }
    for (const AttributeSpec& spec : specs) {
      const auto at = node.attributes.all().find(spec.name);
      const std::string name(spec.name), kind(attribute_kind_name(spec.kind));
      if (at == node.attributes.all().end()) {
        require(4, spec.planned || spec.kind == AttributeKind::flag, "'" + name + "', " + kind + ", is missing");
        continue;
      }
      require(4, at->second.index() == static_cast<std::size_t>(spec.kind), "'" + name + "' must be " + kind);
      if (spec.kind == AttributeKind::tensor)
        require(4, std::get<std::shared_ptr<const Tensor>>(at->second) != nullptr, "'" + name + "' holds no tensor");
    }
    for (const auto& [name, value] : node.attributes.all())
      if (std::none_of(specs.begin(), specs.end(), [&given = name](const AttributeSpec& s) { return s.name == given; }))
        fail(4, "'" + name + "' is unknown");
  }

  void check_elementwise(const Graph& body) const {
    for (const Node& node : body.nodes())
      require(7, is_elementwise(node.op) || node.op == Op::input || node.op == Op::constant,
              "got " + std::string(op_info(node.op).name));
  }

  void check_row_ops(const Graph& body) const {
    for (const Node& node : body.nodes())
      require(13, node.op == Op::input || node.op == Op::constant || is_row_op(body, node),
              "got " + std::string(op_info(node.op).name));
  }

  void check_types(const Node& node, std::span<const Type> types) const {
    const int rule = node.op == Op::scan ? 6 : 8;
    std::vector<Type> inferred;
    try {
      inferred = infer_types({node.op, types, node.attributes, node.body.get()});
    } catch (const Error& error) {
      fail(rule, error.what());
    }
    if (inferred.size() != node.outputs.size())
      fail(8, "the rule gives " + std::to_string(inferred.size()) + " outputs, the node has " +
                  std::to_string(node.outputs.size()));
    for (std::size_t i = 0; i < inferred.size(); ++i)
      if (inferred[i] != node.outputs[i])
        fail(8, "output " + std::to_string(i) + " is " + node.outputs[i].text() + ", the rule gives " +
                    inferred[i].text());
  }

  void check_inputs() const {
    std::set<std::string_view> names;
    std::size_t at = 0;
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
      const Node& node = graph_.nodes()[id];
      if (node.op != Op::input) continue;
      const std::string& name = node.attributes.get<std::string>("name");
      const bool listed = at < graph_.inputs().size() && graph_.inputs()[at].name == name &&
                          graph_.inputs()[at].value == ValueId{static_cast<std::int32_t>(id), 0};
      require(9, listed, "'" + name + "' is not number " + std::to_string(at));
      require(9, !name.empty() && names.insert(name).second, "'" + name + "' is empty or taken");
      ++at;
    }
    require(9, at == graph_.inputs().size(),
            "the list has " + std::to_string(graph_.inputs().size()) + " names for " + std::to_string(at) + " nodes");
  }

  void check_outputs() const {
    std::set<std::string_view> names;
    for (const NamedValue& output : graph_.outputs()) {
      const auto n = static_cast<std::int32_t>(graph_.nodes().size());
      require(10, exists(output.value, n), "'" + output.name + "' is missing");
      require(10, !output.name.empty() && names.insert(output.name).second, "'" + output.name + "' is empty or taken");
    }
  }

  const Graph& graph_;
  Stage stage_;
  std::string where_;  // the bodies around this graph
  int depth_;
  std::int32_t at_ = -1;  // the node being checked
};

}  // namespace

std::span<const VerifyRule> verify_rules() { return k_rules; }

void verify(const Graph& graph, Stage stage) { Verifier(graph, stage, "", 0).run(); }

}  // namespace unroll
