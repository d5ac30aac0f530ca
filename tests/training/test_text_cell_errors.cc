// SPDX-License-Identifier: Apache-2.0
// Cells given as text: what is refused, where, with what advice, and what a text may cost.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/model/cells/text_cell.h"
#include "tests/support/text.h"
#include "tests/training/text_cells.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// The message of the error that parsing or building gives; empty when there is none.
std::string refusal(const TextCell& cell, ErrorKind kind = ErrorKind::usage) {
  try {
    Graph graph;
    Scope scope(graph);
    const Value x = graph.input("x", {DType::f32, {5, 3, 4}});
    cell_layer(scope, make_text_cell(cell), x, {.hidden = 6});
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a mistake is refused with cell, line, column and what to do") {
  struct Row {
    const char* step;
    const char* at;    // "line 1, column 5"
    const char* what;
    const char* next;
  };
  const Row rows[] = {
      {"h' = sigmod(x)", "line 1, column 6", "unknown function 'sigmod'", "Did you mean sigmoid?"},
      {"f = tanh(h)\nh' = f * hh", "line 2, column 10", "unknown name 'hh'", "Did you mean h?"},
      {"h' = bias + h", "line 1, column 6", "unknown name 'bias'", "param(bias)"},
      {"f = tanh(h)\n", "line 2, column 1", "state 'h' has no next value", "Add a line h' = ..."},
      {"h' = h\nh' = x", "line 2, column 1", "'h'' is assigned twice: first in line 1", "Assign each name once"},
      {"f = h\nf = x\nh' = h", "line 2, column 1", "'f' is assigned twice: first in line 1", "once"},
      {"h' = x", "line 1, column 6", "h' is [B,4] and a state is [B,6]", "linear(...)"},
      {"f = linear(x)\nh' = tanh(x + f)", "line 2, column 13", "widths do not agree: [B,4] and [B,6]", "linear(...)"},
      {"h' = h @ x", "line 1, column 8", "unexpected character '@'", "# starts a comment"},
      {"h' = h\n\nf = 2 \xc3\x97 h", "line 3, column 7", "unexpected character 0xc3", "A line is"},
      {"h' = h ^ 2", "line 1, column 8", "unexpected character '^'", "Write a power as a product"},
      {"h' = slice(h, 0)", "line 1, column 6", "slice has 2 arguments and takes 3", "Write slice(a, start, size)"},
      {"h' = tanh()", "line 1, column 6", "tanh has 0 arguments and takes 1", "Write tanh(a)"},
      {"h' = tanh h", "line 1, column 11", "expected an operator or the end of the line, found 'h'", "parentheses"},
      {"h' = tanh * h", "line 1, column 6", "'tanh' is a function", "Write tanh(a)"},
      {"h' = h(x)", "line 1, column 6", "'h' is not a function", "Write a product with *"},
      {"h' = 2 * (h + x\n", "line 1, column 10", "this parenthesis is not closed", "Add )"},
      {"h' = (h\nf = h", "line 2, column 1", "expected , or ), found 'f'", "line 1, column 6 is open"},
      {"h' = h +", "line 1, column 9", "expected a number, a name or (", ""},
      {"h' h", "line 1, column 4", "expected = after h', found 'h'", "A line is name = expression"},
      {"= h", "line 1, column 1", "expected a name to assign to, found '='", "A line is name = expression"},
      {"h = tanh(x)\nh' = h", "line 1, column 1", "'h' is a state", "Write h' = ..."},
      {"x = h\nh' = h", "line 1, column 1", "'x' is the input of the step", "Choose another name"},
      {"tanh = h\nh' = h", "line 1, column 1", "'tanh' is a function", "Choose another name"},
      {"c' = h\nh' = h", "line 1, column 1", "unknown state 'c'", "States: h"},
      {"f = g + h\ng = h\nh' = f", "line 1, column 5", "'g' is used before its assignment in line 2",
       "Move that line up"},
      {"f = h' + h\nh' = f", "line 1, column 5", "'h'' is used before its assignment in line 2", "Move that line up"},
      {"f = affine(x) + affine(h)\nf2 = linear(x)\nh' = f", "line 2, column 6", "f2.* belong to line 1 already",
       "rename one of the variables"},
      {"h' = 1e40 * h", "line 1, column 6", "'1e40' is not a valid f32 number", "0.5"},
      {"h' = 1.2.3 * h", "line 1, column 6", "'1.2.3' is not a valid f32 number", "0.5"},
      {"h' = 2h", "line 1, column 7", "'h' follows the number '2'", "a product is written with *"},
      {"h' = h / (hidden - 6) * (1 / 0)", "line 1, column 28", "the numbers here give inf", "hidden is 6"},
      {"h' = dropout(h, 1)", "line 1, column 6", "the rate of dropout must be a number in [0,1)", "dropout(a, 0.1)"},
      {"h' = dropout(h, h)", "line 1, column 6", "the rate of dropout must be a number in [0,1)", ""},
      {"h' = slice(h, 4, 3)", "line 1, column 6", "slice from 4 of size 3 does not lie in [B,6]", ""},
      {"h' = slice(h, 0.5, 3)", "line 1, column 6", "the start of slice must be a whole number", "hidden and input"},
      {"h' = linear(3)", "line 1, column 6", "argument 1 of linear is a number", ""},
      {"h' = linear(param(p))", "line 1, column 6", "argument 1 of linear holds parameters alone", "x or a state"},
      {"h' = h + param(2)", "line 1, column 10", "param takes the name of a parameter", "Write param(p)"},
      {"h' = h + param(p + q)", "line 1, column 10", "param takes the name of a parameter", "Write param(p)"},
      {"h' = h\ny = 3", "line 2, column 5", "the output y is a number", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.step);
    const std::string text = refusal(cell_of(row.step));
    CHECK(mentions(text, "[text cell] cell 'mine', step " + std::string(row.at) + ": "));
    CHECK(mentions(text, row.what));
    CHECK(mentions(text, row.next));
  }
}

TEST_CASE("a wrong name or list of states is refused") {
  struct Row {
    const char* name;
    std::vector<std::string> states;
    const char* what;
  };
  const Row rows[] = {{"mine", {}, "it has no states"},
                      {"mine", {"h", "h"}, "state 'h' is there twice"},
                      {"mine", {"h", "1"}, "'1' is no name for a state"},
                      {"mine", {"x"}, "a state cannot be called 'x'"},
                      {"mine", {"tanh"}, "a state cannot be called 'tanh'"},
                      {"mine", {"d_h"}, "a state cannot be called 'd_h'"},
                      {"mine", {"p_l1"}, "a state cannot be called 'p_l1'"},
                      {"mine", std::vector<std::string>(17, "h"), "17 states"},
                      {"lstm", {"h"}, "a built-in cell has this name"},
                      {"a b", {"h"}, "this is no name for a cell"},
                      {"", {"h"}, "this is no name for a cell"},
                      {"_a", {"h"}, "this is no name for a cell"}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    TextCell cell = cell_of("h' = h", row.states);
    cell.name = row.name;
    const std::string text = refusal(cell);
    CHECK(mentions(text, row.what));
    CHECK(mentions(text, "cell '" + std::string(row.name) + "'"));
  }
}

TEST_CASE("an error of a text with a file names the place in the file") {
  TextCell cell = cell_of("h' = (1 -\n  f)", {"h"}, "2 * g");
  cell.place = {"m.toml", 3, 1};
  cell.step_place = {"m.toml", 5, 9};
  cell.y_place = {"m.toml", 8, 6};
  CHECK(mentions(refusal(cell, ErrorKind::input_file), "[m.toml:6:3] cell 'mine', step line 2, column 3: unknown"));
  cell.step = "h' = f";
  CHECK(mentions(refusal(cell, ErrorKind::input_file), "[m.toml:5:14] cell 'mine', step line 1, column 6: unknown"));
  cell.step = "h' = h";
  CHECK(mentions(refusal(cell, ErrorKind::input_file), "[m.toml:8:10] cell 'mine', y line 1, column 5: unknown"));
  cell.y = "2 * x x";
  CHECK(mentions(refusal(cell, ErrorKind::input_file), "expected the end of the expression"));
  cell.states = {};
  cell.y = "";
  CHECK(mentions(refusal(cell, ErrorKind::input_file), "[m.toml:3:1] cell 'mine': it has no states"));
  cell.step = "h' = ?";
  cell.step_place.line = 0;
  CHECK(mentions(refusal(cell, ErrorKind::input_file), "[m.toml] cell 'mine', step line 1, column 6: unexpected"));
}

TEST_CASE("what a text may cost is bounded") {
  using namespace text_cell;
  const auto deep = [](std::size_t n) { return "h' = " + repeated("(", n) + "h" + repeated(")", n); };
  CHECK(refusal(cell_of(deep(k_max_depth - 1))) == "");
  CHECK(mentions(refusal(cell_of(deep(k_max_depth))), "column 70: nested deeper than 64 levels"));
  CHECK(mentions(refusal(cell_of("h' = " + repeated("-", 10000) + "h")), "nested deeper"));
  CHECK(mentions(refusal(cell_of("h' = " + repeated("tanh(", 1000))), "nested deeper"));
  CHECK(mentions(refusal(cell_of(std::string(k_max_text + 1, ' '))), "a text of 16385 characters"));
  CHECK(mentions(refusal(cell_of("h' = h", {"h"}, std::string(k_max_text + 1, ' '))), "a text of 16385 characters"));
  CHECK(mentions(refusal(cell_of("h' = h" + repeated(" + h", 3000))), "more than 4096"));
  CHECK(refusal(cell_of("h' = h" + repeated("+h", 2000))) == "");
  CHECK(mentions(refusal(cell_of(repeated("a = 1\n", 257))), "more than 256 assignments"));
  CHECK(mentions(refusal(cell_of(std::string(65, 'a') + " = 1")), "a name of 65 characters"));
  std::string many = "h' = h";
  for (int i = 0; i < 86; ++i) many += "\na" + std::to_string(i) + "_ = affine(x, h)";
  CHECK(mentions(refusal(cell_of(many)), "line 87, column 8: more than 256 parameters"));
  std::string wide = "a0 = concat(h, h)\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "a" + std::to_string(i - 1);
    wide += "a" + std::to_string(i) + " = concat(" + before + ", " + before + ")\n";
  }
  CHECK(mentions(refusal(cell_of(wide + "h' = h")), "a row of 25165824 elements"));
  CHECK(mentions(refusal(cell_of("h' = affine(" + repeated("x, ", 16) + "h)")), "affine has 17 arguments"));
}
