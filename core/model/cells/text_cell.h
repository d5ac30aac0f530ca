// SPDX-License-Identifier: Apache-2.0
// The stages of a text cell: text -> syntax (text_cell_parse.cc) -> checked names (text_cell_names.cc) -> values of a
// body graph (text_cell.cc). The first stages do not know sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/model/model.h"

namespace unroll::text_cell {

// Limits for untrusted text.
inline constexpr std::size_t k_max_text = 16384;         // characters of step and of y
inline constexpr int k_max_depth = 64;                   // nested parentheses, calls and signs
inline constexpr std::size_t k_max_statements = 256;
inline constexpr std::size_t k_max_expressions = 4096;   // names, numbers, operators and calls
inline constexpr std::size_t k_max_states = 16;
inline constexpr std::size_t k_max_name = 64;            // characters
inline constexpr std::size_t k_max_parameters = 256;     // per layer and direction
inline constexpr std::int64_t k_max_width = 1 << 24;     // elements per row
inline constexpr std::int64_t k_max_window = 1024;       // steps

enum class Part : std::uint8_t { cell, step, y };
struct At {
  Part part = Part::cell;
  int line = 1;
  int column = 1;
};

enum class Function : std::uint8_t {
  sigmoid, tanh, relu, silu, softplus, exp, log, sqrt, abs, min, max,
  softmax, concat, slice, window, dropout, param, affine, linear, layer_norm,
};
struct FunctionRow {
  std::string_view name;
  Function function;
  int least, most;         // number of arguments
  bool owns;               // creates parameters named after the assigned variable
  std::string_view usage;  // as in the documentation
};
std::span<const FunctionRow> function_table();
const FunctionRow* find_function(std::string_view name);

enum class Kind : std::uint8_t { number, name, negate, add, subtract, multiply, divide, call };
struct Expression {
  Kind kind;
  At at;
  double number = 0;
  std::string name = {};                    // name: "f" or "h'"; call: the function
  const FunctionRow* function = nullptr;    // call, after check_names
  std::vector<std::size_t> arguments = {};  // indices of earlier expressions
  std::string word = {};                    // call: a bare name as first argument, such as the p of param
  int owner = 0;                            // call: its index among the calls of the statement, in reading order
  std::string owned = {};                   // call with parameters: the prefix of their names
};
struct Statement {
  std::string target;  // "f" or "h'"
  At at;
  std::size_t first, root;  // expressions [first, root], arguments before their use
};
struct Program {
  std::vector<Expression> expressions;
  std::vector<Statement> statements;
  At end;  // end of the step
  std::int64_t window = 1;  // the longest of all calls of window, after check_names
};

Program parse(const TextCell& cell);
// Checks all names; fills Expression::function and ::owned, and Program::window.
void check_names(const TextCell& cell, Program& program);

[[noreturn]] void refuse(const TextCell& cell, const At& at, const std::string& what, const std::string& next);
bool is_identifier(std::string_view text);

}  // namespace unroll::text_cell
