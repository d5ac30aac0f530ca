// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/ir/ops/composite.h"
#include "tests/core/op_examples.h"
#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;

namespace {

// The message of the Error(input_file) that parsing must throw.
std::string refusal(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input_file);
    return error.what();
  }
  FAIL_CHECK("parsed: " << text);
  return {};
}

const char* const k_small = R"(graph {
  %0 = input(){name="x"} : f32[2,3]
  %1 = tanh(%0) : f32[2,3]
  output "y" = %1
}
)";

void check_round_trip(const Graph& graph) {
  const std::string text = print_graph(graph);
  CAPTURE(text);
  CHECK(print_graph(*parse_graph(text)) == text);
}

}  // namespace

TEST_CASE("a small graph prints as documented") {
  Graph g;
  const Value x = g.input("x", {DType::f32, {2, 3}});
  g.output("y", tanh(x));
  CHECK(print_graph(g) == k_small);
  CHECK(print_graph(*parse_graph(k_small)) == k_small);
}

TEST_CASE("a scan prints its body and names its outputs one by one") {
  Graph g;
  const Value h = g.input("h", {DType::f32, {3}}), x = g.input("x", {DType::f32, {4, 3}});
  const Value states[] = {h}, sequences[] = {x};
  const ScanResult r = scan(states, sequences, {}, [](const StepValues& v) -> StepResult {
    const Value next = v.states[0] + v.sequences[0];
    return {{next}, {next}};
  });
  g.output("y", r.outputs[0]);
  CHECK(print_graph(g) == R"(graph {
  %0 = input(){name="h"} : f32[3]
  %1 = input(){name="x"} : f32[4,3]
  %2 = scan(%0, %1){lengths=false, reset=false, reverse=false, sequences=1, states=1, steps=4} body {
    %0 = input(){name="state0"} : f32[3]
    %1 = input(){name="x0"} : f32[3]
    %2 = add(%0, %1) : f32[3]
    output "next0" = %2
    output "y0" = %2
  } : f32[3], f32[4,3]
  output "y" = %2.1
}
)");
  check_round_trip(g);
}

TEST_CASE("every op survives printing and parsing") {
  for (const OpExample& e : right_examples()) check_round_trip(*example_graph(e));
}

TEST_CASE("every body survives printing and parsing") {
  for (const OpExample& e : right_examples())
    if (find_composite(e.op)) check_round_trip(*build_composite(e.op, e.inputs, e.attributes));
}

TEST_CASE("numbers keep every bit") {
  const float payload = std::bit_cast<float>(0x7fc00123u);
  const std::vector<float> floats{0.1f,      -0.0f, 1e-45f,  3.4028235e38f, INFINITY,
                                  -INFINITY, NAN,   payload, -payload,      16777216.f};
  const std::vector<double> doubles{
      0.1, -0.0, 5e-324, 1.7976931348623157e308, INFINITY, std::bit_cast<double>(0x7ff8000000000001ull), 1.0 / 3};
  Graph g;
  g.output("f", constant(g, Tensor::from(Shape{10}, floats)));
  g.output("d", constant(g, Tensor::from(Shape{7}, doubles)));
  g.output("i", constant(g, Tensor::from(Shape{2}, std::vector<std::int32_t>{INT32_MIN, INT32_MAX})));
  g.output("b", constant(g, Tensor::from(Shape{2}, std::vector<std::uint8_t>{0, 1})));
  for (const DType half : {DType::bf16, DType::f16}) {  // every number of the format, NaNs among them
    Tensor numbers(half, Shape{1 << 16});
    for (std::size_t bits = 0; bits < 1 << 16; ++bits) {
      const auto value = static_cast<std::uint16_t>(bits);
      std::memcpy(numbers.bytes().data() + 2 * bits, &value, 2);
    }
    g.output(std::string(dtype_name(half)), constant(g, std::move(numbers)));
  }
  g.output("negative zero", filled(g, {DType::f32, {3}}, -0.0));
  g.output("empty", constant(g, Tensor(DType::f32, Shape{0, 4})));
  check_round_trip(g);
  const auto copy = parse_graph(print_graph(g));
  REQUIRE(copy->nodes().size() == g.nodes().size());
  for (std::size_t n = 0; n < g.nodes().size(); ++n) CHECK(copy->nodes()[n].attributes == g.nodes()[n].attributes);
}

TEST_CASE("a constant whose elements have the same bits prints one element") {
  Graph g;
  constant(g, Tensor::filled({DType::f32, {2, 3}}, 0.5));
  constant(g, Tensor::from(Shape{2}, std::vector<float>{0.f, -0.f}));
  const std::string text = print_graph(g);
  CHECK(text.find("f32[2,3](all 0.5)") != std::string::npos);
  CHECK(text.find("f32[2](0, -0)") != std::string::npos);
}

TEST_CASE("attributes keep their kinds") {
  const std::pair<const char*, Attribute> rows[] = {
      {"2.0", 2.0}, {"1e+300", 1e300}, {"-inf", -INFINITY}, {"0.1", 0.1}, {"1e+05", 1e5}, {"1024.0", 1024.0},
  };
  for (const auto& [text, value] : rows) {
    Graph g;
    const Value q = g.input("q \" \\ \n", {DType::f64, {1, 1, 1}});
    g.append(Op::dot_attention, std::vector<Value>{q, q, q}, {{"scale", value}});
    CHECK(print_graph(g).find(std::string("{scale=") + text + "}") != std::string::npos);
    CHECK(parse_graph(print_graph(g))->nodes()[1].attributes == g.nodes()[1].attributes);
    CHECK(parse_graph(print_graph(g))->inputs()[0].name == "q \" \\ \n");
  }
}

