// SPDX-License-Identifier: Apache-2.0
// The default backend: SIMD kernels and a thread pool whose threads execute each plan in lock step.
#include <string>

#include "backends/common/host_buffer.h"
#include "backends/common/specific_options.h"
#include "backends/cpu/cost/work.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/openblas.h"
#include "backends/registry.h"
#include "core/support/text/counted.h"

namespace unroll::cpu {

namespace {

class CpuBackend final : public HostBackend {
 public:
  explicit CpuBackend(const BackendOptions& options)
      : chooses_(options.threads == 0), pool_(options.threads > 0 ? options.threads : available_cores()) {
    state_.schedule = find_schedule(common::specific_option(options, "schedule"));
    prepare(state_, pool_, options);
    capabilities_ = program_capabilities(pool_.size());
    capabilities_.name = "cpu";
    capabilities_.device = counted(pool_.size(), "thread") + ", " + instruction_set();
    if (const char* by = bf16_instructions()) capabilities_.device += std::string(", bf16 by ") + by;
    if (common::specific_option(options, "products") == "openblas") {
      state_.blas = &open_blas();
      capabilities_.name += ":openblas";
      capabilities_.device += ", large products by OpenBLAS " + state_.blas->release + " for " + state_.blas->core;
    }
    capabilities_.lengths = LengthsForm::packed;
    capabilities_.rows_in_place = true;
    capabilities_.windows_as_rows = true;
  }

  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph&, const Node& node) const override {
    if (exchanges(state_, node)) return {.yes = true};
    return {.reason = "cpu runs the bodies of composites; scans are its fast path"};
  }
  Claim claim_in(const Graph& graph, const Node& node, Precision) const override { return claim(graph, node); }
  Communicator* communicator() const override { return state_.communicator; }
  void wait() override {
    if (state_.exchanges) state_.exchanges->finish();
  }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    const ThreadWays threads = ways_of(*plan);
    return std::make_unique<ProgramExecutable<ThreadPool>>(std::move(plan), pool_, state_, threads);
  }

 private:
  ThreadWays ways_of(const Plan& plan) const {
    const bool alone = plan.one_thread || (chooses_ && !threads_pay(usual_machine(), plan, pool_.size()));
    if (alone || pool_.size() == 1) return {};
    // A requested schedule is kept. Calls that are reported or traced keep their threads.
    const bool fixed = state_.schedule || state_.predicts || state_.trace;
    return {pool_.size(), fixed ? 0 : plan_ns(usual_machine(), plan, 1)};
  }

  bool chooses_;  // selects the number of threads of each plan
  ThreadPool pool_;
  BackendState state_;
  Capabilities capabilities_;
};

}  // namespace

}  // namespace unroll::cpu

namespace unroll {

std::vector<BackendOption> cpu_options() {
  return {{"schedule", cpu::schedule_names(),
           "How threads share the steps of a scan, where the scan allows it. Unset: measure the alternatives in the "
           "first runs. Results are bit-identical."},
          {"products", {"own", "openblas"},
           "Which kernels multiply large f32 matrices outside of scans. Results of the two differ by rounding."},
          common::predict_option()};
}

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  return std::make_unique<cpu::CpuBackend>(options);
}

}  // namespace unroll
