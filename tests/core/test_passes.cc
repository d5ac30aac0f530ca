// SPDX-License-Identifier: Apache-2.0
// Each pass alone, by the shape of the graph it leaves; that results stay the same is the random graphs' business.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "backends/registry.h"
#include "core/passes/memory/views.h"
#include "core/passes/passes.h"
#include "tests/core/small_graphs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll {
namespace {

using testing::count;
using testing::f32;

const Node& only(const Graph& graph, Op op) {
  REQUIRE(count(graph, op) == 1);
  const auto nodes = graph.nodes();
  return *std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.op == op; });
}
// The named output is the named input itself.
bool passes_through(const Graph& graph, std::string_view output, std::string_view input) {
  for (const NamedValue& o : graph.outputs())
    if (o.name == output)
      for (const NamedValue& i : graph.inputs())
        if (i.name == input) return o.value == i.value;
  return false;
}

TEST_CASE("fold removes identities") {
  const auto folded = [](auto build) {
    Graph g;
    Value x = g.input("x", f32({2, 3}));
    g.output("y", build(x));
    return passes_through(*fold(g), "y", "x");
  };
  CHECK(folded([](Value x) { return x + 0.0; }));
  CHECK(folded([](Value x) { return 1.0 * x; }));
  CHECK(folded([](Value x) { return x / 1.0; }));
  CHECK(folded([](Value x) { return neg(neg(x)); }));
  CHECK(folded([](Value x) { return transpose(transpose(x, {1, 0}), {1, 0}); }));
  CHECK(folded([](Value x) { return slice(pad(x, 1, 2, 2), 1, 2, 3); }));
  CHECK(folded([](Value x) { return reshape(reshape(x, {6}), {2, 3}); }));
  CHECK(folded([](Value x) { return slice(concat(std::vector{x, x}, 0), 0, 2, 2); }));
  CHECK_FALSE(folded([](Value x) { return x * 0.0; }));  // 0 * NaN is NaN
  CHECK_FALSE(folded([](Value x) { return x + 1.0; }));
}

TEST_CASE("fold adds the rows of two tables to one, unless others read one of them") {
  for (const bool read_twice : {false, true}) {
    Graph g;
    const Value few = g.input("few", {DType::i32, {3}}), many = g.input("many", {DType::i32, {2, 5}}),
                x = g.input("x", f32({3, 4})), y = g.input("y", f32({2, 5, 4}));
    const Value first = scatter_add(few, x, 9);
    g.output("sum", first + scatter_add(many, y, 9));
    if (read_twice) g.output("first", first);
    const auto folded = fold(g);
    CHECK(count(*folded, Op::scatter_add) == (read_twice ? 2 : 1));
    if (read_twice) continue;
    const Node& scatter = only(*folded, Op::scatter_add);
    CHECK(folded->type(scatter.inputs[0]).shape == Shape{13});
    CHECK(folded->type(scatter.inputs[1]).shape == Shape{13, 4});
  }
}

TEST_CASE("fold takes transposes into products and computes on scalar constants") {
  Graph g;
  Value a = g.input("a", f32({4, 2})), b = g.input("b", f32({4, 3}));
  g.output("y", matmul(transpose(a, {1, 0}), b) * (scalar(g, DType::f32, 3) + scalar(g, DType::f32, 4)));
  const auto folded = fold(g);
  CHECK(count(*folded, Op::transpose) == 0);
  CHECK(only(*folded, Op::matmul).attributes.get<bool>("transpose_a"));
  CHECK(count(*folded, Op::add) == 0);
}

TEST_CASE("equal nodes become one, whatever the order of commutative operands") {
  Graph g;
  Value x = g.input("x", f32({3})), y = g.input("y", f32({3}));
  g.output("a", tanh(x + y));
  g.output("b", tanh(y + x));
  g.output("c", x - y);
  g.output("d", y - x);
  const auto one = cse(g);
  CHECK(count(*one, Op::tanh) == 1);
  CHECK(count(*one, Op::sub) == 2);
}

Value layer_norm_of_row(Value x) {
  const double width = static_cast<double>(x.shape()[1]);
  const Value centered = x - reduce_sum(x, {1}, true) * (1 / width);
  return centered / sqrt(reduce_sum(square(centered), {1}, true) * (1 / width) + 1e-5);
}