TEST_CASE("comments, spaces and any numbering are read") {
  const auto g = parse_graph(
      "graph{ // a comment\n%7=input(){name=\"x\"}:f32[2]\n\t%3 = neg ( %7 ) : f32 [ 2 ] output \"y\"=%3.0 }// end");
  CHECK(g->nodes().size() == 2);
  CHECK(g->outputs()[0].value == ValueId{1, 0});
}

TEST_CASE("a wrong text is refused with its line and column") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"", "line 1, column 1: expected 'graph'"},
      {"graph {", "line 1, column 8: expected '%'"},
      {"graph {} x", "line 1, column 10: expected the end"},
      {"graph {\n  %0 = fly() : f32[]\n}", "line 2, column 8: unknown op 'fly'"},
      {"graph {\n  %0 = neg(%1) : f32[]\n}", "line 2, column 12: %1 is not defined above"},
      {"graph {\n  %0 = input(){name=\"x\"} : f32[2]\n  %1 = neg(%0) : f32[3]\n}",
       "line 3, column 3: output 0 is f32[2]"},
      {"graph {\n  %0 = input(){name=\"x\"} : f32[2]\n  %1 = add(%0) : f32[2]\n}",
       "line 3, column 3: [add] takes 2 inputs"},
      {"graph { %0 = input(){name=\"x\"} : f32[2] %0 = neg(%0) : f32[2] }", "%0 is defined twice"},
      {"graph { %0 = input(){name=\"x\"} : f32[2] output \"y\" = %0.1 }", "names no output"},
      {"graph { %0 = input(){name=\"x\"} : f32[2] %1 = input(){name=\"x\"} : f32[2] }", "the name 'x' is taken"},
      {"graph { %0 = input() : f32[2] }", "an input is written"},
      {"graph { %0 = input(){name=\"x\"} : f8[2] }", "unknown dtype 'f8'"},
      {"graph { %0 = input(){name=\"x\"} : f32[-2] }", "must not be negative"},
      {"graph { %0 = input(){name=\"x} : f32[2] }", "the string does not end"},
      {"graph { %0 = input(){name=\"\\q\"} : f32[2] }", "unknown escape"},
      {"graph { %0 = input(){name=\"x\", name=\"x\"} : f32[2] }", "given twice"},
      {"graph { %0 = constant(){value=f32[2](1, 2, 3)} : f32[2] }", "expected ')'"},
      {"graph { %0 = constant(){value=f32[2](1, z)} : f32[2] }", "'z' is no element"},
      {"graph { %0 = constant(){value=b8[1](2)} : b8[1] }", "'2' is no element"},
      {"graph { %0 = constant(){value=f32[16777217](all 0)} : f32[16777217] }", "16 Mi"},
      {"graph { %0 = constant(){value=f32[4000000000,4000000000](all 0)} : f32[1] }", "2^62"},
      {"graph { %0 = constant(){value=99999999999999999999} : f32[1] }", "is no value"},
      {"graph { %0 = input(){name=\"x\"} : f32[2] %1 = neg(%0){axis=1} : f32[2] }", "R4"},
      {"graph { %0 = input(){name=\"x\"} : f32[2] %1 = cast(%0){dtype=1} : f32[2] }", "wrong type"},
      {"graph { %0 = scan() : f32[] }", "[scan] takes 1 or more inputs"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const std::string said = refusal(row.text);
    CAPTURE(said);
    CHECK(said.find(row.message) != std::string::npos);
  }
}

TEST_CASE("constants share one budget, so that many small texts cannot ask for much memory") {
  std::string text = "graph {\n";
  for (int i = 0; i < 20; ++i)
    text += "%" + std::to_string(i) + " = constant(){value=b8[1048576](all 1)} : b8[1048576]\n";
  CHECK(refusal(text + "}").find("line 18") != std::string::npos);
}

TEST_CASE("bodies nested too deep are refused before the stack ends") {
  std::string text = "graph {\n %0 = input(){name=\"x\"} : f32[2]\n";
  for (int i = 0; i < 100000; ++i) text += " %1 = fused(%0) body {\n %0 = input(){name=\"x\"} : f32[2]\n";
  CHECK(refusal(text).find("deeper than 64") != std::string::npos);
}

TEST_CASE("every prefix of a text is refused") {
  const std::string text = print_graph(*example_graph(right_examples().back()));
  for (std::size_t n = 0; n + 2 < text.size(); ++n) refusal(text.substr(0, n));
}

TEST_CASE("the picture has every node, every body and every output") {
  for (const OpExample& e : right_examples()) {
    const auto g = example_graph(e);
    const std::string dot = graph_to_dot(*g);
    CAPTURE(dot);
    CHECK(dot.rfind("digraph unroll {", 0) == 0);
    CHECK(dot.find(std::string(op_info(e.op).name)) != std::string::npos);
    CHECK((dot.find("cluster_") != std::string::npos) == (e.body != nullptr));
    CHECK(dot.find("\"y0\", shape=ellipse") != std::string::npos);
  }
}
