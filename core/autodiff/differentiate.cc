// SPDX-License-Identifier: Apache-2.0
// Walks from the outputs back to `wrt` in reverse node order, and asks the rule of each op for its contribution.
#include <algorithm>
#include <map>
#include <string>

#include "core/autodiff/accumulate.h"
#include "core/autodiff/reach.h"
#include "core/autodiff/rules.h"
#include "core/ir/ops/op_map.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

OpMap<Rule> make_rules() {
  OpMap<Rule> table;
  for (const auto rows : {elementwise_rules(), linear_rules(), scan_rules(), gradient_rules()})
    for (const RuleRow& row : rows) table.set(row.op, row.rule);
  for (const OpInfo& info : op_table())
    if (info.tier == OpTier::composite && info.gradient == OpGradient::yes) table.set(info.op, composite_gradient());
  return table;
}

std::string name_of(Op op) { return std::string(op_info(op).name); }

std::vector<ValueId> ids_of(std::span<const Value> values) {
  std::vector<ValueId> ids;
  for (const Value& value : values) ids.push_back(value.id());
  return ids;
}

class BackwardWalk {
 public:
  BackwardWalk(Graph& graph, std::span<const Value> wrt)
      : graph_(graph),
        active_(reached_from(graph, ids_of(wrt))),
        n_nodes_(static_cast<std::int32_t>(graph.nodes().size())) {}

  void contribute(ValueId id, Value d) {
    if (active_.contains(id)) contributions_[id].push_back(d);
  }
  // The sum of all contributions so far; empty: zero.
  Value cotangent(ValueId id) {
    const auto at = contributions_.find(id);
    if (at == contributions_.end()) return {};
    const Value total = sum_contributions(at->second);
    at->second = {total};
    return total;
  }
  void run() {
    for (std::int32_t n = n_nodes_; n-- > 0;) visit(n);
  }

 private:
  void visit(std::int32_t n) {
    std::vector<Value> d_out;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph_.node(n).outputs.size()); ++k)
      d_out.push_back(cotangent({n, k}));
    if (std::none_of(d_out.begin(), d_out.end(), [](const Value& d) { return static_cast<bool>(d); })) return;

    Backward call{graph_, graph_.node(n), {}, {}, std::move(d_out), {}};
    for (const ValueId id : call.node.inputs) {
      call.in.push_back(graph_.value(id));
      call.wanted.push_back(active_.contains(id));
    }
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(call.node.outputs.size()); ++k)
      call.out.push_back(graph_.value({n, k}));
    // A wrt itself, or what stop_gradient made of one: nothing lies behind it.
    if (call.node.op == Op::stop_gradient ||
        std::find(call.wanted.begin(), call.wanted.end(), true) == call.wanted.end())
      return;
    apply_rule(call);
  }

  void apply_rule(const Backward& call) {
    const OriginScope of_node(graph_, {call.node.origin.layer, Origin::Phase::backward});
    const Rule rule = find_rule(call.node.op);
    if (!rule)
      throw Error(ErrorKind::unsupported, "differentiate", "op '" + name_of(call.node.op) + "' has no gradient",
                  "put stop_gradient around it or leave it out of the loss");
    const std::vector<Value> d_in = rule(call);
    if (d_in.size() != call.in.size())
      throw Error(ErrorKind::internal, name_of(call.node.op), "the gradient rule must give one cotangent per operand");
    for (std::size_t i = 0; i < d_in.size(); ++i)
      if (d_in[i] && call.wanted[i]) contribute(call.in[i].id(), unbroadcast(d_in[i], call.in[i].shape()));
  }

  Graph& graph_;
  ValueSet active_;
  std::int32_t n_nodes_;
  std::map<ValueId, std::vector<Value>> contributions_;
};

void check(std::span<const Value> outputs, std::span<const Value> cotangents, std::span<const Value> wrt) {
  const auto refuse = [](ErrorKind kind, const std::string& what) { throw Error(kind, "differentiate", what); };
  if (outputs.size() != cotangents.size())
    refuse(ErrorKind::usage, "takes one cotangent per output; got " + std::to_string(cotangents.size()) + " for " +
                                 std::to_string(outputs.size()));
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const std::string name = "wrt " + std::to_string(i);
    if (!wrt[i]) refuse(ErrorKind::usage, name + " is empty");
    if (!is_float(arithmetic_dtype(wrt[i].dtype())))
      refuse(ErrorKind::type, name + " must be of a float dtype; got " + wrt[i].type().text());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = "output " + std::to_string(i);
    if (!outputs[i] || !cotangents[i]) refuse(ErrorKind::usage, name + " or its cotangent is empty");
    if (!is_float(arithmetic_dtype(outputs[i].dtype())))
      refuse(ErrorKind::type, name + " must be of a float dtype; got " + outputs[i].type().text());
    if (cotangent_type(outputs[i].type()) != cotangents[i].type())
      refuse(ErrorKind::shape,
             name + " is " + outputs[i].type().text() + " but its cotangent is " + cotangents[i].type().text());
  }
  const Graph* graph = wrt.empty() ? nullptr : &wrt[0].graph();
  for (const auto values : {outputs, cotangents, wrt})
    for (const Value& value : values)
      if (graph && &value.graph() != graph)
        refuse(ErrorKind::usage, "outputs, cotangents and wrt must belong to one graph");
}

}  // namespace

Rule find_rule(Op op) {
  static const OpMap<Rule> table = make_rules();
  return table.find(op);
}

std::vector<Value> pull_back(std::span<const Value> outputs, std::span<const Value> cotangents,
                             std::span<const Value> wrt) {
  if (wrt.empty()) return {};
  BackwardWalk walk(wrt[0].graph(), wrt);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (cotangents[i]) walk.contribute(outputs[i].id(), cotangents[i]);
  walk.run();
  std::vector<Value> gradients;
  for (const Value& value : wrt) gradients.push_back(walk.cotangent(value.id()));
  return gradients;
}

std::vector<Value> differentiate(ValueList outputs, ValueList cotangents, ValueList wrt) {
  check(outputs, cotangents, wrt);
  std::vector<Value> gradients = pull_back(outputs, cotangents, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i)
    if (!gradients[i]) gradients[i] = filled(wrt[i].graph(), cotangent_type(wrt[i].type()), 0);
  return gradients;
}

std::vector<Value> differentiate(Value loss, ValueList wrt) {
  if (!loss) throw Error(ErrorKind::usage, "differentiate", "the loss is empty");
  if (loss.rank() != 0)
    throw Error(ErrorKind::shape, "differentiate", "the loss must be a scalar; got " + loss.type().text(),
                "reduce it with mean or sum");
  if (!is_float(loss.dtype()))
    throw Error(ErrorKind::type, "differentiate", "the loss must be of a float dtype; got " + loss.type().text());
  return differentiate({loss}, {scalar_like(loss, 1)}, wrt);
}

ValueAndGradients value_and_grad(const std::function<Value(std::span<const Value> arguments)>& function,
                                 ValueList arguments) {
  const Value value = function(arguments);
  return {value, differentiate(value, arguments)};
}

}  // namespace unroll