// h' = tanh(h + x), giving h' and, when asked, x * h.
ScanResult loop(Value h, Value x, bool second) {
  return scan(std::vector{h}, std::vector{x}, {}, [&](const StepValues& v) -> StepResult {
    const Value next = tanh(v.states[0] + v.sequences[0]);
    if (!second) return {{next}, {next}};
    return {{next}, {v.sequences[0] * v.states[0], next}};
  });
}

TEST_CASE("large constants are merged when every element is equal, also in bodies of loops") {
  const auto merged = [](float last, bool in_loop) {
    Graph g;
    std::vector<float> values(1000, 2);
    const Tensor first = Tensor::from<float>({1000}, values);
    values[997] = last;  // among the bytes that are not sampled
    const Tensor second = Tensor::from<float>({1000}, values);
    const Value x = g.input("x", f32({2, 1000})), h = g.input("h", f32({1000}));
    if (!in_loop) {
      g.output("y", x + constant(g, first) + constant(g, second));
      return count(*cse(g), Op::constant) == 1;
    }
    const auto loop = [&](const Tensor& bias) {
      const ScanResult r = scan(std::vector{h}, std::vector{x}, {}, [&](const StepValues& s) -> StepResult {
        const Value next = tanh(s.states[0] + s.sequences[0]);
        return {{next}, {next + constant(next.graph(), bias)}};
      });
      return r.outputs[0];
    };
    g.output("y", loop(first) + loop(second));
    return count(*cse(g), Op::scan) == 1;
  };
  for (const bool in_loop : {false, true}) {
    CHECK(merged(2, in_loop));
    CHECK_FALSE(merged(3, in_loop));
  }
}

TEST_CASE("scans with one recurrence become one scan with the outputs of both") {
  Graph g;
  Value h = g.input("h", f32({2})), x = g.input("x", f32({5, 2}));
  const ScanResult a = loop(h, x, false), b = loop(h, x, true);
  g.output("a", a.outputs[0]);
  g.output("b", b.outputs[0]);
  g.output("c", b.outputs[1]);
  const auto merged = merge_scans(g);
  CHECK(only(*merged, Op::scan).outputs.size() == 3);  // the state, x * h, and h' once
  CHECK(merged->outputs()[0].value == merged->outputs()[2].value);
}

TEST_CASE("scans whose states evolve differently stay apart") {
  Graph g;
  Value h = g.input("h", f32({2})), x = g.input("x", f32({5, 2}));
  g.output("a", loop(h, x, false).outputs[0]);
  g.output("b", scan(std::vector{h}, std::vector{x}, {}, [](const StepValues& v) -> StepResult {
                  return {{sigmoid(v.states[0] + v.sequences[0])}, {v.states[0]}};
                }).outputs[0]);
  CHECK(count(*merge_scans(g), Op::scan) == 2);
}

TEST_CASE("prune drops states, sequences and outputs that nothing needs") {
  Graph g;
  Value h = g.input("h", f32({2})), x = g.input("x", f32({5, 2})), w = g.input("w", f32({2}));
  const ScanResult r =
      scan(std::vector{h, h, h}, std::vector{x, x}, std::vector{w}, [](const StepValues& v) -> StepResult {
        const Value first = v.states[0] + v.sequences[0];
        return {{first, v.states[1] * v.constants[0], v.states[2] * v.states[0]},
                {first * v.states[1], v.sequences[1]}};
      });
  g.output("y", r.states[0]);
  const auto pruned = scan_dce(g);
  const ScanLayout l = scan_layout(only(*pruned, Op::scan));
  CHECK(l.n_states == 1);
  CHECK(l.n_sequences == 1);
  CHECK(l.n_constants == 0);
  CHECK(only(*pruned, Op::scan).outputs.size() == 1);
}

