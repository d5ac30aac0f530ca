// SPDX-License-Identifier: Apache-2.0
// Loops over time: cells written by hand, with every option of scan and at the edges of T and B.
#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

struct Loop {
  std::string name;
  std::int64_t T, B;
  bool reverse = false, lengths = false, reset = false;
};
const Loop k_loops[] = {
    {"", 5, 3},
    {" reversed", 5, 3, true},
    {" with lengths", 5, 4, false, true},
    {" with resets", 5, 4, false, false, true},
    {" reversed with lengths", 5, 4, true, true},
    {" reversed with resets", 5, 4, true, false, true},
    {" with lengths and resets", 6, 4, false, true, true},
    {" with everything", 6, 4, true, true, true},
    {" of one step", 1, 3, false, true, true},
    {" of one row", 4, 1, true, true, true},
    {" of no step", 0, 3, false, true, true},
    {" of no step and nothing else", 0, 3},
    {" of no row", 4, 0, false, true, true},
    {" of many steps", 41, 9, false, true},
};
constexpr std::int64_t k_width = 3;
const ScanOptions k_reversed{.reverse = true, .lengths = {}, .reset = {}, .steps = -1};

ScanOptions options_of(Graph& g, const Loop& loop) {
  ScanOptions options;
  options.reverse = loop.reverse;
  options.steps = loop.T;
  if (loop.lengths) options.lengths = g.input("lengths", {DType::i32, {loop.B}}) + 0.0;  // computed: T + 1 is T
  if (loop.reset) options.reset = g.input("reset", {DType::b8, {loop.T, loop.B}});
  return options;
}
std::map<std::string, Range> ranges_of(const Loop& loop) {
  return {{"lengths", between(0, static_cast<double>(loop.T) + 1)}, {"weight", between(-0.7, 0.7)}};
}
void output_all(Graph& g, const ScanResult& r) {
  for (std::size_t i = 0; i < r.states.size(); ++i) g.output("state" + std::to_string(i), r.states[i]);
  for (std::size_t i = 0; i < r.outputs.size(); ++i) g.output("y" + std::to_string(i), r.outputs[i]);
}

// h' = tanh(x + h W + b): one state, a sequence, constants.
void tanh_cell(Graph& g, DType d, const Loop& loop) {
  const Value states[] = {g.input("h", {d, {loop.B, k_width}})};
  const Value sequences[] = {g.input("x", {d, {loop.T, loop.B, k_width}})};
  const Value constants[] = {g.input("weight", {d, {k_width, k_width}}), g.input("bias", {d, {k_width}})};
  output_all(g, scan(states, sequences, constants, [](const StepValues& v) {
    const Value h = tanh(v.sequences[0] + matmul(v.states[0], v.constants[0]) + v.constants[1]);
    return StepResult{{h}, {h * h, v.states[0]}};
  }, options_of(g, loop)));
}

// Two states of different types that feed each other, two sequences, an output that ignores the states.
void two_state_cell(Graph& g, DType d, const Loop& loop) {
  const Value states[] = {g.input("a", {d, {loop.B, k_width}}), g.input("b", {d, {loop.B}})};
  const Value sequences[] = {g.input("x", {d, {loop.T, loop.B, k_width}}), g.input("u", {d, {loop.T, loop.B}})};
  output_all(g, scan(states, sequences, {}, [](const StepValues& v) {
    const Value b = v.states[1] * 0.5 + v.sequences[1] * reduce_sum(v.states[0], {1});
    const Value a = sigmoid(v.states[0] * v.sequences[0] + reshape(v.states[1], v.states[1].shape().inserted(1, 1)));
    return StepResult{{a, b}, {v.sequences[0] * 2.0, b + v.sequences[1]}};
  }, options_of(g, loop)));
}

// Swapping states, one handed on unchanged, one reset to a constant, and a whole-number counter.
void moving_states(Graph& g, DType d, const Loop& loop) {
  const Type type{d, {loop.B, k_width}};
  const Value states[] = {g.input("a", type), g.input("b", type), g.input("c", type), g.input("d", type),
                          g.input("n", {DType::i32, {loop.B}})};
  const Value sequences[] = {g.input("x", {d, {loop.T, loop.B, k_width}})};
  output_all(g, scan(states, sequences, {}, [](const StepValues& v) {
    const Value zero = filled(v.states[0].graph(), v.states[0].type(), 0.25);
    return StepResult{{v.states[1], v.states[0], v.states[2], zero, v.states[4] + 1.0},
                      {v.sequences[0], v.states[1], v.states[3], v.states[4]}};
  }, options_of(g, loop)));
}

