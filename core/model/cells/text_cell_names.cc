// SPDX-License-Identifier: Apache-2.0
// Name resolution of a text cell: every name is known and assigned once, every state gets its next value, and every
// call with parameters has their names.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/model/cells/text_cell.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/nearest_name.h"

namespace unroll::text_cell {

namespace {

constexpr int k_any = 16;
constexpr FunctionRow k_functions[] = {
    {"sigmoid", Function::sigmoid, 1, 1, false, "sigmoid(a)"},
    {"tanh", Function::tanh, 1, 1, false, "tanh(a)"},
    {"relu", Function::relu, 1, 1, false, "relu(a)"},
    {"silu", Function::silu, 1, 1, false, "silu(a)"},
    {"softplus", Function::softplus, 1, 1, false, "softplus(a)"},
    {"exp", Function::exp, 1, 1, false, "exp(a)"},
    {"log", Function::log, 1, 1, false, "log(a)"},
    {"sqrt", Function::sqrt, 1, 1, false, "sqrt(a)"},
    {"abs", Function::abs, 1, 1, false, "abs(a)"},
    {"min", Function::min, 2, 2, false, "min(a, b)"},
    {"max", Function::max, 2, 2, false, "max(a, b)"},
    {"softmax", Function::softmax, 1, 1, false, "softmax(a)"},
    {"concat", Function::concat, 1, k_any, false, "concat(a, b, ...)"},
    {"slice", Function::slice, 3, 3, false, "slice(a, start, size)"},
    {"window", Function::window, 2, 2, false, "window(x, 4)"},
    {"dropout", Function::dropout, 2, 2, false, "dropout(a, rate)"},
    {"param", Function::param, 1, 1, false, "param(p)"},
    {"affine", Function::affine, 1, k_any, true, "affine(a, b, ...)"},
    {"linear", Function::linear, 1, k_any, true, "linear(a, b, ...)"},
    {"layer_norm", Function::layer_norm, 1, 1, true, "layer_norm(a)"},
};

struct Constant {
  std::string_view name, meaning;
};
constexpr Constant k_constants[] = {
    {"x", "the input of the step"}, {"hidden", "the width of a state"}, {"input", "the width of x"}};

std::string_view meaning_of(std::string_view name) {
  for (const Constant& row : k_constants)
    if (row.name == name) return row.meaning;
  return {};
}

std::string question(std::string_view name, const std::vector<std::string>& known) {
  const std::string_view near = nearest_name(name, std::vector<std::string_view>(known.begin(), known.end()));
  return near.empty() ? "" : "Did you mean " + std::string(near) + "? ";
}
std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// True for names of a layer's tensors: <state>0, <state>n, d_<state>n and <param>_l0.
bool clashes_with_tensors(std::string_view state) {
  if (state == "y" || state.starts_with("d_")) return true;
  while (!state.empty() && state.back() >= '0' && state.back() <= '9') state.remove_suffix(1);
  return state.ends_with("_l");
}

class Checker {
 public:
  Checker(const TextCell& cell, Program& program) : cell_(cell), program_(program) {}

  void run() {
    check_cell();
    check_states();
    for (const Statement& statement : program_.statements) later_.emplace(statement.target, statement.at);
    for (const Statement& statement : program_.statements) {
      check_expressions(statement);
      give(statement);
    }
    for (const std::string& state : cell_.states)
      if (!given_.contains(state + "'"))
        refuse(cell_, {Part::step, program_.end.line, program_.end.column},
               "state " + in_quotes(state) + " has no next value", "Add a line " + state + "' = ...");
  }

 private:
  [[noreturn]] void refuse_cell(const std::string& what, const std::string& next) const {
    refuse(cell_, {}, what, next);
  }

