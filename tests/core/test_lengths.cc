// SPDX-License-Identifier: Apache-2.0
// Loops that take their lengths again: which do, which stay masked and why, and that no number changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/passes/forwarding_backend.h"
#include "core/train/verify/rounding.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/passes/scan_form.h"

namespace unroll::test_lengths {
namespace {

constexpr std::int64_t T = 7, B = 6, I = 3, H = 4;
const std::vector<std::int32_t> k_lengths{3, 7, 0, 9, 1, -2};  // more than T is T, less than 0 is 0

// Computed, since an input must lie between 0 and T.
Value some_lengths(Graph& graph, const std::string& name = "lengths") {
  return graph.input(name, {DType::i32, {B}}) + 0.0;
}

// Loss and gradients of a recurrent model over x [T,B,I], or its outputs.
std::unique_ptr<Graph> network(RecurrentModelOptions options, bool trains) {
  auto graph = std::make_unique<Graph>();
  Scope scope(*graph, trains);
  const Value x = graph->input("x", {DType::f32, {T, B, I}}), lengths = some_lengths(*graph);
  const Value y = recurrent_model(scope, x, options, {}, lengths).y;
  graph->output("y", y);
  if (trains) testing::output_gradients(scope, mean(square(y)));
  return graph;
}

TensorMap numbers_for(const Graph& graph) {
  TensorMap values;
  double angle = 0.3;
  for (const NamedValue& input : graph.inputs()) {
    Tensor tensor(graph.type(input.value));
    if (input.name.find("lengths") == 0) tensor = Tensor::from(Shape{B}, k_lengths);
    else if (input.name == "reset")
      for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, i % 5 == 0);
    else
      for (float& number : tensor.values<float>()) number = static_cast<float>(std::sin(angle += 1.7));
    values.emplace(input.name, std::move(tensor));
  }
  return values;
}

// A loop of one's own over x [T,B,H] with one state h [B,H].
using Step = std::function<StepResult(const StepValues&)>;
std::unique_ptr<Graph> loop_of(const Step& step, bool resets = false, bool trains = false) {
  auto graph = std::make_unique<Graph>();
  const Value states[] = {graph->input("h0", {DType::f32, {B, H}})};
  const Value sequences[] = {graph->input("x", {DType::f32, {T, B, H}})};
  ScanOptions options;
  options.lengths = some_lengths(*graph);
  if (resets) options.reset = graph->input("reset", {DType::b8, {T, B}});
  const ScanResult r = scan(states, sequences, {}, step, options);
  graph->output("y", r.outputs[0]);
  graph->output("last", r.states[0]);
  if (trains) graph->output("d", differentiate(sum(square(r.outputs[0])) + sum(r.states[0]), sequences)[0]);
  return graph;
}
StepResult plain_step(const StepValues& v) {
  const Value h = tanh(v.states[0] * 0.5 + v.sequences[0]);
  return {{h}, {h}};
}

// A device that restores lengths; each with a profile packs them.
class Restores final : public ForwardingBackend {
 public:
  Restores() : ForwardingBackend(make_backend("cuda:sm_90")), capabilities_(ForwardingBackend::describe()) {
    capabilities_.lengths = LengthsForm::restored;
  }
  const Capabilities& describe() const override { return capabilities_; }

 private:
  Capabilities capabilities_;
};

std::shared_ptr<const Plan> planned(const Graph& graph, std::vector<std::string> without = {}) {
  return plan(graph, Restores(), {.without = std::move(without), .donate = {}, .verify_each = true});
}
int count(const Graph& graph, const std::function<bool(const Node&)>& wanted) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += wanted(node) + (node.body ? count(*node.body, wanted) : 0);
  return n;
}
bool takes_lengths(const Node& node) { return node.op == Op::scan && scan_layout(node).has_lengths; }
bool is_loop(const Node& node) { return node.op == Op::scan; }
bool selects(const Node& node) { return node.op == Op::select; }
std::string why_masked(const Plan& plan) {
  for (const PassNote& note : plan.notes)
    if (note.pass == "restore_lengths" && note.what == "kept masked") return note.why;
  return {};
}

