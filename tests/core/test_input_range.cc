// SPDX-License-Identifier: Apache-2.0
// Lengths that are no number of steps are refused wherever a tensor is bound, whatever reads them.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "core/ir/input_range.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/model/network.h"
#include "unroll/passes/run.h"

namespace test_input_range {

using namespace unroll;

namespace {

constexpr std::int64_t T = 5, B = 2, I = 3, H = 4;

// y of x [T,B,I] and lengths [B].
using Reader = std::function<Value(Scope& scope, Value x, Value lengths)>;
struct NamedReader {
  const char* name;
  Reader read;
};

Value recurrent_of(Scope& scope, Value x, Value lengths, RecurrentModelOptions options) {
  options.hidden = H;
  return recurrent_model(scope.child("layers"), x, options, {}, lengths).y;
}

Value loop_of(Value x, Value lengths) {
  ScanOptions options;
  options.lengths = lengths;
  const Value states[] = {filled(x.graph(), {x.dtype(), {B, I}}, 0)}, sequences[] = {x};
  return scan(states, sequences, {}, [](const StepValues& v) {
    const Value h = tanh(v.states[0] + v.sequences[0]);
    return StepResult{{h}, {h}};
  }, options).outputs[0];
}

// A layer whose lengths reach it as a constant of an outer loop.
Value in_a_loop(Value x, Value lengths) {
  const Value states[] = {filled(x.graph(), {x.dtype(), {T, B, I}}, 0)}, constants[] = {lengths};
  ScanOptions options;
  options.steps = 2;
  return scan(states, {}, constants, [](const StepValues& v) {
    return StepResult{{loop_of(v.states[0], v.constants[0])}, {}};
  }, options).states[0];
}

const NamedReader k_readers[] = {
    {"rnn", [](Scope& s, Value x, Value n) { return recurrent_of(s, x, n, {.cell = "rnn"}); }},
    {"gru, two layers", [](Scope& s, Value x, Value n) { return recurrent_of(s, x, n, {.cell = "gru", .layers = 2}); }},
    {"lstm, both directions",
     [](Scope& s, Value x, Value n) { return recurrent_of(s, x, n, {.cell = "lstm", .bidirectional = true}); }},
    {"a cell of the library", [](Scope& s, Value x, Value n) { return recurrent_of(s, x, n, {.cell = "mgu"}); }},
    {"a loop", [](Scope&, Value x, Value n) { return loop_of(x, n); }},
    {"a loop in a loop", [](Scope&, Value x, Value n) { return in_a_loop(x, n); }},
    {"a mask", [](Scope&, Value x, Value n) { return masked_mean(x, reshape(sequence_mask(n, T), {T, B, 1})); }},
    {"a CRF",
     [](Scope& s, Value x, Value n) { return cast(crf_decode(crf_parameters(s.child("crf"), I), x, n), DType::f32); }},
    {"a loop over moved lengths",
     [](Scope&, Value x, Value n) { return loop_of(x, reshape(transpose(reshape(n, {B, 1}), {1, 0}), {B})); }},
};

Network network_of(const Reader& read) {
  return [read](Scope& scope, const Inputs& in) {
    TaskGraph t;
    t.outputs = {{"y", read(scope, in["x"], in["lengths"])}};
    if (in.has("target")) t.loss = mean(square(t.outputs[0].second)) + mean(in["target"]);
    return t;
  };
}

TensorMap inputs_with(std::int32_t length) {
  return {{"x", Tensor(DType::f32, {T, B, I})}, {"lengths", Tensor::from<std::int32_t>({B}, {T, length})}};
}

std::string refusal(const std::function<void()>& call) {
  const Result<void> done = attempt(call);
  if (done.ok()) return "";
  CHECK(done.error().kind() == ErrorKind::usage);
  return done.error().what();
}

void check(const std::string& refused, std::int32_t length, const std::string& who) {
  CAPTURE(length);
  if (length >= 0 && length <= T) CHECK(refused == "");
  else CHECK(refused == "[" + who + "] input 'lengths' has " + std::to_string(length) +
                       " as element 1; it must be between 0 and 5, the number of steps");
}

constexpr std::int32_t k_lengths[] = {-1, 0, T, T + 1};

}  // namespace

TEST_CASE("each reader of lengths runs with 0 to T, and refuses others by name, element and range") {
  const auto backend = make_backend("reference");
  for (const NamedReader& reader : k_readers) {
    CAPTURE(reader.name);
    Model model(*backend, network_of(reader.read), [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      reader.read(scope, graph.input("x", {DType::f32, {T, B, I}}), graph.input("lengths", {DType::i32, {B}}));
      return initialize(scope.parameters(), 1);
    }());
    for (const std::int32_t length : k_lengths)
      check(refusal([&] { model.run(inputs_with(length)); }), length, "Program::run");
  }
}

TEST_CASE("a batch of training and of evaluation is checked too") {
  const auto backend = make_backend("reference");
  for (const NamedReader& reader : k_readers) {
    CAPTURE(reader.name);
    const auto batch_with = [](std::int32_t length) {
      Batch batch{inputs_with(length)};
      batch.inputs.emplace("target", Tensor(DType::f32, {1}));
      return batch;
    };
    TrainerOptions options;
    options.warn = [](const std::string&) {};
    Trainer trainer(make_task(batch_with(T), [&](Scope& scope, const Inputs& in) {
      TaskGraph t = network_of(reader.read)(scope, in);
      const Value unread = scope.parameter("w", {1}, Initializer::zeros());
      t.loss = t.loss + sum(unread);
      return t;
    }), *backend, options);
    for (const std::int32_t length : k_lengths) {
      const Batch batch = batch_with(length);
      check(refusal([&] { trainer.evaluate(batch); }), length, "trainer");
    }
  }
}

TEST_CASE("lengths that are known when the graph is built are refused there") {
  for (const std::int32_t length : k_lengths) {
    CAPTURE(length);
    Graph graph;
    const Value x = graph.input("x", {DType::f32, {T, B, I}});
    const Value lengths = constant(graph, Tensor::from<std::int32_t>({B}, {T, length}));
    const bool is_valid = length >= 0 && length <= T;
    CHECK(refusal([&] { loop_of(x, lengths); }).empty() == is_valid);
  }
}

TEST_CASE("an input of two loops must be a number of steps of both, and a computed length is cut") {
  const auto backend = make_backend("reference");
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {T, B, I}}), n = graph.input("lengths", {DType::i32, {B}});
  graph.output("whole", loop_of(x, n));
  graph.output("first three", loop_of(slice(x, 0, 0, 3), n));
  graph.output("computed", loop_of(x, n + 9.0));
  const auto run_with = [&](std::vector<std::int32_t> lengths) {
    return refusal([&] {
      evaluate(graph, *backend, {{"x", Tensor(DType::f32, {T, B, I})},
                                 {"lengths", Tensor::from<std::int32_t>({B}, lengths)}});
    });
  };
  CHECK(run_with({3, 0}) == "");
  CHECK(run_with({4, 0}).ends_with("has 4 as element 0; it must be between 0 and 3, the number of steps"));
}

}  // namespace test_input_range
