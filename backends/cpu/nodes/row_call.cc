// SPDX-License-Identifier: Apache-2.0
// The call of a fused reduction: workers divide its rows.
#include <algorithm>

#include "backends/cpu/ops/row_program.h"
#include "backends/cpu/program/program.h"

namespace unroll::cpu {

namespace {

// [input] the result that shares its memory, or -1.
std::vector<int> results_over(std::span<const Ref> inputs, std::span<const Ref> results) {
  std::vector<int> over;
  for (const Ref& input : inputs) {
    const auto at = std::find(results.begin(), results.end(), input);
    over.push_back(at == results.end() ? -1 : static_cast<int>(at - results.begin()));
  }
  return over;
}

class RowCall : public Call {
 public:
  RowCall(const Expression& source, std::vector<Ref> inputs, std::vector<Ref> results, int parts)
      : program_(source, results_over(inputs, results)), inputs_(std::move(inputs)), results_(std::move(results)) {
    pointers_.resize(parts);
    for (Pointers& p : pointers_) {
      p.in.resize(inputs_.size());
      p.out.resize(results_.size());
    }
  }
  std::size_t scratch_bytes() const { return aligned(program_.scratch_bytes()) * pointers_.size(); }
  void run(const Frame& frame, const Worker& worker) override {
    const std::size_t index = worker.index;
    Pointers& p = pointers_[index];
    for (std::size_t i = 0; i < inputs_.size(); ++i) p.in[i] = inputs_[i].in(frame);
    for (std::size_t i = 0; i < results_.size(); ++i) p.out[i] = results_[i].in(frame);
    program_.run(p.in, p.out, worker, frame.rows, frame.scratch + index * aligned(program_.scratch_bytes()));
  }
  std::string implementation() const override {
    return "rows by " + std::to_string(program_.block_rows()) + ", " + std::to_string(program_.n_operations()) + " ops";
  }

 private:
  struct alignas(64) Pointers {
    std::vector<const void*> in;
    std::vector<void*> out;
  };
  RowProgram program_;
  std::vector<Ref> inputs_, results_;
  std::vector<Pointers> pointers_;
};

}  // namespace

std::unique_ptr<Call> make_fused_reduction(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes) {
  const Node& node = view.graph().node(id);
  Expression source = common::expression_of_rows(node);
  const int last = source.shape.rank() - 1;
  std::vector<Ref> inputs, results;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(view.ref(node.inputs[i]));
    source.inputs[i].strides = view.strides(node.inputs[i], source.shape.with(last, source.inputs[i].columns));
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId out{id, static_cast<std::int32_t>(k)};
    results.push_back(view.ref(out));
    if (!source.results[k].sums) source.results[k].strides = view.strides(out);
  }
  auto call = std::make_unique<RowCall>(source, std::move(inputs), std::move(results), view.parts);
  scratch_bytes = std::max(scratch_bytes, call->scratch_bytes());
  return call;
}

}  // namespace unroll::cpu
