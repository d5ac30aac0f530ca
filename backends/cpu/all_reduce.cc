// SPDX-License-Identifier: Apache-2.0
// The sum of an update's leaves over all ranks, by the thread that runs the plan.
#include <string>

#include "backends/cpu/program.h"
#include "backends/cpu/state.h"
#include "core/support/sum_tree.h"
#include "unroll/error.h"

namespace unroll::cpu {

namespace {

class AllReduceCall final : public Call {
 public:
  AllReduceCall(Communicator& ranks, const Node& node, std::vector<Ref> roots, Ref result)
      : ranks_(ranks), leaves_(node.attributes.get<std::int64_t>("leaves")), type_(node.outputs[0]),
        inputs_(std::move(roots)), result_(result) {
    // A rank without leaves has an operand all the same.
    if (leaves_of(leaves_, ranks.rank(), ranks.size()).size() == 0) inputs_.clear();
    roots_.resize(inputs_.size());
  }
  bool alone() const override { return true; }
  void run(const Frame& frame, const Part&) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) roots_[i] = inputs_[i].in(frame);
    sum_of_leaves(ranks_, leaves_, type_.dtype, type_.shape.elements(), roots_, result_.in(frame));
  }
  std::string implementation() const override {
    return "exchange of rank " + std::to_string(ranks_.rank()) + " of " + std::to_string(ranks_.size());
  }

 private:
  Communicator& ranks_;
  std::int64_t leaves_;
  Type type_;
  std::vector<Ref> inputs_;
  Ref result_;
  std::vector<const std::byte*> roots_;  // of the run
};

}  // namespace

std::unique_ptr<Call> make_all_reduce(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  std::vector<Ref> roots;
  for (const ValueId& root : node.inputs) roots.push_back(view.ref(root));
  return std::make_unique<AllReduceCall>(*view.state.communicator, node, std::move(roots), view.ref({id, 0}));
}

}  // namespace unroll::cpu