// Restored and masked, on the backend that runs both; and with loops in chunks of three steps.
void check_same_numbers(const Graph& graph) {
  const auto reference = make_backend("reference");
  const TensorMap in = numbers_for(graph);
  REQUIRE(count(*lower(graph, *reference), takes_lengths) > 0);
  REQUIRE(count(*lower(graph, *reference, {.without = {"restore_lengths"}}), takes_lengths) == 0);
  const TensorMap restored = evaluate(graph, *reference, in);
  const TensorMap chunks = evaluate(graph, *reference, in, {.chunk_steps = 3});
  for (const auto& result : evaluate(graph, *reference, in, {.without = {"restore_lengths"}})) {
    const std::string& name = result.first;
    CAPTURE(name);
    for (std::int64_t i = 0; i < result.second.elements(); ++i) {
      CHECK(restored.at(name).at(i) == result.second.at(i));
      CHECK(chunks.at(name).at(i) == result.second.at(i));
    }
  }
}

TEST_CASE("an LSTM with lengths and its gradient take the lengths again, and no step selects") {
  const auto graph = network({.cell = "lstm", .hidden = H}, /*trains=*/true);
  const auto restored = planned(*graph), masked = planned(*graph, {"restore_lengths"});
  CHECK(count(*restored->graph, takes_lengths) == 2);
  CHECK(count(*restored->graph, is_loop) == 2);
  CHECK(count(*restored->graph, selects) == 1);  // of x, before the loops
  CHECK(count(*masked->graph, takes_lengths) == 0);
  CHECK(count(*masked->graph, selects) > 0);
  CHECK(std::count_if(restored->notes.begin(), restored->notes.end(), [](const PassNote& note) {
          return note.pass == "restore_lengths" && note.what == "restored lengths: each row ends at its own";
        }) == 2);
}

TEST_CASE("numbers of restored loops are those of masked ones: cells, both directions, layers, gradients") {
  for (const char* cell : {"rnn", "gru", "lstm", "lnlstm"})
    for (const bool bidirectional : {false, true}) {
      CAPTURE(cell);
      CAPTURE(bidirectional);
      check_same_numbers(
          *network({.cell = cell, .hidden = H, .layers = 2, .bidirectional = bidirectional}, /*trains=*/true));
    }
}

TEST_CASE("resets stay selects of the step, which takes its lengths again all the same") {
  const auto graph = loop_of(plain_step, /*resets=*/true, /*trains=*/true);
  CHECK(count(*planned(*graph)->graph, takes_lengths) == 2);
  CHECK(count(*planned(*graph)->graph, selects) > 0);
  check_same_numbers(*graph);
}

TEST_CASE("a row keeps its state after its last step, and gives zeros") {
  const auto graph = loop_of(plain_step);
  const TensorMap in = numbers_for(*graph), out = evaluate(*graph, *make_backend("reference"), in);
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t steps = std::clamp<std::int64_t>(k_lengths[static_cast<std::size_t>(b)], 0, T);
      for (std::int64_t t = 0; t < T; ++t) CHECK((out.at("y").at((t * B + b) * H + h) == 0) == (t >= steps));
      CHECK(out.at("last").at(b * H + h) ==
            (steps == 0 ? in.at("h0").at(b * H + h) : out.at("y").at(((steps - 1) * B + b) * H + h)));
    }
}

TEST_CASE("loops with lengths of their own take each its own") {
  Graph g;
  const Value states[] = {g.input("h0", {DType::f32, {B, H}})}, x[] = {g.input("x", {DType::f32, {T, B, H}})};
  ScanOptions options;
  options.lengths = some_lengths(g, "lengths of x");
  const ScanResult first = scan(states, x, {}, plain_step, options);
  options.lengths = some_lengths(g, "lengths of y");
  const ScanResult second = scan(first.states, x, {}, plain_step, options);
  g.output("y", first.outputs[0] + second.outputs[0]);
  CHECK(count(*planned(g)->graph, takes_lengths) == 2);
  check_same_numbers(g);
}

TEST_CASE("a step that mixes rows stays masked, and the note says which op does") {
  const auto graph = loop_of([](const StepValues& v) {
    const Value h = tanh(v.states[0] - reduce_sum(v.states[0], {0}, true) + v.sequences[0]);
    return StepResult{{h}, {h}};
  });
  const auto plan = planned(*graph);
  CHECK(count(*plan->graph, takes_lengths) == 0);
  CHECK(why_masked(*plan) == "reduce_sum f32[1,4] in its step mixes rows");
}

// A mask of one's own: live[t,b] = t < lengths[b] as a sequence.
std::unique_ptr<Graph> own_mask(const std::function<StepResult(const StepValues&, Value live)>& step) {
  auto graph = std::make_unique<Graph>();
  const Value states[] = {graph->input("h0", {DType::f32, {B, H}})}, x = graph->input("x", {DType::f32, {T, B, H}});
  const Value sequences[] = {x, less(iota(*graph, {T, B}, 0), graph->input("lengths", {DType::i32, {B}}))};
  const ScanResult r = scan(states, sequences, {}, [&](const StepValues& v) {
    return step(v, reshape(v.sequences[1], Shape{B, 1}));
  });
  graph->output("y", r.outputs[0]);
  graph->output("last", r.states[0]);
  return graph;
}