TEST_CASE("a weight gradient over time becomes one product over T*B") {
  Graph g;
  Value w = g.input("w", f32({4, 4})), h = g.input("h", f32({3, 4})), x = g.input("x", f32({7, 3, 4})),
        b = g.input("b", f32({4}));
  const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{w, b}, [](const StepValues& v) -> StepResult {
    const Value next = tanh(matmul(v.states[0], v.constants[0]) + v.sequences[0] + v.constants[1]);
    return {{next}, {next}};
  });
  const auto gradients = differentiate(sum(square(r.outputs[0])), std::vector{w, b});
  g.output("dw", gradients[0]);
  g.output("db", gradients[1]);
  const auto deferred = scan_dce(*defer(*scan_dce(*merge_scans(*cse(g)))));
  int inside = 0;
  for (const Node& node : deferred->nodes())
    if (node.op == Op::scan) inside += count(*node.body, Op::matmul) + count(*node.body, Op::reduce_sum);
  CHECK(inside == 2);                             // h W forward, d W^T backward; no d_w and no d_b in the loop
  CHECK(count(*deferred, Op::matmul) == 1);       // d_w
  CHECK(only(*deferred, Op::matmul).inputs.size() == 2);
  CHECK(deferred->type(only(*deferred, Op::matmul).inputs[0]).shape[0] == 21);
}

TEST_CASE("products without the state move before the loop, products no state needs after it") {
  Graph g;
  Value h = g.input("h", f32({3, 4})), x = g.input("x", f32({7, 3, 5}));
  Value u = g.input("u", f32({5, 4})), w = g.input("w", f32({4, 4})), v = g.input("v", f32({4, 2})),
        b = g.input("b", f32({4}));
  const ScanResult r =
      scan(std::vector{h}, std::vector{x}, std::vector{u, w, v, b}, [](const StepValues& s) -> StepResult {
        const Value next =
            tanh(matmul(s.sequences[0], s.constants[0]) + matmul(s.states[0], s.constants[1]) + s.constants[3]);
        return {{next}, {sigmoid(matmul(next, s.constants[2]))}};
      });
  g.output("y", r.outputs[0]);
  const auto split = scan_dce(*split_scans(g));
  CHECK(count(*only(*split, Op::scan).body, Op::matmul) == 1);
  CHECK(count(*split, Op::matmul) == 2);
  CHECK(count(*split, Op::sigmoid) == 1);
  CHECK(split->type(split->outputs()[0].value).shape == Shape{7, 3, 2});
}

TEST_CASE("of the work before a loop so much moves that the fewest bytes enter it") {
  // What follows on the hoisted product: as wide as the product it stays inside, once reduced it moves. A norm of few
  // values moves too.
  const auto entering = [](std::int64_t steps, auto follow, const Tuning& tuning = {}) {
    Graph g;
    Value h = g.input("h", f32({8, 16})), x = g.input("x", f32({steps, 8, 5})), u = g.input("u", f32({5, 16}));
    const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{u}, [&](const StepValues& s) -> StepResult {
      const Value next = tanh(s.states[0] * follow(matmul(s.sequences[0], s.constants[0])));
      return {{next}, {next}};
    });
    g.output("y", r.outputs[0]);
    const auto split = scan_dce(*split_scans(g, tuning));
    CHECK(count(*only(*split, Op::scan).body, Op::matmul) == 0);
    const Node& node = only(*split, Op::scan);
    REQUIRE(scan_layout(node).n_sequences == 1);
    return std::pair(split->node(node.inputs[1].node).op, split->type(node.inputs[1]).shape);
  };
  constexpr std::int64_t k_many = 5000;  // 2.4 MB of products
  const auto wide = entering(k_many, [](Value p) { return layer_norm_of_row(p); });
  CHECK(wide.second == Shape{k_many, 8, 16});
  CHECK(wide.first == Op::reshape);  // of the product itself
  const auto few = entering(7, [](Value p) { return layer_norm_of_row(p); });
  CHECK(few.second == Shape{7, 8, 16});
  CHECK(few.first == Op::div);  // the norm's last op
  const auto norm = [](Value p) { return layer_norm_of_row(p); };
  CHECK(entering(7, norm, {.hoisted_reduction_bytes = 1000}).first == Op::reshape);  // where 1000 bytes are many
  CHECK(entering(k_many, [](Value p) { return reduce_sum(square(p), {1}, true); }).second == Shape{k_many, 8, 1});
}

