// SPDX-License-Identifier: Apache-2.0
// What a backend says of itself decides its plans, one field at a time.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/plan_hash.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;

namespace {

// Only plans.
class Planning final : public Backend {
 public:
  explicit Planning(Capabilities capabilities) : capabilities_(std::move(capabilities)) {}
  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph&, const Node&) const override { return {.reason = "it only plans"}; }
  std::unique_ptr<Buffer> allocate(std::size_t) override { return nullptr; }
  void upload(Buffer&, std::size_t, std::span<const std::byte>) override {}
  void download(const Buffer&, std::size_t, std::span<std::byte>) override {}
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan>) override { return nullptr; }

 private:
  Capabilities capabilities_;
};

Capabilities as_cpu() { return make_backend("cpu", {.threads = 1})->describe(); }

using Change = std::function<void(Capabilities&)>;
std::shared_ptr<const Plan> planned(const Graph& graph, const Change& change) {
  Capabilities capabilities = as_cpu();
  change(capabilities);
  return plan(graph, Planning(capabilities));
}

std::unique_ptr<Graph> model(const std::string& cell, bool bidirectional = false) {
  auto graph = std::make_unique<Graph>();
  Scope scope(*graph, /*training=*/false);
  const Value x = graph->input("x", {DType::f32, {16, 8, 24}});
  graph->output("y", recurrent_model(scope, x, {.cell = cell, .hidden = 32, .bidirectional = bidirectional}).y);
  return graph;
}

std::size_t largest_group(const Graph& graph) {
  std::size_t most = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::fused)
      most = std::max(most, static_cast<std::size_t>(std::count_if(
                                node.body->nodes().begin(), node.body->nodes().end(),
                                [](const Node& inner) { return is_elementwise(inner.op); })));
    if (node.op == Op::scan) most = std::max(most, largest_group(*node.body));
  }
  return most;
}
int count(const Graph& graph, const std::function<bool(const Node&)>& wanted) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += wanted(node) + (node.body ? count(*node.body, wanted) : 0);
  return n;
}
bool is_fused_reduction(const Node& node) { return node.op == Op::fused_reduction; }

}  // namespace

TEST_CASE("threads of the host do not change a plan; lanes add forks") {
  const auto graph = model("lstm", /*bidirectional=*/true);
  const auto one = planned(*graph, [](Capabilities&) {});
  CHECK(plan_hash(*planned(*graph, [](Capabilities& c) { c.threads = 7; })) == plan_hash(*one));
  CHECK(one->forks.empty());
  CHECK(planned(*graph, [](Capabilities& c) { c.lanes = 2; })->forks.size() == 1);
}

TEST_CASE("rows are grouped where the backend wants it, whether or not it fuses") {
  const auto with_norms = model("lnlstm"), plain = model("lstm");
  const auto found = [](const Graph& graph, bool fuses, bool groups) {
    const auto made = planned(graph, [&](Capabilities& c) { c.fuses = fuses, c.groups_rows = groups; });
    return std::pair(count(*made->graph, is_fused_reduction) > 0,
                     count(*made->graph, [](const Node& node) { return node.op == Op::fused; }) > 0);
  };
  for (const bool fuses : {false, true})
    for (const bool groups : {false, true}) {
      CHECK(found(*with_norms, fuses, groups).first == groups);  // groups may leave nothing to fuse
      CHECK(found(*plain, fuses, groups) == std::pair(false, fuses));
    }
}

