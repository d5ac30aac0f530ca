// SPDX-License-Identifier: Apache-2.0
// Plans for a device that is not there: describes it, refuses claims, and compiles plans to a report of their nodes.
#include <algorithm>
#include <string>

#include "backends/common/hazards.h"
#include "backends/profile/profiles.h"
#include "backends/registry.h"
#include "core/support/text/nearest_name.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::string product_text(const Graph& graph, const Node& node) {
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& c = node.outputs[0].shape;
  const std::int64_t k = a[a.rank() - (node.attributes.get<bool>("transpose_a") ? 2 : 1)];
  return "product, M " + std::to_string(c[c.rank() - 2]) + ", N " + std::to_string(c[c.rank() - 1]) + ", K " +
         std::to_string(k);
}

// The text of the kernel that a backend for the device would run.
std::string kernel_text(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::matmul: return product_text(graph, node);
    case Op::fused:
    case Op::fused_reduction: {
      const auto nodes = node.body->nodes();
      const auto is_op = [](const Node& inner) {
        return is_elementwise(inner.op) || op_info(inner.op).kind == OpKind::reduce;
      };
      const auto n = std::count_if(nodes.begin(), nodes.end(), is_op);
      return (node.op == Op::fused ? "fused kernel of " : "row kernel of ") + std::to_string(n) + " ops";
    }
    case Op::scan: {
      const ScanLayout l = scan_layout(node);
      return (l.n_states == 0 ? "independent loop of " : "loop of ") + std::to_string(l.steps) + " steps" +
             (l.has_lengths ? ", each row ends at its length" : "");
    }
    default: return "kernel";
  }
}

// One line for each task: not for values that are only another reading of their operand.
void report_plan(const Plan& plan, const common::Hazards& hazards, int depth, std::vector<ReportLine>& lines) {
  const auto nodes = plan.graph->nodes();
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    if (hazards.tasks[id].reads.empty() && hazards.tasks[id].writes.empty()) continue;
    ReportLine line{"%" + std::to_string(id) + " " + std::string(op_info(node.op).name),
                    kernel_text(*plan.graph, node)};
    for (const Type& type : node.outputs) line.bytes += type.bytes();
    line.depth = depth;
    line.node = static_cast<std::int32_t>(id);
    lines.push_back(std::move(line));
    if (plan.bodies[id]) report_plan(*plan.bodies[id], *hazards.bodies[id], depth + 1, lines);
  }
}

class ProfileExecutable final : public Executable {
 public:
  ProfileExecutable(std::shared_ptr<const Plan> plan, std::string name)
      : plan_(std::move(plan)), name_(std::move(name)) {}
  void run(const Bindings&) override {
    throw Error(ErrorKind::device, name_, "is a profile: plans for it cannot run",
                "Use a backend that `unroll doctor` lists as present");
  }
  std::vector<ReportLine> report() const override {
    std::vector<ReportLine> lines;
    report_plan(*plan_, common::hazards_of(*plan_), 0, lines);
    return lines;
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::string name_;
};

class ProfileBackend final : public Backend {
 public:
  explicit ProfileBackend(const profile::Profile& profile) {
    profile.describe(capabilities_);
    capabilities_.name = profile.name;
    capabilities_.device = "profile of " + std::string(profile.device);
    capabilities_.runs = false;
  }
  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph&, const Node&) const override {
    return {.reason = "a profile has no kernels; a backend on the device may claim it"};
  }
  std::unique_ptr<Buffer> allocate(std::size_t) override { refuse(); }
  void upload(Buffer&, std::size_t, std::span<const std::byte>) override { refuse(); }
  void download(const Buffer&, std::size_t, std::span<std::byte>) override { refuse(); }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    return std::make_unique<ProfileExecutable>(std::move(plan), capabilities_.name);
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::device, capabilities_.name, "is a profile: it plans, but has no device to run on",
                "Use `unroll explain` with it, or a backend that `unroll doctor` lists as present");
  }
  Capabilities capabilities_;
};

}  // namespace

std::vector<BackendStatus> list_profiles() {
  std::vector<BackendStatus> statuses;
  for (const profile::Profile& row : profile::profiles())
    statuses.push_back({std::string(row.name), true, std::string(row.device)});
  return statuses;
}

std::unique_ptr<Backend> make_profile_backend(const std::string& name) {
  std::vector<std::string_view> names;
  for (const profile::Profile& row : profile::profiles()) {
    if (row.name == name) return std::make_unique<ProfileBackend>(row);
    names.push_back(row.name);
  }
  throw Error(ErrorKind::device, "make_backend", "unknown profile '" + name + "'", known_names(name, names));
}

}  // namespace unroll
