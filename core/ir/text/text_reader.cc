// SPDX-License-Identifier: Apache-2.0
#include "core/ir/text/text_reader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/support/formats.h"
#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }
bool is_number(char c) { return is_word(c) || c == '+' || c == '-' || c == '.' || c == '#'; }

template <class T>
bool read_whole(std::string_view token, T& value) {
  const auto r = std::from_chars(token.data(), token.data() + token.size(), value);
  return r.ec == std::errc() && r.ptr == token.data() + token.size();
}

// "#7fc00001" are the bits of a NaN with a payload.
template <class T>
bool read_float(std::string_view token, T& value) {
  if (token.front() != '#') return read_whole(token, value);
  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> bits = 0;
  const auto r = std::from_chars(token.data() + 1, token.data() + token.size(), bits, 16);
  value = std::bit_cast<T>(bits);
  return r.ec == std::errc() && r.ptr == token.data() + token.size();
}

int hex_digit(char c) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  const auto at = k_digits.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

void TextReader::fail(const std::string& what) const {
  const std::string_view before = text_.substr(0, token_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw Error(ErrorKind::input_file, "graph text",
              "line " + std::to_string(line) + ", column " + std::to_string(token_ - line_start + 1) + ": " + what);
}

void TextReader::skip() {
  while (at_ < text_.size()) {
    if (is_space(text_[at_])) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      break;
    }
  }
  token_ = at_;
}

bool TextReader::at_end() {
  skip();
  return at_ == text_.size();
}

bool TextReader::next_is(char c) {
  skip();
  return at_ < text_.size() && text_[at_] == c;
}

bool TextReader::accept(std::string_view token) {
  skip();
  if (text_.substr(at_, token.size()) != token) return false;
  const std::size_t end = at_ + token.size();
  if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!accept(token)) fail("expected '" + std::string(token) + "'");
}

std::string_view TextReader::word() {
  skip();
  std::size_t end = at_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  if (end == at_ || is_digit(text_[at_])) fail("expected a word");
  return text_.substr(std::exchange(at_, end), end - token_);
}

std::string_view TextReader::number() {
  skip();
  std::size_t end = at_;
  while (end < text_.size() && is_number(text_[end])) ++end;
  if (end == at_) fail("expected a number");
  return text_.substr(std::exchange(at_, end), end - token_);
}

std::int64_t TextReader::integer() {
  const std::string_view token = number();
  std::int64_t value = 0;
  if (!read_whole(token, value)) fail(in_quotes(token) + " is no 64-bit integer");
  return value;
}

std::string TextReader::string() {
  expect("\"");
  std::string s;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\n') fail("the string does not end on its line");
    if (c == '\\') {
      c = at_ < text_.size() ? text_[at_++] : '\0';
      if (c == 'x') {
        const bool both = at_ + 1 < text_.size();
        const int high = both ? hex_digit(text_[at_]) : -1, low = both ? hex_digit(text_[at_ + 1]) : -1;
        if (high < 0 || low < 0) fail("\\x needs two digits of 0-9a-f");
        at_ += 2;
        c = static_cast<char>(high * 16 + low);
      } else if (c != '"' && c != '\\') {
        fail("unknown escape in a string; known: \\\" \\\\ \\xHH");
      }
    }
    s += c;
  }
  if (at_ == text_.size()) fail("the string does not end");
  ++at_;
  return s;
}

Ints TextReader::ints() {
  Ints list;
  expect("[");
  if (accept("]")) return list;
  do list.push_back(integer());
  while (accept(","));
  expect("]");
  return list;
}

DType TextReader::dtype() {
  const std::string_view name = word();
  for (int i = 0; i < k_n_dtypes; ++i)
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  fail("unknown dtype " + in_quotes(name) + "; known: f32, f64, i32, b8, bf16, f16");
}

Type TextReader::type() {
  const DType name = dtype();
  return {name, Shape(ints())};
}

void TextReader::read_element(Tensor& tensor, std::int64_t index) {
  const std::string_view token = number();
  const auto i = static_cast<std::size_t>(index);
  std::uint8_t byte = 0;
  float number = 0;
  bool ok = false;
  switch (tensor.dtype()) {
    case DType::f32: ok = read_float(token, tensor.values<float>()[i]); break;
    case DType::f64: ok = read_float(token, tensor.values<double>()[i]); break;
    case DType::i32: ok = read_whole(token, tensor.values<std::int32_t>()[i]); break;
    case DType::b8:
      ok = read_whole(token, byte) && byte <= 1;
      tensor.values<std::uint8_t>()[i] = byte;
      break;
    case DType::bf16:  // the bits of a NaN are the upper ones of its f32
      ok = read_float(token, number);
      tensor.values<Bf16>()[i].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16);
      ok = ok && (number != number || to_float(tensor.values<Bf16>()[i]) == number);
      break;
    case DType::f16:
      ok = read_float(token, number);
      tensor.values<F16>()[i] = to_f16(number);
      if (number != number) {
        const auto bits = std::bit_cast<std::uint32_t>(number);
        tensor.values<F16>()[i].bits = static_cast<std::uint16_t>((bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 1023));
      }
      ok = ok && (number != number || to_float(tensor.values<F16>()[i]) == number);
      break;
  }
  if (!ok) fail(in_quotes(token) + " is no element of " + tensor.type().text());
}

Tensor TextReader::tensor(Type type, std::int64_t& budget) {
  const std::int64_t n = type.shape.elements();
  if (n > budget) fail("constants hold more than 16 Mi elements in all at " + type.text());
  budget -= n;
  Tensor t(type);
  expect("(");
  if (accept("all")) {
    Tensor one(type.dtype, Shape{});
    read_element(one, 0);
    const std::size_t size = one.bytes().size();
    for (std::size_t at = 0; at < t.bytes().size(); at += size)
      std::copy_n(one.bytes().data(), size, t.bytes().data() + at);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) expect(",");
      read_element(t, i);
    }
  }
  expect(")");
  return t;
}

Attribute TextReader::number_attribute() {
  const std::string_view token = number();
  std::int64_t whole = 0;
  if (read_whole(token, whole)) return whole;
  double value = 0;
  if (token.find_first_not_of("-0123456789") == std::string_view::npos || !read_float(token, value))
    fail(in_quotes(token) + " is no value");
  return value;
}

Attribute TextReader::attribute(std::int64_t& budget) {
  if (next_is('"')) return string();
  if (next_is('[')) return ints();
  if (accept("true")) return true;
  if (accept("false")) return false;
  for (int i = 0; i < k_n_dtypes; ++i) {
    const auto type = static_cast<DType>(i);
    if (!accept(dtype_name(type))) continue;
    if (!next_is('[')) return type;
    return std::make_shared<const Tensor>(tensor({type, Shape(ints())}, budget));
  }
  return number_attribute();
}

}  // namespace unroll