  void check_cell() const {
    const std::string& name = cell_.name;
    std::string letters = name;
    std::replace(letters.begin(), letters.end(), '-', '_');
    if (!is_identifier(letters) || name[0] == '-' || name[0] == '_')
      refuse_cell("this is no name for a cell", "Use letters, digits, _ and -, a letter first, at most " +
                                                    std::to_string(k_max_name) + " of them");
    const std::vector<std::string> taken = built_in_cell_names();
    if (std::find(taken.begin(), taken.end(), name) != taken.end())
      refuse_cell("a built-in cell has this name", "Choose one besides " + joined(taken));
  }

  void check_states() {
    const std::vector<std::string>& states = cell_.states;
    if (states.empty()) refuse_cell("it has no states", "Name them, as in states = [\"h\"]");
    if (states.size() > k_max_states)
      refuse_cell(std::to_string(states.size()) + " states", "At most " + std::to_string(k_max_states));
    for (const std::string& state : states) {
      if (!is_identifier(state))
        refuse_cell(in_quotes(state) + " is no name for a state", "Use letters, digits and _, a letter first");
      if (!meaning_of(state).empty() || find_function(state) || clashes_with_tensors(state))
        refuse_cell("a state cannot be called " + in_quotes(state),
                    "Neither x, y, hidden, input nor a function, nor d_... nor ..._l0: tensors have such names");
      if (!names_.insert(state).second) refuse_cell("state " + in_quotes(state) + " is there twice", "Remove one");
    }
  }

  void check_expressions(const Statement& statement) {
    const std::string owner = statement.target.substr(0, statement.target.find('\''));
    std::vector<Expression*> owners;
    std::set<std::size_t> words;  // the argument of param is a parameter name
    for (std::size_t i = statement.first; i <= statement.root; ++i) {
      Expression& e = program_.expressions[i];
      if (e.kind != Kind::call) continue;
      check_call(e);
      if (e.function->owns) owners.push_back(&e);
      if (e.function->function == Function::param) words.insert(e.arguments[0]);
    }
    for (std::size_t i = statement.first; i <= statement.root; ++i)
      if (program_.expressions[i].kind == Kind::name && !words.contains(i)) check_name(program_.expressions[i]);
    std::sort(owners.begin(), owners.end(), [](auto* a, auto* b) { return a->owner < b->owner; });
    for (std::size_t k = 0; k < owners.size(); ++k) own(*owners[k], owner, k);
  }

  void own(Expression& e, const std::string& owner, std::size_t k) {
    e.owned = k == 0 ? owner : owner + std::to_string(k + 1);
    const auto [at, is_new] = owned_.emplace(e.owned, e.at.line);
    if (!is_new)
      refuse(cell_, e.at, "parameters " + e.owned + ".* belong to line " + std::to_string(at->second) + " already",
             "Parameters are named after the variable and numbered within a line (" + owner + ", " + owner +
                 "2, ...): rename one of the variables");
    // plus bias or norm parameters
    count_parameters(e, e.arguments.size() + (e.function->function == Function::linear ? 0 : 1));
  }
  void count_parameters(const Expression& e, std::size_t n) {
    n_parameters_ += n;
    if (n_parameters_ > k_max_parameters)
      refuse(cell_, e.at, "more than " + std::to_string(k_max_parameters) + " parameters", "");
  }

