// SPDX-License-Identifier: Apache-2.0
// Programs that take turns in one arena: they compute what they compute apart, in the memory of the largest.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "backends/cpu/program/arena.h"
#include "tests/support/compare.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Loss and gradients of a layer over sequences of different lengths: loops of every kind, saved values, packed rows.
struct Update {
  Graph graph;
  TensorMap inputs;
  Update(Op cell, std::int64_t T, std::int64_t B, std::int64_t H) {
    Scope scope(graph, true);
    const Value x = graph.input("x", {DType::f32, {T, B, 7}}), lengths = graph.input("lengths", {DType::i32, {B}});
    const RecurrentModelOptions options{
        .cell = std::string(op_info(cell).name), .hidden = H, .bidirectional = true};
    const Value loss = mean(square(recurrent_model(scope, x, options, {}, lengths).y));
    std::vector<Value> wrt;
    for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph.find_input(p.name));
    const std::vector<Value> gradients = differentiate(loss, wrt);
    graph.output("loss", loss);
    for (std::size_t i = 0; i < wrt.size(); ++i) graph.output("d" + std::to_string(i), gradients[i]);
    inputs = initialize(scope.parameters(), 5);
    Tensor values(x.type()), n(lengths.type());
    for (std::int64_t i = 0; i < values.elements(); ++i) values.set(i, std::sin(0.37 * static_cast<double>(i)));
    for (std::int64_t b = 0; b < B; ++b) n.set(b, static_cast<double>(1 + (b * 5 + 2) % T));
    inputs["x"] = values;
    inputs["lengths"] = n;
  }
};

std::atomic<std::size_t> held_bytes{0};
void* counted_allocate(std::size_t bytes) {
  held_bytes += bytes;
  return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
}
void counted_release(void* memory, std::size_t bytes) {
  held_bytes -= bytes;
  std::free(memory);
}

}  // namespace

TEST_CASE("an arena is as large as the largest that is left needs, and one run at a time has it") {
  const auto arena = std::make_shared<cpu::SharedArena>();
  auto small = std::make_unique<cpu::SharedArena::Share>(arena, 100);
  CHECK(arena->bytes() == 100);
  auto large = std::make_unique<cpu::SharedArena::Share>(arena, 300);
  const cpu::SharedArena::Share other(arena, 200);
  CHECK(arena->bytes() == 300);
  {
    const cpu::SharedArena::Turn turn(*arena);
    CHECK_THROWS_WITH_AS(cpu::SharedArena::Turn{*arena}, doctest::Contains("a backend for each thread"), Error);
    // What comes or goes meanwhile leaves the run its memory.
    std::byte* const before = turn.data();
    const cpu::SharedArena::Share larger(arena, 1000);
    large.reset();
    CHECK(turn.data() == before);
    CHECK(arena->bytes() == 300);
  }
  {
    const cpu::SharedArena::Turn turn(*arena);
    CHECK(arena->bytes() == 200);
  }
  small.reset();
  CHECK(arena->bytes() == 200);
}

TEST_CASE("programs in turn give the bits that each gives alone, whatever another one left behind") {
  for (const BackendStatus& status : list_backends()) {
    const std::string& name = status.name;
    if (!status.available || !make_backend(name)->describe().one_arena) continue;
    for (const int threads : {1, 2}) {
      CAPTURE(name);
      CAPTURE(threads);
      const Update updates[] = {{Op::lstm, 9, 6, 40}, {Op::gru, 30, 4, 24}, {Op::rnn, 3, 12, 16}};
      const auto shared = make_backend(name, {.threads = threads});
      std::vector<std::unique_ptr<Program>> programs;
      std::vector<TensorMap> alone;
      for (const Update& u : updates) {
        const auto backend = make_backend(name, {.threads = threads});
        alone.push_back(Program(u.graph, *backend).run(u.inputs));
        programs.push_back(std::make_unique<Program>(u.graph, *shared));  // those before it keep their places
      }
      for (const std::size_t i : {0, 1, 2, 0, 2, 1, 1, 0})
        CHECK(same_bits(programs[i]->run(updates[i].inputs), alone[i]));
      programs[1].reset();  // the largest
      for (const std::size_t i : {0, 2, 0}) CHECK(same_bits(programs[i]->run(updates[i].inputs), alone[i]));
    }
  }
}

TEST_CASE("what programs of one backend hold is one arena, not one for each") {
  const Allocator before = set_allocator({counted_allocate, counted_release});
  {
    const auto backend = make_backend("cpu", {.threads = 2});
    std::vector<std::unique_ptr<Program>> programs;
    std::size_t largest = 0, sum = 0, together = 0, each_alone = 0;
    for (const std::int64_t T : {40, 80, 60, 20}) {
      const Update u(Op::lstm, T, 8, 32);
      std::size_t start = held_bytes;
      {
        const auto own = make_backend("cpu", {.threads = 2});
        const Program alone(u.graph, *own);
        each_alone += held_bytes - start;
      }
      start = held_bytes;
      programs.push_back(std::make_unique<Program>(u.graph, *backend));
      together += held_bytes - start;
      const std::size_t arena = programs.back()->plan().arena_bytes;
      largest = std::max(largest, arena);
      sum += arena;
    }
    CHECK(sum > 2 * largest);
    CHECK(together <= each_alone - (sum - largest));  // all arenas but the largest
    const std::size_t all = held_bytes;
    programs.erase(programs.begin() + 1);
    CHECK(all - held_bytes > largest / 2);  // goes with the largest one
  }
  set_allocator(before);
}

TEST_CASE("streams have memory of their own and run beside each other and beside a program") {
  const auto backend = make_backend("cpu", {.threads = 2});
  const Update update(Op::lstm, 20, 8, 32);
  Program program(update.graph, *backend);
  const TensorMap wanted = program.run(update.inputs);
  const StreamModel model = recurrent_stream({.cell = "gru", .hidden = 24}, 3);
  Graph graph;
  Scope scope(graph, false);
  std::vector<Value> states;
  for (const Shape& shape : model.state_shapes(1)) states.push_back(graph.input("s", {DType::f32, shape}));
  model.build(scope, graph.input("x", {DType::f32, {1, 1, 3}}), states);
  const TensorMap weights = initialize(scope.parameters(), 2);
  const auto steps_of = [](Stream& stream, std::vector<float>& all) {
    std::vector<float> y(static_cast<std::size_t>(stream.outputs()));
    for (int t = 0; t < 2000; ++t) {
      const float x[] = {std::sin(0.1f * static_cast<float>(t)), 0.5f, -1};
      if (!stream.step(x, y)) return;
      all.insert(all.end(), y.begin(), y.end());
    }
  };
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(*backend, model, weights);
  std::vector<float> got[3];
  steps_of(streams[2], got[2]);
  std::thread first([&] { steps_of(streams[0], got[0]); }), second([&] { steps_of(streams[1], got[1]); });
  for (int i = 0; i < 10; ++i) CHECK(same_bits(program.run(update.inputs), wanted));
  first.join();
  second.join();
  CHECK(got[2].size() == 2000 * 24);
  CHECK((got[0] == got[2]));
  CHECK((got[1] == got[2]));
}
