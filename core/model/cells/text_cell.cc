// SPDX-License-Identifier: Apache-2.0
// Evaluates a checked text cell as a step function. Each expression becomes a number or a value of the body graph.
// Widths are known here; B is the batch.
#include "core/model/cells/text_cell.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "core/support/text/exact_text.h"
#include "unroll/support/error.h"

namespace unroll {

namespace text_cell {

namespace {

struct Elementwise {
  Function function;
  Value (*of_value)(Value);
  double (*of_number)(double);
};
constexpr Elementwise k_elementwise[] = {
    {Function::sigmoid, sigmoid, [](double a) { return 1 / (1 + std::exp(-a)); }},
    {Function::tanh, tanh, [](double a) { return std::tanh(a); }},
    {Function::relu, relu, [](double a) { return std::fmax(a, 0); }},
    {Function::silu, silu, [](double a) { return a / (1 + std::exp(-a)); }},
    {Function::softplus, softplus, [](double a) { return std::fmax(a, 0) + std::log1p(std::exp(-std::fabs(a))); }},
    {Function::exp, exp, [](double a) { return std::exp(a); }},
    {Function::log, log, [](double a) { return std::log(a); }},
    {Function::sqrt, sqrt, [](double a) { return std::sqrt(a); }},
    {Function::abs, abs, [](double a) { return std::fabs(a); }},
};

// The result of an expression: a value [B,width] or [width], or a number before its conversion to a tensor.
struct Operand {
  Value value;
  double number = 0;

  bool is_number() const { return !value; }
  std::int64_t width() const { return value.shape()[value.rank() - 1]; }
  std::string text() const {
    if (is_number()) return "a number";
    return (value.rank() == 2 ? "[B," : "[") + std::to_string(width()) + "]";
  }
};

class StepBuilder {
 public:
  StepBuilder(const TextCell& cell, const Program& program, Step& step)
      : cell_(cell), program_(program), step_(step), results_(program.expressions.size()) {}

  CellStep run() {
    names_["x"].value = step_.x();
    names_["hidden"].number = static_cast<double>(step_.hidden());
    names_["input"].number = static_cast<double>(step_.x().shape()[1]);
    for (std::size_t i = 0; i < cell_.states.size(); ++i)
      names_[cell_.states[i]].value = step_.state(static_cast<int>(i));
    for (const Statement& s : program_.statements) {
      for (std::size_t i = s.first; i <= s.root; ++i) results_[i] = evaluate(program_.expressions[i]);
      names_[s.target] = s.target.back() == '\'' ? state_of(s) : results_[s.root];
    }
    CellStep next;
    for (const std::string& state : cell_.states) next.states.push_back(names_[state + "'"].value);
    if (names_.contains("y")) next.y = output();
    return next;
  }

 private:
  [[noreturn]] void refuse_at(const Expression& e, const std::string& what, const std::string& next) const {
    refuse(cell_, e.at, what,
           next + (next.empty() ? "" : "; ") + "hidden is " + std::to_string(step_.hidden()) + ", input " +
               std::to_string(step_.x().shape()[1]));
  }

  Operand evaluate(const Expression& e) {
    switch (e.kind) {
      case Kind::number: return {{}, e.number};
      case Kind::name: {
        const auto found = names_.find(e.name);
        return found == names_.end() ? Operand{} : found->second;  // a parameter name is no variable
      }
      case Kind::negate: {
        const Operand& a = argument(e, 0);
        return a.is_number() ? Operand{{}, -a.number} : Operand{neg(a.value)};
      }
      case Kind::call: return call(e);
      default: return binary(e, argument(e, 0), argument(e, 1));
    }
  }
  const Operand& argument(const Expression& e, std::size_t i) const { return results_[e.arguments[i]]; }

  Operand finite(const Expression& e, double number) const {
    if (!(std::fabs(number) <= std::numeric_limits<float>::max()))
      refuse_at(e, "the numbers here give " + exact_text(number) + ", which f32 does not hold", "");
    return {{}, number};
  }

  Operand binary(const Expression& e, const Operand& a, const Operand& b) const {
    if (a.is_number() && b.is_number()) return finite(e, folded(e, a.number, b.number));
    if (!a.is_number() && !b.is_number() && a.width() != b.width() && a.width() != 1 && b.width() != 1)
      refuse_at(e, "widths do not agree: " + a.text() + " and " + b.text(),
                "linear(...) brings any width to that of a state, slice and concat change it");
    const Value left = a.is_number() ? scalar_like(b.value, a.number) : a.value;
    const Value right = b.is_number() ? scalar_like(a.value, b.number) : b.value;
    if (e.kind == Kind::add) return {left + right};
    if (e.kind == Kind::subtract) return {left - right};
    if (e.kind == Kind::multiply) return {left * right};
    if (e.kind == Kind::divide) return {left / right};
    return {e.function->function == Function::min ? minimum(left, right) : maximum(left, right)};
  }
  static double folded(const Expression& e, double a, double b) {
    if (e.kind == Kind::add) return a + b;
    if (e.kind == Kind::subtract) return a - b;
    if (e.kind == Kind::multiply) return a * b;
    if (e.kind == Kind::divide) return a / b;
    return e.function->function == Function::min ? std::fmin(a, b) : std::fmax(a, b);
  }