TEST_CASE("a saved value leaves the loop with the product that is computed from it") {
  Graph g;
  const Value h = g.input("h", f32({3, 4})), x = g.input("x", f32({7, 3, 5})), u = g.input("u", f32({5, 4})),
              v = g.input("v", f32({4, 4}));
  const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{u, v}, [](const StepValues& s) -> StepResult {
    const Value gate = sigmoid(matmul(s.sequences[0], s.constants[0]));
    return {{tanh(s.states[0] + matmul(gate, s.constants[1]))}, {gate}};
  });
  g.output("h", r.states[0]);
  g.output("gate", r.outputs[0]);
  const auto split = scan_dce(*split_scans(g));
  CHECK(count(*only(*split, Op::scan).body, Op::sigmoid) == 0);
  CHECK(count(*split, Op::sigmoid) == 1);
  CHECK(scan_layout(only(*split, Op::scan)).n_sequences == 1);
}

TEST_CASE("a large sum over the batch is made in each step unless its summands are stacked anyway") {
  // d_b of h' = tanh(x + b * h): the summand d * h is needed by nothing else.
  const auto stacked_bytes = [](std::int64_t steps, const Tuning& tuning = {}) {
    Graph g;
    Value h = g.input("h", f32({32, 256})), x = g.input("x", f32({steps, 32, 256})), b = g.input("b", f32({256}));
    const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{b}, [](const StepValues& s) -> StepResult {
      const Value next = tanh(s.sequences[0] + s.constants[0] * s.states[0]);
      return {{next}, {next}};
    });
    g.output("db", differentiate(sum(square(r.outputs[0])), std::vector{b})[0]);
    const auto deferred = scan_dce(*defer(*scan_dce(*merge_scans(*cse(g))), tuning));
    std::size_t least = SIZE_MAX;
    for (const Node& node : deferred->nodes())
      if (node.op == Op::reduce_sum) least = std::min(least, deferred->type(node.inputs[0]).bytes());
    return least;
  };
  CHECK(stacked_bytes(10) == 10 * 32 * 256 * 4);   // 320 KB stay in cache
  CHECK(stacked_bytes(1000) == 1000 * 256 * 4);    // 32 MB would not
  CHECK(stacked_bytes(10, {.deferred_summand_bytes = 1000}) == 10 * 256 * 4);
  CHECK(stacked_bytes(1000, {.sums_in_steps = false}) == 1000 * 32 * 256 * 4);
}

TEST_CASE("an elementwise operand of one loop alone is computed in its steps, to the same bits") {
  Graph g;
  const Value h = g.input("h", f32({3, 4})), x = g.input("x", f32({7, 3, 4})), c = g.input("c", f32({}));
  const Value lone = (x * 2.0 + c), mixed = x * g.input("z", f32({7, 3, 4})), seen = tanh(x);
  const std::vector<Value> sequences{lone, mixed, seen, x};
  const auto body = [](const StepValues& s) -> StepResult {
    Value next = s.states[0];
    for (const Value& value : s.sequences) next = next * 0.5 + value;
    return {{next}, {next}};
  };
  const ScanResult r = scan(std::vector{h}, sequences, {}, body);
  g.output("y", r.outputs[0]);
  g.output("seen", seen);
  const auto after = operands_in_steps(g);
  const Node& loop = only(*after, Op::scan);
  CHECK(scan_layout(loop).n_sequences == 3);        // mixed, seen and x; lone is made of x
  CHECK(count(*after, Op::add) == 0);               // neither op of it is left outside
  CHECK(count(*after, Op::mul) == 1);               // two values would be read in place of one
  CHECK(count(*after, Op::tanh) == 1);              // an output needs it anyway
  CHECK(loop.inputs.size() == 1 + 3 + 1);           // c is a constant of the loop
  TensorMap inputs;
  for (const NamedValue& input : g.inputs()) {
    Tensor tensor(g.type(input.value));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, 0.25 * static_cast<double>(i % 11) - 1);
    inputs.emplace(input.name, std::move(tensor));
  }
  const auto reference = make_backend("reference");
  const TensorMap wanted = evaluate(g, *reference, inputs), got = evaluate(*after, *reference, inputs);
  for (std::int64_t i = 0; i < wanted.at("y").elements(); ++i) CHECK(got.at("y").at(i) == wanted.at("y").at(i));
}

// The largest value outside of loops, and the products there.
struct Outside {
  std::int64_t largest = 0;
  std::vector<const Node*> products;
};
Outside outside(const Graph& graph) {
  Outside found;
  for (const Node& node : graph.nodes()) {
    for (const Type& type : node.outputs) found.largest = std::max(found.largest, type.shape.elements());
    if (node.op == Op::matmul) found.products.push_back(&node);
  }
  return found;
}

