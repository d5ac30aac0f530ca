// SPDX-License-Identifier: Apache-2.0
// Recurrent layers by oneDNN's primitives; all other nodes run on the base backend.
#include <string>

#include "backends/common/host_buffer.h"
#include "backends/common/specific_options.h"
#include "backends/cpu/executable.h"
#include "backends/onednn/calls.h"
#include "backends/onednn/library.h"
#include "backends/onednn/omp_pool.h"
#include "backends/registry.h"
#include "core/support/text/counted.h"
#include "unroll/passes/run.h"

namespace unroll::onednn {

namespace {

struct ClaimRow {
  Op op;
  Claim (*claim)(const Graph&, const Node&, DType format);
};
constexpr ClaimRow k_claims[] = {
    {Op::rnn, claim_recurrent},
    {Op::gru, claim_recurrent},
    {Op::lstm, claim_recurrent},
};

// Compute format of primitives, by the precision of the plan.
struct FormatRow {
  Precision precision;
  DType format;
  dnnl_cpu_isa_t instructions;  // a set of bits
};
constexpr FormatRow k_formats[] = {{Precision::bf16, DType::bf16, dnnl_cpu_isa_avx512_core_bf16},
                                   {Precision::f16, DType::f16, dnnl_cpu_isa_avx512_core_fp16}};

class OnednnBackend final : public HostBackend {
 public:
  explicit OnednnBackend(const BackendOptions& options)
      : emulates_formats_(common::specific_option(options, "emulate_formats") == "true"),
        pool_(options.threads > 0 ? options.threads : cpu::available_cores()) {
    cpu::prepare(state_, pool_, options);
    capabilities_ = cpu::program_capabilities(pool_.size());
    capabilities_.name = "onednn";
    capabilities_.device = "oneDNN " + library().release + ", " + counted(pool_.size(), "thread") +
                           (library().has_openmp() ? " of OpenMP" : "") + ", " + cpu::instruction_set();
    capabilities_.deterministic = false;
  }

  const Capabilities& describe() const override { return capabilities_; }
  Communicator* communicator() const override { return state_.communicator; }
  void wait() override {
    if (state_.exchanges) state_.exchanges->finish();
  }
  Claim claim(const Graph& graph, const Node& node) const override { return claim_with(graph, node, DType::f32); }
  Claim claim_in(const Graph& graph, const Node& node, Precision precision) const override {
    if (precision == Precision::f32 || cpu::exchanges(state_, node)) return claim(graph, node);
    for (const FormatRow& row : k_formats) {
      if (row.precision != precision) continue;
      if (emulates_formats_ || (library().get_effective_cpu_isa() & row.instructions) == row.instructions)
        return claim_with(graph, node, row.format);
      return {.reason = "this processor has no " + std::string(precision_name(precision)) +
                        " instructions, without which oneDNN is slower than the body (option emulate_formats)"};
    }
    return {.reason = "oneDNN's recurrent primitives have no " + std::string(precision_name(precision))};
  }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    const cpu::ThreadWays threads{plan->one_thread ? 1 : pool_.size()};
    return std::make_unique<cpu::ProgramExecutable<ThreadPool>>(std::move(plan), pool_, state_, threads,
                                                                make_recurrent);
  }

 private:
  Claim claim_with(const Graph& graph, const Node& node, DType format) const {
    if (cpu::exchanges(state_, node)) return {.yes = true};
    const bool gradient = node.op == Op::gradient;
    const Op op = gradient ? find_op(node.attributes.get<std::string>("of"))->op : node.op;
    const ThreadCount threads(pool_.size());  // sizes may depend on it
    for (const ClaimRow& row : k_claims)
      if (row.op == op) return row.claim(graph, node, format);
    return {.reason = "oneDNN has no primitive for it; its body runs"};
  }

  bool emulates_formats_;
  ThreadPool pool_;
  cpu::BackendState state_;
  Capabilities capabilities_;
};

}  // namespace

}  // namespace unroll::onednn

namespace unroll {

std::vector<BackendOption> onednn_options() {
  return {{"emulate_formats", {"false", "true"}, "Use oneDNN's 16-bit kernels on processors without the instructions."},
          common::predict_option()};
}

std::unique_ptr<Backend> make_onednn_backend(const BackendOptions& options) {
  return std::make_unique<onednn::OnednnBackend>(options);
}

}  // namespace unroll