TEST_CASE("a loop with lengths is masked, packed or takes its lengths again, as the backend wants") {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value x = graph.input("x", {DType::f32, {16, 8, 24}}), lengths = graph.input("lengths", {DType::i32, {8}});
  graph.output("y", recurrent_model(scope, x, {.cell = "lstm", .hidden = 32}, {}, lengths).y);
  const auto found = [&](LengthsForm form) {
    const auto made = planned(graph, [&](Capabilities& c) { c.lengths = form; });
    const auto loops = [&](bool ScanLayout::*is) {
      return count(*made->graph, [&](const Node& node) { return node.op == Op::scan && scan_layout(node).*is; });
    };
    return std::pair(loops(&ScanLayout::packed), loops(&ScanLayout::has_lengths));
  };
  CHECK(found(LengthsForm::masked) == std::pair(0, 0));
  CHECK(found(LengthsForm::packed) == std::pair(1, 0));
  CHECK(found(LengthsForm::restored) == std::pair(0, 1));
}

TEST_CASE("a fused node has at most as many ops as the backend takes") {
  const auto graph = model("lstm");
  CHECK(largest_group(*planned(*graph, [](Capabilities&) {})->graph) > 8);
  CHECK(largest_group(*planned(*graph, [](Capabilities& c) { c.max_fused_ops = 8; })->graph) == 8);
}

TEST_CASE("every value of the arena lies at a multiple of the alignment") {
  const auto check = [](const Plan& plan, auto&& again) -> void {
    CHECK(plan.alignment == 512);
    CHECK(plan.arena_bytes % 512 == 0);
    for (std::size_t n = 0; n < plan.storage.size(); ++n) {
      CHECK(plan.scratch_offset[n] % 512 == 0);
      for (const Storage& s : plan.storage[n])
        if (s.place == Storage::Place::arena && op_info(plan.graph->nodes()[n].op).kind != OpKind::move)
          CHECK(s.offset % 512 == 0);
      if (plan.bodies[n]) again(*plan.bodies[n], again);
    }
  };
  const auto graph = model("gru");
  check(*planned(*graph, [](Capabilities& c) { c.alignment = 512, c.views = false; }), check);
}

TEST_CASE("a value beyond the largest buffer range is refused by its type, before anything is compiled") {
  const auto graph = model("lstm");
  const std::size_t gates = 16 * 8 * 4 * 32 * sizeof(float);  // of all steps
  CHECK_NOTHROW(planned(*graph, [&](Capabilities& c) { c.largest_buffer_range = gates; }));
  try {
    planned(*graph, [&](Capabilities& c) { c.largest_buffer_range = gates - 1; });
    FAIL("must throw");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::unsupported);
    CHECK(std::string(e.what()).find("of matmul has 64 KiB; the kernels of 'cpu' address at most 64 KiB") !=
          std::string::npos);
  }
}

TEST_CASE("each size of the tuning changes the plan that it is about") {
  const auto groups = [](const Change& change) {
    Graph g;
    g.output("y", softmax(g.input("x", {DType::f32, {64, 256}})));
    return count(*planned(g, change)->graph, is_fused_reduction);
  };
  CHECK(groups([](Capabilities&) {}) == 1);
  CHECK(groups([](Capabilities& c) { c.tuning.fewest_rows = 64; }) == 1);
  CHECK(groups([](Capabilities& c) { c.tuning.fewest_rows = 65; }) == 0);

  // y = a u, z = a v with u and v given: one product of both where it has rows enough.
  const auto products = [](const Change& change) {
    Graph g;
    const Value a = g.input("a", {DType::f32, {16, 8}});
    for (const std::string name : {"u", "v"})
      g.output("y" + name, tanh(matmul(a, g.input(name, {DType::f32, {8, 8}}))));
    return count(*planned(g, change)->graph, [](const Node& node) { return node.op == Op::matmul; });
  };
  CHECK(products([](Capabilities&) {}) == 2);
  CHECK(products([](Capabilities& c) { c.tuning.fewest_product_rows = 16; }) == 1);

  const auto differs = [](const Graph& graph, const Change& change) {
    return plan_hash(*planned(graph, change)) != plan_hash(*planned(graph, [](Capabilities&) {}));
  };
  CHECK(differs(*model("mgu"), [](Capabilities& c) { c.tuning.fewest_product_steps = 17; }));
}
