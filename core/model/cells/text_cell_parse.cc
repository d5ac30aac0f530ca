// SPDX-License-Identifier: Apache-2.0
// Parser of text cells. Grammar:
//   step       = { [ target "=" expression ] [ "#" comment ] newline }     target = name | name "'"
//   expression = term { ("+" | "-") term }       term = sign { ("*" | "/") sign }      sign = { "-" } value
//   value      = number | name | name "'" | name "(" expression { "," expression } ")" | "(" expression ")"
#include <charconv>
#include <cmath>
#include <limits>

#include "core/model/cells/text_cell.h"
#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll::text_cell {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

enum class TokenKind : std::uint8_t { name, number, symbol, newline, end };
struct Token {
  TokenKind kind;
  At at;
  std::string_view text;  // a name includes its prime
  double number = 0;
};

std::string spoken(const Token& token) {
  if (token.kind == TokenKind::newline) return "the end of the line";
  if (token.kind == TokenKind::end) return "the end of the text";
  return in_quotes(token.text);
}

class Lexer {
 public:
  Lexer(const TextCell& cell, Part part, std::string_view text) : cell_(cell), text_(text), at_{part, 1, 1} {}

  // Inside parentheses a line continues: newlines are skipped.
  Token next(bool inside) {
    skip(inside);
    const At at = at_;
    if (here_ == text_.size()) return {TokenKind::end, at, {}};
    const char c = text_[here_];
    if (c == '\n') return {TokenKind::newline, at, take(1)};
    if (is_letter(c)) return name(at);
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number(at);
    if (std::string_view("+-*/(),=").find(c) != std::string_view::npos) return {TokenKind::symbol, at, take(1)};
    refuse(cell_, at, "unexpected character " + character(c), advice(c));
  }

 private:
  char peek(std::size_t ahead) const { return here_ + ahead < text_.size() ? text_[here_ + ahead] : '\0'; }

  static std::string character(char c) {
    if (c > ' ' && c < 0x7f) return in_quotes(std::string_view(&c, 1));
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    return std::string("0x") + digits[byte >> 4] + digits[byte & 15];
  }
  static std::string advice(char c) {
    if (c == '\'') return "A prime follows the name of a state at once, as in h'";
    if (c == '^') return "Write a power as a product";
    return "A line is name = expression, with names, numbers, + - * / ( ) and commas; # starts a comment";
  }

  std::string_view take(std::size_t n) {
    const std::string_view taken = text_.substr(here_, n);
    for (const char c : taken) {
      at_.column = c == '\n' ? 1 : at_.column + 1;
      at_.line += c == '\n';
    }
    here_ += n;
    return taken;
  }
  void skip(bool inside) {
    while (here_ < text_.size()) {
      const char c = text_[here_];
      if (c == '#') {
        const auto end = text_.find('\n', here_);
        take((end == std::string_view::npos ? text_.size() : end) - here_);
      } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && inside)) {
        take(1);
      } else {
        return;
      }
    }
  }
  Token name(const At& at) {
    std::size_t n = 1;
    while (is_letter(peek(n)) || is_digit(peek(n))) ++n;
    if (n > k_max_name)
      refuse(cell_, at, "a name of " + std::to_string(n) + " characters", "At most " + std::to_string(k_max_name));
    return {TokenKind::name, at, take(n + (peek(n) == '\''))};
  }
  Token number(const At& at) {
    std::size_t n = 0;
    while (is_digit(peek(n)) || peek(n) == '.') ++n;
    if ((peek(n) == 'e' || peek(n) == 'E') &&
        (is_digit(peek(n + 1)) || ((peek(n + 1) == '-' || peek(n + 1) == '+') && is_digit(peek(n + 2))))) {
      n += 2;
      while (is_digit(peek(n))) ++n;
    }
    const std::string_view text = take(n);
    if (is_letter(peek(0)))
      refuse(cell_, at_, in_quotes(text_.substr(here_, 1)) + " follows the number " + in_quotes(text),
             "Names start with a letter; a product is written with *");
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool fits = error == std::errc() && std::fabs(value) <= std::numeric_limits<float>::max();
    if (!fits || end != text.data() + text.size())
      refuse(cell_, at, in_quotes(text) + " is not a valid f32 number", "Write for example 0.5 or 1e-3");
    return {TokenKind::number, at, text, value};
  }

  const TextCell& cell_;
  std::string_view text_;
  std::size_t here_ = 0;
  At at_;
};

class Parser {
 public:
  Parser(const TextCell& cell, Part part, std::string_view text, Program& program)
      : cell_(cell), lexer_(cell, part, text), program_(program) {
    advance();
  }

  void statements() {
    while (token_.kind != TokenKind::end) {
      if (token_.kind == TokenKind::newline) advance();
      else statement();
    }
    program_.end = token_.at;
  }
  // Assigns the whole text to `target`.
  void expression_of(const std::string& target) {
    inside_ = 1;  // newlines do not end it
    while (token_.kind == TokenKind::newline) advance();
    assign(target, token_.at);
    if (token_.kind != TokenKind::end) unexpected("the end of the expression");
  }

 private:
  void advance() { token_ = lexer_.next(inside_ > 0); }
  bool at_symbol(char c) const { return token_.kind == TokenKind::symbol && token_.text[0] == c; }
  [[noreturn]] void unexpected(const std::string& wanted, const std::string& next = {}) const {
    refuse(cell_, token_.at, "expected " + wanted + ", found " + spoken(token_), next);
  }