TEST_CASE("a loop whose ended rows do more than keep their state, or are read, stays masked") {
  const auto halved = planned(*own_mask([](const StepValues& v, Value live) {
    const Value h = select(live, plain_step(v).states[0], v.states[0] * 0.5);
    return StepResult{{h}, {select(live, h, scalar_like(h, 0))}};
  }));
  CHECK(count(*halved->graph, takes_lengths) == 0);
  CHECK(why_masked(*halved) == "rows that have ended do not keep state 0");
  const auto asked = planned(*own_mask([](const StepValues& v, Value live) {
    const Value h = select(live, plain_step(v).states[0], v.states[0]);
    return StepResult{{h}, {h}};
  }));
  CHECK(count(*asked->graph, takes_lengths) == 0);
  CHECK(why_masked(*asked) == "its result 1 is read in rows that have ended");
}

TEST_CASE("a mask of one's own is restored like lengths, in rows that know what others have as constants") {
  const auto graph = own_mask([](const StepValues& v, Value live) {
    Graph& body = live.graph();
    const Value own = cast(iota(body, {B, H}, 0), DType::f32);  // another number in each row
    const Value h = select(live, tanh(v.states[0] + v.sequences[0] * own), v.states[0]);
    return StepResult{{h}, {select(live, h, scalar_like(h, 0))}};
  });
  CHECK(count(*planned(*graph)->graph, takes_lengths) == 1);
  check_same_numbers(*graph);
}

TEST_CASE("the form of such a loop says that rows end, and so do the plan's report and text") {
  const auto graph = network({.cell = "lstm", .hidden = H}, /*trains=*/true);
  const auto plan = planned(*graph);
  int loops = 0;
  for (std::size_t i = 0; i < plan->graph->nodes().size(); ++i) {
    const Node& node = plan->graph->nodes()[i];
    if (node.op != Op::scan) continue;
    ++loops;
    const ScanForm form = scan_form(*plan, static_cast<std::int32_t>(i));
    CHECK(form.reason == "");
    CHECK(form.rows == B);
    REQUIRE(form.lengths >= 0);
    const ValueId lengths = node.inputs[static_cast<std::size_t>(form.lengths)];
    CHECK(plan->graph->type(lengths) == Type{DType::i32, {B}});
    CHECK(form.products.size() == 1);
    CHECK(describe(form, *plan->bodies[i]).back() == "6 independent rows, each ends at its length");
  }
  CHECK(loops == 2);
  CHECK(print_graph(*plan->graph).find("lengths=true") != std::string::npos);
  const auto profile = make_backend("cuda:sm_90");
  const auto lines = profile->compile(plan)->report();
  CHECK(std::count_if(lines.begin(), lines.end(), [](const ReportLine& line) {
          return line.implementation == "loop of 7 steps, each row ends at its length";
        }) == 2);
}

TEST_CASE("a planned loop with lengths is widened to f64, and rounding noise reaches its results") {
  const auto graph = network({.cell = "gru", .hidden = H}, /*trains=*/true);
  const auto reference = make_backend("reference");
  const auto lowered = lower(*graph, *reference);
  REQUIRE(count(*lowered, takes_lengths) == 2);
  TensorMap in = numbers_for(*graph);
  const TensorMap narrow = evaluate(*graph, *reference, in);
  for (auto& input : in)
    if (input.second.dtype() == DType::f32) input.second = input.second.cast(DType::f64);
  const TensorMap wide = evaluate(*widened(*lowered), *reference, in);
  const TensorMap noisy = evaluate(*with_rounding_noise(*lowered, 1), *reference, in);
  for (const auto& result : wide) {
    double off = 0, noise = 0;
    for (std::int64_t i = 0; i < result.second.elements(); ++i) {
      off = std::max(off, std::abs(narrow.at(result.first).at(i) - result.second.at(i)));
      noise = std::max(noise, std::abs(noisy.at(result.first).at(i) - result.second.at(i)));
    }
    CAPTURE(result.first);
    // Fewer than a thousand roundings of numbers below 1, each at most 2^-24.
    CHECK(off < 1000 * 0x1p-24);
    CHECK(noise < 1000 * 0x1p-24);
    CHECK(noise > 0);
  }
}

}  // namespace
}  // namespace unroll::test_lengths