TEST_CASE("the gradient of an output layer in the loop is one product, not one for each step") {
  Graph g;
  Value w = g.input("w", f32({4, 4})), v = g.input("v", f32({4, 50})), h = g.input("h", f32({3, 4}));
  const Value x = g.input("x", f32({7, 3, 4}));
  const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{w, v}, [](const StepValues& s) -> StepResult {
    const Value next = tanh(matmul(s.states[0], s.constants[0]) + s.sequences[0]);
    return {{next}, {tanh(matmul(next, s.constants[1]))}};
  });
  g.output("dv", differentiate(sum(square(r.outputs[0])), std::vector{v})[0]);
  const auto merged = scan_dce(*merge_scans(*cse(g)));
  const auto deferred = scan_dce(*defer(*split_scans(*defer_stateless(*merged))));
  const Outside found = outside(*deferred);
  CHECK(found.largest == 7 * 3 * 50);  // the logits, and no [7,4,50]
  for (const Node& node : deferred->nodes())
    if (node.op == Op::scan) CHECK(count(*node.body, Op::matmul) <= 1);  // h W
}

TEST_CASE("a sum of batched products over time becomes one batched product") {
  Graph g;
  const Value values = g.input("values", f32({2, 5, 6})), h = g.input("h", f32({2, 1, 5}));
  const Value x = g.input("x", f32({7, 2, 1, 5}));
  const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{values}, [](const StepValues& s) -> StepResult {
    const Value context = matmul(s.states[0], s.constants[0]);  // [2,1,6]
    return {{tanh(s.sequences[0] * reduce_sum(context, {2}, true))}, {}};
  });
  g.output("d", differentiate(sum(square(r.states[0])), std::vector{values})[0]);
  const auto deferred = scan_dce(*defer(*scan_dce(*merge_scans(*cse(g)))));
  const Outside found = outside(*deferred);
  REQUIRE(found.products.size() == 1);
  CHECK(found.products[0]->outputs[0] == f32({2, 5, 6}));
  CHECK(deferred->type(found.products[0]->inputs[0]).shape == Shape{2, 7, 5});
}

TEST_CASE("what is as large as the state that adds it up stays in the loop, unless it is small or stacked anyway") {
  const auto stays = [](std::int64_t steps, bool stacks) {
    Graph g;
    const Value keys = g.input("keys", f32({32, 64})), h = g.input("h", f32({1, 64}));
    const Value x = g.input("x", f32({steps, 1, 64}));
    const ScanResult r = scan(std::vector{h, keys * 0.0}, std::vector{x}, std::vector{keys},
                              [&](const StepValues& s) -> StepResult {
                                const Value term = tanh(s.constants[0] + s.states[0]);
                                const Value next = tanh(s.sequences[0] + reduce_sum(term, {0}, true));
                                const std::vector<Value> outputs = stacks ? std::vector{term} : std::vector<Value>{};
                                return {{next, s.states[1] + term}, outputs};
                              });
    g.output("sum", r.states[1]);
    if (stacks) g.output("terms", r.outputs[0]);
    return scan_layout(only(*scan_dce(*defer(g)), Op::scan)).n_states == 2;
  };
  CHECK(stays(200, false));  // 1.6 MB of terms
  CHECK_FALSE(stays(200, true));
  CHECK_FALSE(stays(20, false));
}

TEST_CASE("an elementwise op on an input and a reshaped result joins what makes the result") {
  Graph g;
  const Value state = g.input("state", f32({2, 5, 6})), x = g.input("x", f32({2, 1, 5, 6}));
  g.output("next", state + reshape(tanh(x), {2, 5, 6}));
  g.output("other", state + reshape(tanh(x), {2, 5, 6}) * 2.0);  // no input: stays
  const auto raised = raise_reshapes(g);
  CHECK(raised->node(raised->outputs()[0].value.node).op == Op::reshape);
  CHECK(raised->node(raised->outputs()[1].value.node).op == Op::add);
  CHECK(count(*fuse(*raised), Op::fused) == 2);  // tanh and the sum; the double and the sum
}

