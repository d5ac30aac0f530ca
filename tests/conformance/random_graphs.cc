// SPDX-License-Identifier: Apache-2.0
// Whole graphs and scans.
#include "tests/conformance/random_graphs.h"

#include <algorithm>

#include "tests/conformance/random_grower.h"

namespace unroll::testing {

namespace {

constexpr double k_with_scan = 0.3;
constexpr int k_most_steps = 40, k_most_body_steps = 8;

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  // splitmix64 of a and b
  std::uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// A loop over new or grown sequences; its body is grown as well. Next states are made bounded now and then.
void Grower::grow_scan() {
  if (!ranges_) return;
  const std::int64_t T = random_.chance(0.1) ? random_.from(0, 1) : random_.from(1, 7), B = size();
  const auto row_type = [&] { return Type{dtype_, random_.chance(0.3) ? Shape{B} : Shape{B, size()}}; };
  std::vector<Value> states, sequences, constants;
  for (std::int64_t i = random_.from(1, 3); i > 0; --i) states.push_back(fresh(row_type()));
  if (random_.chance(0.3)) states.push_back(states[0]);
  for (std::int64_t i = random_.below(3); i > 0; --i) {
    const Type step_type = row_type();
    const Entry* grown = pick([&](const Entry& e) {
      return is_float(e.value.dtype()) && e.value.rank() > 1 && e.value.shape()[0] == T && e.value.shape()[1] == B;
    });
    sequences.push_back(grown ? grown->value : fresh({dtype_, step_type.shape.inserted(0, T)}));
  }
  if (const Entry* constant = pick_float(0, 2); constant && random_.chance(0.5)) constants.push_back(constant->value);
  ScanOptions options{.reverse = random_.chance(0.4), .lengths = {}, .reset = {}, .steps = T};
  if (random_.chance(0.4)) options.lengths = fresh({DType::i32, {B}}, {.low = 0, .high = static_cast<double>(T)});
  if (random_.chance(0.3)) options.reset = fresh({DType::b8, {T, B}});

  const auto step = [&](const StepValues& v) {
    Grower body(v.states[0].graph(), dtype_, random_, nullptr);
    for (const auto* values : {&v.constants, &v.sequences, &v.states})
      for (const Value& value : *values) body.add(value, false);
    body.grow(static_cast<int>(random_.from(1, k_most_body_steps)), false);
    StepResult result;
    for (const Value& state : v.states) {
      const Value next = body.of_type(state.type(), state);
      result.states.push_back(random_.chance(0.8) ? tanh(next + state * 0.5) : next);
    }
    for (const Entry& entry : body.pool()) {
      const Value y = entry.value;
      const bool fits = y.rank() >= 1 && y.shape()[0] == B && y.rank() < 4;
      if (fits && !entry.used && result.outputs.size() < 3 && random_.chance(0.7)) result.outputs.push_back(y);
    }
    return result;
  };
  const ScanResult r = scan(states, sequences, constants, step, options);
  for (const Value& state : r.states) keep(state, false);
  for (const Value& y : r.outputs) keep(y, false);
}

RandomGraph random_graph(std::uint64_t seed, DType dtype) {
  RandomGraph result{std::make_shared<Graph>(), {}};
  Random random(seed);
  Grower grower(*result.graph, dtype, random, &result.ranges);
  grower.add_first_inputs();
  const bool with_scan = random.chance(k_with_scan);
  grower.grow(static_cast<int>(random.from(1, k_most_steps)), with_scan);
  // What nobody used, and now and then a value that was.
  for (const Grower::Entry& entry : grower.pool())
    if (!entry.used || random.chance(0.05))
      result.graph->output("out" + std::to_string(result.graph->outputs().size()), entry.value);
  if (result.graph->outputs().empty()) result.graph->output("out0", grower.pool().back().value);
  return result;
}

}  // namespace unroll::testing