  void statement() {
    const Token target = token_;
    if (target.kind != TokenKind::name) unexpected("a name to assign to", "A line is name = expression");
    advance();
    if (!at_symbol('=')) unexpected("= after " + std::string(target.text), "A line is name = expression");
    advance();
    assign(std::string(target.text), target.at);
    if (token_.kind != TokenKind::newline && token_.kind != TokenKind::end)
      unexpected("an operator or the end of the line", "One assignment per line; parentheses let a line go on");
  }
  void assign(const std::string& target, const At& at) {
    if (program_.statements.size() == k_max_statements)
      refuse(cell_, at, "more than " + std::to_string(k_max_statements) + " assignments", "");
    n_calls_ = 0;
    const std::size_t first = program_.expressions.size();
    const std::size_t root = expression();
    program_.statements.push_back({target, at, first, root});
  }

  std::size_t add(Expression expression) {
    if (program_.expressions.size() == k_max_expressions)
      refuse(cell_, expression.at, "more than " + std::to_string(k_max_expressions) + " names, numbers and operations",
             "");
    program_.expressions.push_back(std::move(expression));
    return program_.expressions.size() - 1;
  }
  std::size_t operation(Kind kind, const At& at, std::size_t left, std::size_t right) {
    return add({.kind = kind, .at = at, .arguments = {left, right}});
  }

  std::size_t expression() {
    std::size_t left = term();
    while (at_symbol('+') || at_symbol('-')) {
      const Token sign = token_;
      advance();
      left = operation(sign.text[0] == '+' ? Kind::add : Kind::subtract, sign.at, left, term());
    }
    return left;
  }
  std::size_t term() {
    std::size_t left = value();
    while (at_symbol('*') || at_symbol('/')) {
      const Token sign = token_;
      advance();
      left = operation(sign.text[0] == '*' ? Kind::multiply : Kind::divide, sign.at, left, value());
    }
    return left;
  }
  // Every recursion passes through this depth check.
  std::size_t value() {
    if (depth_ == k_max_depth)
      refuse(cell_, token_.at, "nested deeper than " + std::to_string(k_max_depth) + " levels",
             "Give a part a name on a line of its own");
    ++depth_;
    const std::size_t result = inner_value();
    --depth_;
    return result;
  }
  std::size_t inner_value() {
    const Token token = token_;
    if (token.kind == TokenKind::number) {
      advance();
      return add({.kind = Kind::number, .at = token.at, .number = token.number});
    }
    if (token.kind == TokenKind::name) {
      advance();
      if (at_symbol('(')) return call(token);
      return add({.kind = Kind::name, .at = token.at, .name = std::string(token.text)});
    }
    if (at_symbol('-')) {
      advance();
      return add({.kind = Kind::negate, .at = token.at, .arguments = {value()}});
    }
    if (!at_symbol('(')) unexpected("a number, a name or (");
    open();
    const std::size_t result = expression();
    close(token.at);
    return result;
  }
  std::size_t call(const Token& function) {
    Expression result{.kind = Kind::call, .at = function.at, .name = std::string(function.text), .owner = n_calls_++};
    const At at = token_.at;
    open();
    if (token_.kind == TokenKind::name) result.word = token_.text;
    if (!at_symbol(')')) result.arguments.push_back(expression());
    const bool bare = result.arguments.size() == 1 && program_.expressions.back().kind == Kind::name;
    if (!bare) result.word.clear();
    while (at_symbol(',')) {
      advance();
      result.arguments.push_back(expression());
    }
    close(at);
    return add(std::move(result));
  }
  void open() {
    ++inside_;
    advance();
  }
  void close(const At& opened) {
    if (token_.kind == TokenKind::end)
      refuse(cell_, opened, "this parenthesis is not closed", "Add ) at the end of its expression");
    if (!at_symbol(')'))
      unexpected(", or )", "The parenthesis of line " + std::to_string(opened.line) + ", column " +
                               std::to_string(opened.column) + " is open");
    --inside_;
    advance();
  }

  const TextCell& cell_;
  Lexer lexer_;
  Program& program_;
  Token token_{TokenKind::end, {}, {}};
  int depth_ = 0, inside_ = 0, n_calls_ = 0;
};

void check_size(const TextCell& cell, Part part, const std::string& text) {
  if (text.size() <= k_max_text) return;
  refuse(cell, {part, 1, 1}, "a text of " + std::to_string(text.size()) + " characters",
         "At most " + std::to_string(k_max_text));
}

}  // namespace

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > k_max_name || !is_letter(text[0])) return false;
  for (const char c : text)
    if (!is_letter(c) && !is_digit(c)) return false;
  return true;
}

void refuse(const TextCell& cell, const At& at, const std::string& what, const std::string& next) {
  const TextPlace& start = at.part == Part::step ? cell.step_place : at.part == Part::y ? cell.y_place : cell.place;
  std::string where = "cell " + in_quotes(cell.name);
  if (at.part != Part::cell)
    where += std::string(at.part == Part::step ? ", step line " : ", y line ") + std::to_string(at.line) +
             ", column " + std::to_string(at.column);
  std::string who = start.file.empty() ? "text cell" : start.file;
  if (!start.file.empty() && start.line > 0)
    who += ":" + std::to_string(start.line + at.line - 1) + ":" +
           std::to_string(at.column + (at.line == 1 ? start.column - 1 : 0));
  throw Error(start.file.empty() ? ErrorKind::usage : ErrorKind::input_file, who, where + ": " + what, next);
}

Program parse(const TextCell& cell) {
  check_size(cell, Part::step, cell.step);
  check_size(cell, Part::y, cell.y);
  Program program;
  Parser(cell, Part::step, cell.step, program).statements();
  if (!cell.y.empty()) Parser(cell, Part::y, cell.y, program).expression_of("y");
  return program;
}

}  // namespace unroll::text_cell