TEST_CASE("a transposition that moves axes of size 1 only is a reshape") {
  Graph g;
  const Value x = g.input("x", f32({7, 1, 5}));
  g.output("y", tanh(transpose(x, {1, 0, 2})));
  g.output("z", tanh(transpose(x, {2, 1, 0})));
  const auto folded = fold(g);
  CHECK(count(*folded, Op::transpose) == 1);
  CHECK(count(*folded, Op::reshape) == 1);
}

TEST_CASE("slices sink below elementwise ops, however many lie above each other") {
  Graph g;
  Value a = g.input("a", f32({3, 8})), b = g.input("b", f32({8}));
  const auto gates = split(tanh(a + b), -1, 2);
  g.output("y", gates[0] * gates[1]);
  const auto sunk = sink_slices(g);
  for (const Node& node : sunk->nodes())
    if (node.op == Op::slice) CHECK(sunk->node(node.inputs[0].node).op == Op::input);
  CHECK(count(*sunk, Op::tanh) == 2);
}

TEST_CASE("elementwise neighbors fuse; what lies across another op does not") {
  Graph g;
  Value x = g.input("x", f32({4, 4}));
  const Value y = tanh(x) * 2.0 + x;
  const Value z = sigmoid(matmul(y, y)) * y;
  g.output("z", z);
  const auto fused = fuse(g);
  CHECK(count(*fused, Op::fused) == 2);
  CHECK(count(*fused, Op::tanh) == 0);
  CHECK(count(*fused, Op::matmul) == 1);
}

TEST_CASE("a long chain becomes several groups that a kernel's tiles can hold") {
  Graph g;
  Value x = g.input("x", f32({4}));
  std::vector<Value> all{x};
  for (int i = 0; i < 500; ++i) all.push_back(tanh(all.back()) + all[all.size() / 2]);
  g.output("y", all.back());
  const auto fused = fuse(g);
  CHECK(count(*fused, Op::fused) == 21);
  CHECK(count(*fused, Op::tanh) == 0);
  for (const Node& node : fused->nodes())
    if (node.op == Op::fused) CHECK(node.body->nodes().size() <= 4 * 48);
}

TEST_CASE("what is computed from inputs alone joins the group that reads it, behind a product too") {
  const auto groups = [](bool another_reader) {
    Graph g;
    const Value x = g.input("x", f32({4, 4})), v = g.input("v", f32({4, 4}));
    const Value scaled = v * 0.9;
    g.output("y", scaled + tanh(matmul(x, x)));
    if (another_reader) g.output("z", matmul(scaled, x));
    const auto fused = fuse(g);
    return std::pair(count(*fused, Op::fused), count(*fused, Op::mul));
  };
  CHECK(groups(false) == std::pair{1, 0});
  CHECK(groups(true) == std::pair{1, 1});
}

TEST_CASE("a group never reads what it makes through another op") {
  // a -> reduce -> b and a -> c, b -> c: a and c must not share a group.
  Graph g;
  Value x = g.input("x", f32({4}));
  const Value a = exp(x);
  const Value c = a - sum(a);
  g.output("c", tanh(c) + a);
  const auto fused = fuse(g);
  CHECK_NOTHROW(verify(*fused));
  CHECK(count(*fused, Op::reduce_sum) == 1);
}

// Claims composites as it is told to.
struct Picky final : Backend {
  Capabilities capabilities{.name = "picky"};
  bool takes_gradients = false;
  std::size_t saved_bytes = 0, scratch_bytes = 0;
  const Capabilities& describe() const override { return capabilities; }
  Claim claim(const Graph&, const Node& node) const override {
    return {.yes = node.op != Op::gradient || takes_gradients, .saved_bytes = saved_bytes,
            .saving_scratch_bytes = 2 * scratch_bytes, .scratch_bytes = scratch_bytes};
  }
  std::unique_ptr<Buffer> allocate(std::size_t) override { return nullptr; }
  void upload(Buffer&, std::size_t, std::span<const std::byte>) override {}
  void download(const Buffer&, std::size_t, std::span<std::byte>) override {}
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan>) override { return nullptr; }
};

const Node& node_of(const Graph& g, Op op) {
  for (const Node& node : g.nodes())
    if (node.op == op) return node;
  FAIL("there is no " << op_info(op).name);
  return g.nodes()[0];
}