  void check_call(Expression& e) {
    e.function = find_function(e.name);
    if (!e.function) {
      if (names_.contains(e.name) || !meaning_of(e.name).empty())
        refuse(cell_, e.at, in_quotes(e.name) + " is not a function", "Write a product with *");
      std::vector<std::string> known;
      for (const FunctionRow& row : k_functions) known.emplace_back(row.name);
      refuse(cell_, e.at, "unknown function " + in_quotes(e.name), question(e.name, known) + "Known: " + joined(known));
    }
    const auto n = static_cast<int>(e.arguments.size());
    if (n < e.function->least || n > e.function->most)
      refuse(cell_, e.at,
             e.name + " has " + counted(n, "argument") + " and takes " + range(e),
             "Write " + std::string(e.function->usage));
    if (e.function->function == Function::window) check_window(e);
    if (e.function->function != Function::param) return;
    if (!is_identifier(e.word) || find_function(e.word))
      refuse(cell_, e.at, "param takes the name of a parameter", "Write param(p); its tensor is p_l0 [hidden]");
    if (parameters_.insert(e.word).second) count_parameters(e, 1);
  }
  // The number of steps must be known before sizes are.
  void check_window(const Expression& e) {
    const Expression &of = program_.expressions[e.arguments[0]], &steps = program_.expressions[e.arguments[1]];
    const bool is_x = of.kind == Kind::name && of.name == "x";
    const bool is_count = steps.kind == Kind::number && steps.number == std::floor(steps.number) && steps.number >= 1 &&
                          steps.number <= static_cast<double>(k_max_window);
    if (!is_x || !is_count)
      refuse(cell_, e.at, "window takes x and a number of steps from 1 to " + std::to_string(k_max_window),
             "Write window(x, 4): the inputs of the last 4 steps, oldest first, one behind the other");
    program_.window = std::max(program_.window, static_cast<std::int64_t>(steps.number));
  }
  static std::string range(const Expression& e) {
    const int least = e.function->least, most = e.function->most;
    return std::to_string(least) + (most == least ? "" : " to " + std::to_string(most));
  }

  void check_name(const Expression& e) const {
    const std::string& name = e.name;
    if (names_.contains(name) || !meaning_of(name).empty()) return;
    const auto later = later_.find(name);
    if (later != later_.end())
      refuse(cell_, e.at,
             in_quotes(name) + " is used before its assignment in line " + std::to_string(later->second.line),
             "Move that line up");
    if (const FunctionRow* function = find_function(name))
      refuse(cell_, e.at, in_quotes(name) + " is a function", "Write " + std::string(function->usage));
    std::vector<std::string> known(names_.begin(), names_.end());
    for (const Constant& row : k_constants) known.emplace_back(row.name);
    refuse(cell_, e.at, "unknown name " + in_quotes(name),
           question(name, known) + "Known here: " + joined(known) + "; a vector of parameters is param(" +
               name.substr(0, name.find('\'')) + "), a matrix comes with linear(...)");
  }

  void give(const Statement& s) {
    const std::string& name = s.target;
    if (name.back() == '\'') {
      const std::string state = name.substr(0, name.size() - 1);
      if (std::find(cell_.states.begin(), cell_.states.end(), state) == cell_.states.end())
        refuse(cell_, s.at, "unknown state " + in_quotes(state),
               question(state, cell_.states) + "States: " + joined(cell_.states));
    } else if (std::find(cell_.states.begin(), cell_.states.end(), name) != cell_.states.end()) {
      refuse(cell_, s.at, in_quotes(name) + " is a state, which keeps its value during a step",
             "Write " + name + "' = ... for its next value");
    } else if (!meaning_of(name).empty()) {
      refuse(cell_, s.at, in_quotes(name) + " is " + std::string(meaning_of(name)), "Choose another name");
    } else if (find_function(name)) {
      refuse(cell_, s.at, in_quotes(name) + " is a function", "Choose another name");
    }
    const auto [first, is_new] = given_.emplace(name, s.at);
    if (!is_new)
      refuse(cell_, s.at, in_quotes(name) + " is assigned twice: first in line " + std::to_string(first->second.line),
             "Assign each name once");
    names_.insert(name);
  }

  const TextCell& cell_;
  Program& program_;
  std::set<std::string> names_;            // states, and variables assigned so far
  std::map<std::string, At> given_;        // assigned by the lines so far
  std::map<std::string, At> later_;        // assigned by any line
  std::map<std::string, int> owned_;       // line by prefix
  std::set<std::string> parameters_;       // names used by param
  std::size_t n_parameters_ = 0;
};

}  // namespace

std::span<const FunctionRow> function_table() { return k_functions; }

const FunctionRow* find_function(std::string_view name) {
  for (const FunctionRow& row : k_functions)
    if (row.name == name) return &row;
  return nullptr;
}

void check_names(const TextCell& cell, Program& program) { Checker(cell, program).run(); }

}  // namespace unroll::text_cell