// Rows see each other, so that it shows what a body is given for rows that have ended or start anew.
void mixing_rows(Graph& g, DType d, const Loop& loop) {
  const Value states[] = {g.input("h", {d, {loop.B, k_width}})};
  const Value sequences[] = {g.input("x", {d, {loop.T, loop.B, k_width}})};
  const auto step = [](const StepValues& v) {
    const Value mixed = v.states[0] + reduce_sum(v.states[0], {0}, true) * 0.25;
    return StepResult{{tanh(mixed + v.sequences[0])}, {matmul(mixed, v.states[0], {.a = false, .b = true})}};
  };
  output_all(g, scan(states, sequences, {}, step, options_of(g, loop)));
}

template <class Build>
void add_loops(Cases& cases, const std::string& name, Build build, Agreement agreement, bool constant_output) {
  for (const Loop& loop : k_loops)
    cases.push_back({.name = name + loop.name,
                     .build = [=](Graph& g, DType d) { build(g, d, loop); },
                     .ranges = ranges_of(loop),
                     .agreement = agreement,
                     .differentiable = loop.T < 10,
                     .constant_output = constant_output || loop.T <= 1 || loop.B <= 1});
}

// T = 1..7 of a gated cell of one's own, written with plain ops.
void add_own_cell(Cases& cases) {
  for (std::int64_t T = 1; T <= 7; ++T)
    cases.push_back({.name = "own gated cell, T=" + std::to_string(T), .build = [T](Graph& g, DType d) {
                       const Value states[] = {g.input("h", {d, {2, 3}}), g.input("m", {d, {2, 3}})};
                       const Value sequences[] = {g.input("x", {d, {T, 2, 6}})};
                       const Value constants[] = {g.input("weight", {d, {3, 6}}), g.input("decay", {d, {3}})};
                       output_all(g, scan(states, sequences, constants, [](const StepValues& v) {
                         const auto gates = split(v.sequences[0] + matmul(v.states[0], v.constants[0]), -1, 2);
                         const Value m = v.states[1] * sigmoid(v.constants[1]) + tanh(gates[0]);
                         const Value h = sigmoid(gates[1]) * m / (1.0 + abs(m));
                         return StepResult{{h, m}, {h}};
                       }));
                     },
                     .ranges = {{"m", between(0.5, 2)}}, .agreement = {Rule::norm, static_cast<int>(3 * T)},
                     // m may cross 0, where abs has its kink
                     .differentiable = T <= 2});
}

