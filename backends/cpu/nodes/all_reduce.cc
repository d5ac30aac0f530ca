// SPDX-License-Identifier: Apache-2.0
// The sum of an update's partial sums over all ranks. It runs on the plan's thread, or on a separate thread while the
// plan continues. The latter requires enough following work that does not access the operands or the result.
#include <algorithm>
#include <string>

#include "backends/cpu/program/program.h"
#include "backends/cpu/program/state.h"
#include "core/parallel/collectives.h"
#include "core/parallel/exchange_thread.h"
#include "core/support/sum_tree.h"

namespace unroll::cpu {

namespace {

class AllReduceCall final : public Call {
 public:
  AllReduceCall(BackendState& state, const Node& node, std::vector<Ref> blocks, Ref result, bool goes_on)
      : thread_(*state.exchanges), ranks_(*state.communicator),
        sum_(ranks_, node.attributes.get<std::int64_t>("micro_batches"), node.outputs[0].dtype,
             node.outputs[0].shape.elements()),
        inputs_(std::move(blocks)), result_(result), goes_on_(goes_on) {
    // A rank without micro-batches has an operand all the same.
    if (micro_batches_of(node.attributes.get<std::int64_t>("micro_batches"), ranks_.rank(), ranks_.size()).size() == 0)
      inputs_.clear();
    blocks_.resize(inputs_.size());
  }
  bool alone() const override { return true; }
  void run(const Frame& frame, const Worker&) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) blocks_[i] = inputs_[i].in(frame);
    const auto job = [this, result = result_.in(frame)] { sum_.run(blocks_, result); };
    if (goes_on_) thread_.start(job);
    else thread_.run_last(job);
  }
  std::string implementation() const override {
    return "exchange of rank " + std::to_string(ranks_.rank()) + " of " + std::to_string(ranks_.size()) +
           (goes_on_ ? ", beside what follows" : "");
  }

 private:
  ExchangeThread& thread_;
  Communicator& ranks_;
  HostSum sum_;
  std::vector<Ref> inputs_;
  Ref result_;
  bool goes_on_;
  std::vector<const std::byte*> blocks_;  // of the current run
};

class AwaitCall final : public Call {
 public:
  explicit AwaitCall(ExchangeThread& thread) : thread_(thread) {}
  bool alone() const override { return true; }
  void run(const Frame&, const Worker&) override { thread_.finish(); }
  std::string implementation() const override { return "waits for exchanges"; }

 private:
  ExchangeThread& thread_;
};

// True if a sum may overlap the rest of the plan. Bound memory is not written again unless it is donated.
bool may_go_on(const PlanView& view, std::int32_t id) {
  const Plan& plan = view.plan;
  const auto nodes = plan.graph->nodes();
  const std::size_t after = id + 1;
  for (const ValueId& from : plan.graph->node(id).inputs) {
    const Storage& at = plan.storage[from.node][from.output];
    const bool is_donated = at.place == Storage::Place::input &&
                            std::find(plan.donors.begin(), plan.donors.end(), at.index) != plan.donors.end();
    if ((at.place != Storage::Place::input && at.place != Storage::Place::output) || is_donated) return false;
  }
  bool pays = false;
  for (std::size_t n = after; n < nodes.size(); ++n) {
    for (const ValueId& from : nodes[n].inputs)
      if (from.node == id) return false;
    // A loop, or a layer that a backend has claimed.
    pays = pays || nodes[n].op == Op::scan || nodes[n].op == Op::gradient;
  }
  return pays;
}

}  // namespace

std::unique_ptr<Call> make_all_reduce(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  std::vector<Ref> blocks;
  for (const ValueId& block : node.inputs) blocks.push_back(view.ref(block));
  return std::make_unique<AllReduceCall>(view.state, node, std::move(blocks), view.ref({id, 0}), may_go_on(view, id));
}

std::unique_ptr<Call> make_await_exchanges(const PlanView& view, std::int32_t& last) {
  last = -1;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(view.graph().nodes().size()); ++id)
    if (exchanges(view.state, view.graph().node(id)) && may_go_on(view, id)) last = id;
  return last < 0 ? nullptr : std::make_unique<AwaitCall>(*view.state.exchanges);
}

}  // namespace unroll::cpu