TEST_CASE("a backend takes a composite and its gradient together or neither") {
  Picky backend;
  Graph g;
  Value x = g.input("x", f32({3, 4}));
  const Value y = softmax(x);
  g.output("y", y);
  g.output("dx", differentiate(sum(square(y)), std::vector{x})[0]);
  const auto expanded = claim(g, backend);
  CHECK(count(*expanded, Op::softmax) == 0);
  CHECK(count(*expanded, Op::gradient) == 0);
  backend.takes_gradients = true;
  const auto claimed = claim(g, backend);
  CHECK(count(*claimed, Op::softmax) == 1);
  CHECK(count(*claimed, Op::gradient) == 1);
}

TEST_CASE("what a claimed composite saves goes to its gradient, with its outputs") {
  Picky backend;
  backend.takes_gradients = true;
  backend.saved_bytes = 40, backend.scratch_bytes = 100;
  auto g = std::make_shared<Graph>();
  Value x = g->input("x", f32({3, 4}));
  const Value y = softmax(x);
  g->output("y", y);
  g->output("dx", differentiate(sum(square(y)), std::vector{x})[0]);
  const auto p = plan(*g, backend, {.without = {}, .donate = {}, .verify_each = true});
  const Node& forward = node_of(*p->graph, Op::softmax);
  const Node& gradient = node_of(*p->graph, Op::gradient);
  REQUIRE(forward.outputs.size() == 2);
  CHECK(forward.outputs[1] == Type{DType::b8, {40}});
  REQUIRE(gradient.inputs.size() == 4);  // x, the cotangent, y, what was saved
  CHECK(p->graph->type(gradient.inputs[2]) == forward.outputs[0]);
  CHECK(p->graph->type(gradient.inputs[3]) == forward.outputs[1]);
  for (std::size_t i = 0; i < p->graph->nodes().size(); ++i) {
    const Op op = p->graph->nodes()[i].op;
    CHECK(p->scratch_bytes[i] == (op == Op::softmax ? 256 : op == Op::gradient ? 128 : 0));
  }
  CHECK(print_graph(*parse_graph(print_graph(*p->graph))) == print_graph(*p->graph));
}

TEST_CASE("a forward node whose gradient is not wanted saves nothing; a gradient alone brings its forward node") {
  Picky backend;
  backend.takes_gradients = true;
  backend.saved_bytes = 40;
  Graph inference, only_gradient;
  inference.output("y", softmax(inference.input("x", f32({3, 4}))));
  CHECK(node_of(*claim(inference, backend), Op::softmax).outputs.size() == 1);
  Value x = only_gradient.input("x", f32({3, 4})), dy = only_gradient.input("dy", f32({3, 4}));
  const std::vector<Value> y{softmax(x)}, cotangent{dy}, wrt{x};
  only_gradient.output("dx", differentiate(y, cotangent, wrt)[0]);
  const auto claimed = claim(only_gradient, backend);
  CHECK(node_of(*claimed, Op::softmax).outputs.size() == 2);
  CHECK(node_of(*claimed, Op::gradient).inputs.size() == 4);
}

TEST_CASE("unknown names in PlanOptions are refused") {
  const auto backend = make_reference_backend({});
  Graph g;
  g.output("y", tanh(g.input("x", f32({2}))));
  CHECK_THROWS_AS(plan(g, *backend, {.without = {"foldd"}}), Error);
  CHECK_THROWS_AS(plan(g, *backend, {.donate = {{"y", "z"}}}), Error);
}

// A backend that reads strides and fuses, for the memory plan.
Capabilities fast() { return {.name = "fast", .fuses = true, .views = true}; }

TEST_CASE("reshapes and slices that elementwise ops read need no memory; parts of a concat are written in place") {
  auto g = std::make_shared<Graph>();
  Value x = g->input("x", f32({3, 8}));
  const auto gates = split(x, 1, 2);
  g->output("y", concat(std::vector{tanh(gates[0]), sigmoid(gates[1])}, 1));
  const auto p = plan_memory(g, fast(), {});
  CHECK(p->arena_bytes == 0);
  const auto dense = plan_memory(g, Capabilities{.name = "dense"}, {});
  CHECK(dense->arena_bytes > 0);
}

