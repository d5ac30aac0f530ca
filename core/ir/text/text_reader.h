// SPDX-License-Identifier: Apache-2.0
// Reads words and numbers of graph text from a bounded, untrusted buffer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "unroll/ir/graph.h"

namespace unroll {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  // Throws Error(input_file) with the line and column of the token read last.
  [[noreturn]] void fail(const std::string& what) const;
  std::size_t token() const { return token_; }
  void point_at(std::size_t token) { token_ = token; }  // what a failure from here on is about

  bool at_end();
  bool accept(std::string_view token);  // skips white space and comments, takes token when it is next
  void expect(std::string_view token);
  bool next_is(char c);

  std::string_view word();          // [A-Za-z_][A-Za-z0-9_]*
  std::string_view number();        // characters of a number, inf, nan or #bits; never empty
  std::int64_t integer();
  std::string string();             // with its quotes
  Ints ints();                      // with its brackets
  DType dtype();
  Type type();                      // f32[2,3]
  Tensor tensor(Type type, std::int64_t& budget);  // (1, 2) or (all 1); takes its elements off the budget
  Attribute attribute(std::int64_t& budget);

 private:
  void skip();
  Attribute number_attribute();
  void read_element(Tensor& tensor, std::int64_t index);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t token_ = 0;  // where the token read last began
};

}  // namespace unroll
