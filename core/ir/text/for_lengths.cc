// SPDX-License-Identifier: Apache-2.0
// Graph text for any number of steps T. Two printed graphs for different T have the same words, except for integers
// that depend on T. Such an integer becomes an expression: <T>, <3*T/2-1>, or <1/T> for the factor of a mean.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>

#include "core/support/text/exact_text.h"
#include "unroll/ir/graph.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_who = "graph text";
constexpr std::int64_t k_largest = Shape::k_max_dimension;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::unsupported, k_who, what, "The graph must be the same for every number of steps");
}

// Strings are words of their own, with their quotes.
std::string_view next_word(std::string_view text) {
  if (text.empty()) return text;
  std::size_t n = 1;
  if (text[0] == '"') {
    while (n < text.size() && text[n] != '"') n += text[n] == '\\' ? 2 : 1;
    return text.substr(0, n + 1);
  }
  const auto in_word = [](char c) {
    return std::string_view("+-.#_%").find(c) != std::string_view::npos || std::isalnum(static_cast<unsigned char>(c));
  };
  if (in_word(text[0]))
    while (n < text.size() && in_word(text[n])) ++n;
  return text.substr(0, n);
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc() && stop == end;
}

std::string signed_text(std::int64_t value) { return (value < 0 ? "" : "+") + std::to_string(value); }

// The expression that gives these numbers for these T.
std::string expression(std::string_view one, std::int64_t T_one, std::string_view two, std::int64_t T_two) {
  std::int64_t a = 0, b = 0;
  if (parse_whole(one, a) && parse_whole(two, b)) {
    const std::int64_t common = std::gcd(b - a, T_two - T_one), up = (b - a) / common, down = (T_two - T_one) / common;
    if (T_one % down != 0) refuse("a size does not grow evenly with the number of steps");
    const std::int64_t rest = a - T_one / down * up;
    return "<" + (up == 1 ? "" : std::to_string(up) + "*") + "T" + (down == 1 ? "" : "/" + std::to_string(down)) +
           (rest == 0 ? "" : signed_text(rest)) + ">";
  }
  double p = 0, q = 0;
  if (parse_whole(one, p) && parse_whole(two, q)) {
    const double times = p * static_cast<double>(T_one), other = q * static_cast<double>(T_two);
    if (std::fabs(times - other) <= 1e-6 * std::fabs(times) && std::round(times) != 0 &&
        std::fabs(times - std::round(times)) <= 1e-6 * std::fabs(times))
      return "<" + exact_text(std::round(times)) + "/T>";
  }
  refuse("'" + std::string(one) + "' depends on the number of steps by more than a size");
}

// Reads the parts of an expression.
class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text), rest_(text) {}

  std::string at(std::int64_t T) {
    std::int64_t up = 1, down = 1, more = 0;
    if (rest_.empty() || rest_[0] != 'T') {
      up = integer();
      if (take("/T")) return end(), exact_text(static_cast<double>(up) / static_cast<double>(T));
      if (!take("*")) fail();
    }
    if (!take("T")) fail();
    if (take("/")) down = integer();
    if (!rest_.empty()) more = integer();
    end();
    if (down < 1 || std::abs(up) > k_largest / std::max<std::int64_t>(T, 1)) fail();
    if (up * T % down != 0)
      throw Error(ErrorKind::shape, k_who,
                  "the number of steps must be a multiple of " + std::to_string(down) + "; got " + std::to_string(T));
    return std::to_string(up * T / down + more);
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::input_file, k_who, "cannot read the size <" + std::string(text_) + ">");
  }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::int64_t integer() {
    take("+");
    std::int64_t value = 0;
    const auto [stop, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (failure != std::errc() || std::abs(value) > k_largest) fail();
    rest_.remove_prefix(stop - rest_.data());
    return value;
  }
  void end() const {
    if (!rest_.empty()) fail();
  }

  std::string_view text_, rest_;
};

}  // namespace

std::string print_for_lengths(const Graph& one, std::int64_t T_one, const Graph& two, std::int64_t T_two) {
  if (T_one < 1 || T_two <= T_one) throw Error(ErrorKind::usage, k_who, "the second graph must have more steps");
  const std::string first = print_graph(one), second = print_graph(two);
  std::string_view a = first, b = second;
  std::string text;
  while (!a.empty() || !b.empty()) {
    const std::string_view word = next_word(a), other = next_word(b);
    if (word.empty() || other.empty()) refuse("the number of steps determines the nodes of the graph");
    text += word == other ? std::string(word) : expression(word, T_one, other, T_two);
    a.remove_prefix(word.size()), b.remove_prefix(other.size());
  }
  return text;
}

std::shared_ptr<Graph> parse_for_length(std::string_view text, std::int64_t T) {
  if (T < 1 || T > k_largest)
    throw Error(ErrorKind::usage, k_who, "the number of steps must be 1 to 2^40; got " + std::to_string(T));
  std::string at_length;
  at_length.reserve(text.size());
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    text.remove_prefix(word.size());
    const std::size_t end = word == "<" ? text.find('>') : std::string_view::npos;
    if (end == std::string_view::npos) {
      at_length += word;
      continue;
    }
    at_length += Expression(text.substr(0, end)).at(T);
    text.remove_prefix(end + 1);
  }
  return parse_graph(at_length);
}

}  // namespace unroll