  Operand call(const Expression& e) {
    for (const Elementwise& row : k_elementwise) {
      if (row.function != e.function->function) continue;
      const Operand& a = argument(e, 0);
      return a.is_number() ? finite(e, row.of_number(a.number)) : Operand{row.of_value(a.value)};
    }
    switch (e.function->function) {
      case Function::min:
      case Function::max: return binary(e, argument(e, 0), argument(e, 1));
      case Function::softmax: return {softmax(vector(e, 0))};
      case Function::layer_norm: return {step_.layer_norm(e.owned, vector(e, 0))};
      case Function::concat: return joined(e);
      case Function::slice: return part(e);
      case Function::window: return {step_.window(whole(e, 1, "number of steps"))};
      case Function::dropout: return dropped(e);
      case Function::param: return parameter(e);
      default: return product(e);
    }
  }

  Value vector(const Expression& e, std::size_t i) const {
    const Operand& a = argument(e, i);
    if (a.is_number())
      refuse_at(e, "argument " + std::to_string(i + 1) + " of " + e.name + " is a number and must be a vector", "");
    return a.value;
  }
  std::int64_t whole(const Expression& e, std::size_t i, const char* what) const {
    const Operand& a = argument(e, i);
    if (!a.is_number() || a.number != std::floor(a.number) || std::fabs(a.number) > k_max_width)
      refuse_at(e, std::string("the ") + what + " of " + e.name + " must be a whole number; it is " +
                       (a.is_number() ? exact_text(a.number) : a.text()),
                "hidden and input stand for their sizes, as in slice(a, 0, hidden)");
    return static_cast<std::int64_t>(a.number);
  }
  Value rows(Value v) const { return v.rank() == 2 ? v : rows(v, v.shape()[v.rank() - 1]); }
  Value rows(Value v, std::int64_t width) const { return broadcast(v, {step_.x().shape()[0], width}); }

  Operand joined(const Expression& e) const {
    std::vector<Value> parts;
    std::int64_t width = 0;
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      parts.push_back(rows(vector(e, i)));
      width += parts.back().shape()[1];
    }
    if (width > k_max_width)
      refuse_at(e, "a row of " + std::to_string(width) + " elements", "At most " + std::to_string(k_max_width));
    return {concat(parts, 1)};
  }
  Operand part(const Expression& e) const {
    const Value a = vector(e, 0);
    const std::int64_t start = whole(e, 1, "start"), size = whole(e, 2, "size"), width = argument(e, 0).width();
    if (start < 0 || size < 1 || start + size > width)
      refuse_at(e, "slice from " + std::to_string(start) + " of size " + std::to_string(size) +
                       " does not lie in " + argument(e, 0).text(),
                "Write slice(a, start, size)");
    return {slice(a, -1, start, size)};
  }
  Operand dropped(const Expression& e) {
    const Operand& rate = argument(e, 1);
    if (!rate.is_number() || !(rate.number >= 0 && rate.number < 1))
      refuse_at(e, "the rate of dropout must be a number in [0,1); it is " +
                       (rate.is_number() ? exact_text(rate.number) : rate.text()),
                "Write for example dropout(a, 0.1)");
    return {step_.dropout(vector(e, 0), rate.number)};
  }
  Operand parameter(const Expression& e) {
    const auto start = Initializer::uniform(1 / std::sqrt(static_cast<double>(step_.hidden())));
    return {step_.parameter(e.word, {step_.hidden()}, start)};
  }
  Operand product(const Expression& e) {
    std::vector<Value> arguments;
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      arguments.push_back(vector(e, i));
      if (arguments.back().rank() != 2)
        refuse_at(e, "argument " + std::to_string(i + 1) + " of " + e.name + " holds parameters alone",
                  "Give it what depends on x or a state");
    }
    return {step_.affine(e.owned, arguments, step_.hidden(), e.function->function == Function::affine)};
  }

  // Numbers and vectors [H] are broadcast to all rows.
  Operand state_of(const Statement& s) const {
    const Operand& a = results_[s.root];
    const std::int64_t hidden = step_.hidden();
    if (a.is_number()) return {rows(scalar_like(step_.x(), a.number), hidden)};
    if (a.width() != hidden)
      refuse_at(program_.expressions[s.root],
                s.target + " is " + a.text() + " and a state is [B," + std::to_string(hidden) + "]",
                "linear(...) brings any width to that of a state");
    return {rows(a.value)};
  }
  Value output() const {
    const Statement* given = nullptr;
    for (const Statement& s : program_.statements) given = s.target == "y" ? &s : given;
    const Operand& y = results_[given->root];
    if (y.is_number()) refuse_at(program_.expressions[given->root], "the output y is a number", "Make it a vector");
    return rows(y.value);
  }

  const TextCell& cell_;
  const Program& program_;
  Step& step_;
  std::vector<Operand> results_;
  std::map<std::string, Operand, std::less<>> names_;
};

}  // namespace
}  // namespace text_cell

CellFactory make_text_cell(const TextCell& cell) {
  struct Ready {
    TextCell cell;
    text_cell::Program program;
  };
  auto ready = std::make_shared<Ready>(Ready{cell, text_cell::parse(cell)});
  text_cell::check_names(ready->cell, ready->program);
  return [ready = std::shared_ptr<const Ready>(std::move(ready))](std::int64_t hidden) {
    return Cell{std::vector<std::int64_t>(ready->cell.states.size(), hidden),
                [ready](Step& step) { return text_cell::StepBuilder(ready->cell, ready->program, step).run(); },
                ready->program.window};
  };
}

}  // namespace unroll