TEST_CASE("an elementwise result continues the buffer of an operand that is read for the last time") {
  auto g = std::make_shared<Graph>();
  Value x = g->input("x", f32({1024}));
  g->output("y", sum(tanh(exp(sigmoid(x)))));
  CHECK(plan_memory(g, fast(), {})->arena_bytes == 4096);
  CHECK(plan_memory(g, fast(), {.without = {"in_place"}})->arena_bytes == 8192);
  CHECK(plan_memory(g, fast(), {.without = {"in_place", "reuse"}})->arena_bytes == 3 * 4096);
}

TEST_CASE("only one result of a node continues the buffer of an operand, even if nobody reads the first") {
  const auto g = parse_graph(R"(graph {
  %0 = input(){name="x"} : f32[1024]
  %1 = tanh(%0) : f32[1024]
  %2 = fused(%1) body {
    %0 = input(){name="in0"} : f32[1024]
    %1 = exp(%0) : f32[1024]
    %2 = neg(%0) : f32[1024]
    output "out0" = %1
    output "out1" = %2
  } : f32[1024], f32[1024]
  %3 = reduce_sum(%2.1){axes=[0], keep=false} : f32[]
  output "y" = %3
})");
  const auto p = plan_memory(g, fast(), {});
  CHECK(p->storage[2][0].offset != p->storage[2][1].offset);
}

TEST_CASE("an output takes over its donor's buffer only when nobody reads the donor afterwards") {
  const auto place = [](bool read_later) {
    auto g = std::make_shared<Graph>();
    Value w = g->input("w", f32({8})), d = g->input("d", f32({8}));
    const Value next = w - d;
    g->output("next", next);
    g->output("other", read_later ? sum(next) + sum(w) : sum(next));
    const auto p = plan_memory(g, fast(), {.donate = {{"next", "w"}}});
    return p->storage[static_cast<std::size_t>(next.id().node)][0].place;
  };
  CHECK(place(false) == Storage::Place::output);
  CHECK(place(true) == Storage::Place::arena);
}

TEST_CASE("fold makes constants of parts and compositions of constants") {
  Graph g;
  const auto numbers = [&](Shape shape, float first) {
    Tensor t(f32(shape));
    for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>(first) + static_cast<double>(i));
    return constant(g, t);
  };
  g.output("y", concat(std::vector{slice(numbers({2, 3}, 0), 1, 1, 2), reshape(numbers({2}, 10), {2, 1})}, 1));
  const auto folded = fold(g);
  const Node& only_node = only(*folded, Op::constant);
  const auto values = only_node.attributes.get<std::shared_ptr<const Tensor>>("value")->values<float>();
  CHECK(std::vector<float>(values.begin(), values.end()) == std::vector<float>{1, 2, 10, 4, 5, 11});
}

TEST_CASE("a scan of one step becomes its body") {
  Graph g;
  Value h = g.input("h", f32({2, 3})), x = g.input("x", f32({1, 2, 3})), w = g.input("w", f32({2, 3}));
  const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{w}, [](const StepValues& v) {
    const Value next = v.states[0] * v.constants[0] + v.sequences[0];
    return StepResult{{next}, {next}};
  });
  g.output("h", r.states[0]);
  g.output("y", r.outputs[0]);
  const auto inlined = inline_steps(g);
  CHECK(count(*inlined, Op::scan) == 0);
  CHECK(inlined->type(inlined->outputs()[1].value).shape == Shape{1, 2, 3});
}

TEST_CASE("a constant that a scan hands in becomes the body's own") {
  Graph g;
  Value h = g.input("h", f32({2, 3})), x = g.input("x", f32({4, 2, 3})), w = constant(g, Tensor(f32({3, 3})));
  const ScanResult r = scan(std::vector{h}, std::vector{x}, std::vector{x, w}, [](const StepValues& v) {
    return StepResult{{matmul(v.states[0], v.constants[1]) + v.sequences[0] + row(v.constants[0], 0)}, {}};
  });
  g.output("h", r.states[0]);
  const auto bound = bind_constants(g);
  CHECK(count(*bound, Op::constant) == 0);
  const Node& loop = only(*bound, Op::scan);
  CHECK(loop.inputs.size() == 3);
  CHECK(count(*loop.body, Op::constant) == 1);
  CHECK(count(*bind_constants(*bound), Op::scan) == 1);
}

}  // namespace
}  // namespace unroll