void add_odd_shapes(Cases& cases) {
  cases.push_back({.name = "scan without states", .build = [](Graph& g, DType d) {
                     const Value sequences[] = {g.input("x", {d, {4, 3}})}, constants[] = {g.input("c", {d, {3}})};
                     output_all(g, scan({}, sequences, constants, [](const StepValues& v) {
                       return StepResult{{}, {exp(v.sequences[0]) * v.constants[0]}};
                     }));
                   }});
  cases.push_back({.name = "scan without sequences", .build = [](Graph& g, DType d) {
                     const Value states[] = {g.input("s", {d, {}})}, constants[] = {g.input("c", {d, {}})};
                     output_all(g, scan(states, {}, constants, [](const StepValues& v) {
                       return StepResult{{v.states[0] * v.constants[0] + 1.0}, {v.states[0]}};
                     }, {.reverse = false, .lengths = {}, .reset = {}, .steps = 6}));
                   },
                   .agreement = {Rule::norm, 6}});
  cases.push_back({.name = "scan that draws random numbers", .build = [](Graph& g, DType d) {
                     const Value states[] = {g.input("s", {d, {3}}), g.input("n", {DType::i32, {}})};
                     const Value sequences[] = {g.input("x", {d, {5, 3}})},
                                 constants[] = {g.input("key", {DType::i32, {3}})};
                     output_all(g, scan(states, sequences, constants, [](const StepValues& v) {
                       const Value u = cast(random_uniform(v.constants[0], {3}, 2, v.states[1]), v.states[0].dtype());
                       const Value s = v.states[0] * u + v.sequences[0];
                       return StepResult{{s, v.states[1] + 1.0}, {u, s}};
                     }));
                   },
                   .ranges = {{"key", between(0, 1000)}, {"n", between(0, 0)}}, .agreement = {Rule::norm, 5}});
  for (const bool reverse : {false, true})
    cases.push_back({.name = std::string("rows with constants and draws of their own") + (reverse ? ", reversed" : ""),
                     .build =
                         [reverse](Graph& g, DType d) {
                           const Value states[] = {g.input("s", {d, {4, 3}})};
                           const Value sequences[] = {g.input("x", {d, {5, 4, 3}}), iota(g, {5}, 0)};
                           const Value constants[] = {g.input("key", {DType::i32, {3}}), g.input("c", {d, {4, 3}})};
                           const auto step = [](const StepValues& v) {
                             const Value u = random_uniform(v.constants[0], {4, 3}, 2, v.sequences[1]);
                             const Value drawn = v.sequences[0] * cast(u, v.states[0].dtype());
                             const Value s = tanh(v.states[0] * v.constants[1] + drawn);
                             return StepResult{{s}, {s, concat(std::vector{v.constants[1], s}, 1)}};
                           };
                           ScanOptions options;
                           options.reverse = reverse;
                           options.lengths = g.input("lengths", {DType::i32, {4}});
                           output_all(g, scan(states, sequences, constants, step, options));
                         },
                     .ranges = {{"key", between(0, 1000)}, {"lengths", between(0, 5)}}, .agreement = {Rule::norm, 20}});
  cases.push_back({.name = "scan in a scan", .build = [](Graph& g, DType d) {
                     const Value states[] = {g.input("s", {d, {2}})}, sequences[] = {g.input("x", {d, {3, 4, 2}})};
                     const Value constants[] = {g.input("c", {d, {2}})};
                     output_all(g, scan(states, sequences, constants, [](const StepValues& v) {
                       const ScanResult inner = scan(v.states, v.sequences, v.constants, [](const StepValues& w) {
                         const Value s = tanh(w.states[0] * w.constants[0] + w.sequences[0]);
                         return StepResult{{s}, {s}};
                       }, k_reversed);
                       return StepResult{{inner.states[0] * 0.5},
                                         {reduce_sum(inner.outputs[0], {0}), inner.outputs[0]}};
                     }));
                   },
                   .agreement = {Rule::norm, 12}});
  cases.push_back({.name = "scan whose result feeds a scan", .build = [](Graph& g, DType d) {
                     const Value x = g.input("x", {d, {4, 2}}), s = g.input("s", {d, {2}});
                     const auto add_up = [](const StepValues& v) {
                       const Value next = v.states[0] + v.sequences[0];
                       return StepResult{{next}, {next}};
                     };
                     const Value states[] = {s}, first[] = {x};
                     const ScanResult r = scan(states, first, {}, add_up);
                     const Value second[] = {r.outputs[0]};
                     output_all(g, scan(r.states, second, {}, add_up, k_reversed));
                   },
                   .agreement = {Rule::norm, 16}});
  cases.push_back(
      {.name = "scan with a table looked up in every step",
       .build =
           [](Graph& g, DType d) {
             const Value states[] = {g.input("s", {d, {3, 2}})}, sequences[] = {g.input("ids", {DType::i32, {5, 3}})};
             const Value constants[] = {g.input("table", {d, {4, 2}})};
             output_all(g, scan(states, sequences, constants, [](const StepValues& v) {
                          const Value s = v.states[0] * 0.5 + gather(v.constants[0], v.sequences[0]);
                          return StepResult{{s}, {reduce_max(s, {1})}};
                        }));
           },
       .ranges = {{"ids", between(-1, 4)},
                  {"s", {.low = -1, .high = 1, .distinct = true}},
                  {"table", {.low = -1, .high = 1, .distinct = true}}},
       .agreement = {Rule::norm, 5}});
}

}  // namespace

void add_scan_cases(Cases& cases) {
  add_loops(cases, "tanh cell", tanh_cell, {Rule::norm, 100}, false);
  add_loops(cases, "two states", two_state_cell, {Rule::norm, 100}, false);
  add_loops(cases, "mixing rows", mixing_rows, {Rule::norm, 200}, false);
  add_loops(cases, "moving states", moving_states, k_exact, true);
  add_own_cell(cases);
  add_odd_shapes(cases);
}

}  // namespace unroll::testing
