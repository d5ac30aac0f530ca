// SPDX-License-Identifier: Apache-2.0
#include "tests/support/null_backend.h"

#include <cstring>

#include "backends/common/host_buffer.h"
#include "tests/support/strict.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Calls = std::shared_ptr<std::vector<std::string>>;

class NullExecutable final : public Executable {
 public:
  explicit NullExecutable(Calls calls) : calls_(std::move(calls)) {}

  void run(const Bindings& bindings) override {
    calls_->push_back("run");
    for (Buffer* output : bindings.outputs)
      if (output->bytes() > 0) std::memset(as_host(*output).data(), 0, output->bytes());
  }
  std::vector<ReportLine> report() const override { return {}; }

 private:
  Calls calls_;
};

}  // namespace

NullBackend::NullBackend()
    : capabilities_{.name = "null",
                    .device = "none: checks plans, every output is zero",
                    .dtypes = {DType::f32, DType::f64, DType::i32, DType::b8, DType::bf16, DType::f16},
                    .fuses = true,
                    .groups_rows = true},
      calls_(std::make_shared<std::vector<std::string>>()) {}
NullBackend::~NullBackend() = default;

Claim NullBackend::claim(const Graph&, const Node& node) const {
  calls_->push_back("claim " + std::string(op_info(node.op).name));
  Claim claim;
  claim.yes = true;
  return claim;
}

std::unique_ptr<Buffer> NullBackend::allocate(std::size_t bytes) {
  calls_->push_back("allocate " + std::to_string(bytes));
  return HostBackend::allocate(bytes);
}

void NullBackend::upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) {
  calls_->push_back("upload " + std::to_string(from.size()));
  HostBackend::upload(buffer, offset, from);
}

void NullBackend::download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) {
  calls_->push_back("download " + std::to_string(to.size()));
  HostBackend::download(buffer, offset, to);
}

std::unique_ptr<Executable> NullBackend::compile(std::shared_ptr<const Plan> plan) {
  calls_->push_back("compile " + std::to_string(plan->graph->nodes().size()));
  const std::vector<std::string> findings = strict::violations(*plan, common::hazards_of(*plan));
  if (!findings.empty()) throw Error(ErrorKind::internal, "null", "the plan breaks a promise: " + findings[0]);
  return std::make_unique<NullExecutable>(calls_);
}

void NullBackend::wait() { calls_->push_back("wait"); }


}  // namespace unroll
