// SPDX-License-Identifier: Apache-2.0
// Parts of the printer of C++ sources.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/expression.h"
#include "unroll/passes/backend.h"

namespace unroll::cxx {

using Index = std::int64_t;

// The place of a value: an array of the class, or of constants, from an element on.
struct Place {
  std::string array;
  Index offset = 0;
  DType dtype = DType::f32;
  std::string index(const std::string& from_offset) const;  // in the array: "64 + e"
  std::string at(const std::string& from_offset) const { return array + "[" + index(from_offset) + "]"; }
};

// The arrays of constants that a step reads: in the header, or in a separate file.
class Constants {
 public:
  explicit Constants(bool are_separate) : are_separate_(are_separate) {}

  // T: float, int32_t, uint16_t, uint8_t or int8_t. Returns how statements of step() name the array.
  template <class T>
  std::string add(std::span<const T> numbers);
  std::string includes() const;
  std::string definitions() const;                     // before the class
  std::string members(const std::string& name) const;  // public ones of the class of this name
  std::string private_members() const;
  std::string first_statements(std::int64_t outputs) const;  // of step()
  std::string reset_statements() const;                      // of reset(), before it reads constants
  std::string file() const;                                  // empty when the constants are in the header

 private:
  std::uint64_t hash() const;
  bool are_separate_;
  int n_arrays_ = 0;
  std::string declared_;  // definitions, or members of the struct that has the layout of the file
  std::string arrays_;    // the file behind its head
};

// The source while it is made.
class Source {
 public:
  Source(const Plan& of, bool separate_weights) : plan(of), graph(*of.graph), constants(separate_weights) {}

  const Plan& plan;
  const Graph& graph;
  Constants constants;
  std::string body;  // statements of step()

  void place(const ValueId& id, const Place& at) { places_.insert_or_assign(id, at); }
  const Place& place_of(const ValueId& id);  // of a constant, too, whose array is then printed
  Place make(DType dtype, Index elements);   // a new one in an array of the class
  Index size(DType dtype) const;             // elements of this array of the class
  void line(const std::string& text) { body += "    " + text + "\n"; }
  // for loops over a shape around `inner`, which gets the name of each axis' variable, or "0" where it has one element.
  template <class Inner>
  void loops(const Shape& shape, const Inner& inner) {
    std::vector<std::string> names;
    std::string text, close;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) {
        names.push_back("0");
        continue;
      }
      const std::string d = "d" + std::to_string(axis);
      text += "for (int " + d + " = 0; " + d + " < " + std::to_string(shape[axis]) + "; ++" + d + ") ";
      names.push_back(d);
    }
    line(text + "{");
    inner(names);
    line("}");
  }

 private:
  std::map<ValueId, Place> places_;
  std::map<DType, Index> sizes_;
};

// "3 * d0 + d1"; "0" when nothing moves.
std::string index_text(const std::vector<std::string>& names, const common::Strides& strides, Index offset = 0);

void print_node(Source& source, std::int32_t node);
void print_product(Source& source, std::int32_t node);
extern const std::string_view k_math_functions;  // unroll_exp, unroll_tanh, unroll_sigmoid, in f32
std::string product_functions();  // what print_product calls

}  // namespace unroll::cxx
