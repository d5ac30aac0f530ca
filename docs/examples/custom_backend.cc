// SPDX-License-Identifier: Apache-2.0
// The nine functions of a backend. This one delegates to `reference` kernels and counts calls. Replace each body with
// one for your device: first allocate, upload and download. Check every change with the conformance tests.
#include <unroll/autodiff/autodiff.h>
#include <unroll/ir/ops.h>
#include <unroll/passes/run.h>

#include <cmath>
#include <cstdio>
#include <map>

using namespace unroll;

namespace {

using Counts = std::map<std::string, int>;

class MyExecutable final : public Executable {
 public:
  MyExecutable(std::unique_ptr<Executable> inner, std::shared_ptr<const Plan> plan, Counts& counts)
      : inner_(std::move(inner)), plan_(std::move(plan)), counts_(counts) {}

  // Visits the nodes of the plan in order; plan_->storage gives the location of each value.
  void run(const Bindings& bindings) override {
    ++counts_["run"];
    for (const Node& node : plan_->graph->nodes()) ++counts_[std::string(op_info(node.op).name)];
    inner_->run(bindings);
  }
  std::vector<ReportLine> report() const override { return inner_->report(); }

 private:
  std::unique_ptr<Executable> inner_;
  std::shared_ptr<const Plan> plan_;
  Counts& counts_;
};

class MyBackend final : public Backend {
 public:
  explicit MyBackend(Counts& counts) : counts_(counts) {
    capabilities_ = inner_->describe();
    capabilities_.name = "mine";
    capabilities_.device = "nothing of its own";
  }
  const Capabilities& describe() const override { return capabilities_; }
  // Without a claim a composite is replaced by its body, so a backend with primitives only runs every model.
  Claim claim(const Graph&, const Node& node) const override {
    Claim no;
    no.reason = "no kernel of its own for " + std::string(op_info(node.op).name);
    return no;
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override {
    ++counts_["upload"];
    inner_->upload(buffer, offset, from);
  }
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override {
    ++counts_["download"];
    inner_->download(buffer, offset, to);
  }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    return std::make_unique<MyExecutable>(inner_->compile(plan), plan, counts_);
  }
  void wait() override { inner_->wait(); }

 private:
  std::unique_ptr<Backend> inner_ = make_backend("reference");
  Capabilities capabilities_;
  Counts& counts_;
};

}  // namespace

int main() {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {2, 3}});
  const Value loss = sum(square(softmax(x)));
  graph.output("d_x", differentiate(loss, std::vector{x})[0]);
  const TensorMap inputs{{"x", Tensor::from<float>({2, 3}, {1, 2, 3, 0, -1, 4})}};

  Counts counts;
  MyBackend mine(counts);
  const Tensor got = evaluate(graph, mine, inputs).at("d_x");
  const Tensor wanted = evaluate(graph, *make_backend("reference"), inputs).at("d_x");
  double difference = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i)
    difference = std::max(difference, std::abs(got.at(i) - wanted.at(i)));
  for (const auto& [what, n] : counts) std::printf("%-12s %d\n", what.c_str(), n);
  std::printf("difference from reference: %g\n", difference);
  return difference == 0 && counts["run"] == 1 ? 0 : 1;
}
