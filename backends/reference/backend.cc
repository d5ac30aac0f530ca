// SPDX-License-Identifier: Apache-2.0
// The reference backend: claims nothing and runs every plan unchanged. In f64 it is the ground truth of all tests.
#include <string>

#include "backends/common/host_buffer.h"
#include "backends/reference/interpret.h"
#include "backends/registry.h"

namespace unroll {

namespace {

void require_plain(const Plan& plan) {
  for (const Node& node : plan.graph->nodes())
    if (node.op == Op::gradient || op_info(node.op).tier == OpTier::composite)
      throw Error(ErrorKind::unsupported, "reference",
                  "runs primitive ops only; the plan contains " + std::string(op_info(node.op).name),
                  "Plan the graph for this backend");
  for (const auto& body : plan.bodies)
    if (body) require_plain(*body);
}

class ReferenceExecutable final : public Executable {
 public:
  explicit ReferenceExecutable(std::shared_ptr<const Plan> plan)
      : plan_(std::move(plan)), milliseconds_(plan_->graph->nodes().size(), 0) {}

  void run(const Bindings& bindings) override {
    reference::Frame frame;
    for (Buffer* buffer : bindings.inputs) frame.inputs.push_back(as_host(*buffer).data());
    for (Buffer* buffer : bindings.outputs) frame.outputs.push_back(as_host(*buffer).data());
    reference::interpret(*plan_, frame, milliseconds_);
  }

  std::vector<ReportLine> report() const override {
    std::vector<ReportLine> lines;
    const auto nodes = plan_->graph->nodes();
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      if (nodes[id].op == Op::input || nodes[id].op == Op::constant) continue;
      ReportLine line{"%" + std::to_string(id) + " " + std::string(op_info(nodes[id].op).name), "plain loops"};
      for (const Type& type : nodes[id].outputs) line.bytes += type.bytes();
      line.milliseconds = milliseconds_[id];
      line.node = static_cast<std::int32_t>(id);
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::vector<double> milliseconds_;  // [node] over all runs
};

class ReferenceBackend final : public HostBackend {
 public:
  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph&, const Node&) const override {
    return {.reason = "the reference backend runs the bodies of composites"};
  }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    require_plain(*plan);
    return std::make_unique<ReferenceExecutable>(std::move(plan));
  }

 private:
  Capabilities capabilities_{.name = "reference",
                             .device = "host, plain loops, f32 and f64",
                             .dtypes = {DType::f32, DType::f64, DType::i32, DType::b8, DType::bf16, DType::f16},
                             .lengths = LengthsForm::restored};
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(const BackendOptions&) { return std::make_unique<ReferenceBackend>(); }

}  // namespace unroll
