// SPDX-License-Identifier: Apache-2.0
// Shaders written in C++: typed terms with operators, structured conditions and loops on top of module.h. Operators
// take two terms of one kind; integers wrap.
#pragma once

#include <array>
#include <functional>
#include <utility>

#include "backends/vulkan/device/module.h"

namespace unroll::vulkan {

class Code;

// A value of one invocation.
struct Term {
  Code* code = nullptr;
  Id id = 0;
  Kind kind = Kind::u32;
};

// A variable of one invocation.
struct Local {
  Code* code = nullptr;
  Id pointer = 0;
  Kind kind = Kind::u32;
  Term get() const;
  void set(Term value) const;
};

// An array of the workgroup.
struct Shared {
  Code* code = nullptr;
  Id array = 0;
  Kind kind = Kind::f32;
  Term get(Term index) const;
  void set(Term index, Term value) const;
};

// Four f32 of one invocation.
struct Quad {
  Code* code = nullptr;
  Id id = 0;
  Term at(int component) const;
};

// An array of the workgroup, of four f32 at a time: the widest access that every device has.
struct SharedQuads {
  Code* code = nullptr;
  Id array = 0;
  Quad get(Term index) const;
  void set(Term index, const std::array<Term, 4>& values) const;
};

// A step of a packed loop. An operand behind all others holds the number of rows of the step, which lie first, and the
// number of rows of earlier steps.
struct LiveRows {
  struct Operand {
    bool moves = false;   // a packed sequence: it begins at the rows of the step
    bool guards = false;  // what is stored beyond the rows of the step is dropped
    bool previous = false;  // the rows are those of the step that ran before
    bool is_plain() const { return !moves && !guards; }
  };
  std::vector<Operand> operands = {};
  // Parameters from here on: items of a row if `by_rows`, then of each operand that is not plain the elements of a row,
  // and those of its value before the first that is bound.
  int param = 0;
  bool by_rows = false;  // the work of an invocation, or of several, is that of a row
  bool reverse = false;  // the step that ran before is the next one in memory
};

class Code {
 public:
  explicit Code(const ModuleOptions& options);

  Term u(std::uint32_t value) { return {this, module_.constant(Kind::u32, value), Kind::u32}; }
  Term i(std::int32_t value) { return bits(Kind::i32, static_cast<std::uint32_t>(value)); }
  Term f(float value);
  Term truth(bool value) { return {this, module_.constant(Kind::boolean, value ? 1 : 0), Kind::boolean}; }
  Term zero(Kind kind) { return {this, module_.constant(kind, 0), kind}; }
  // A constant of this kind with these bits: f32 may be infinite.
  Term bits(Kind kind, std::uint32_t value) { return {this, module_.constant(kind, value), kind}; }

  Term push(int word) { return {this, module_.push_word(word), Kind::u32}; }
  Term local_index() { return {this, module_.builtin(27, 0), Kind::u32}; }  // LocalInvocationId.x
  Term group_index();   // of the workgroup, in a grid of two axes
  Term global_index();  // of the invocation
  Term base(int operand);  // where it begins in its buffer, in elements
  void guard(int operand, Term index, const std::function<void()>& store);
  // The items of live rows among `all` items of work.
  Term live_items(Term all);
  bool has_live_rows() const { return live_ && live_->by_rows; }
  Term live_rows() const { return rows_; }
  Term rows_before() const { return rows_before_; }

  // Words of buffers. Truths are bytes; their writes are atomic, because neighbors share a word.
  Term load(int buffer, Term index, Kind kind = Kind::u32);
  void store(int buffer, Term index, Term value);
  Term load_truth(int buffer, Term byte);
  void store_truth(int buffer, Term byte, Term value);
  // 16-bit elements as u32, where the device has 16-bit storage; the upper bits of what is stored are dropped.
  Term load_half(int buffer, Term index);
  void store_half(int buffer, Term index, Term value);

  Local local(Term start);
  Shared shared(Kind kind, std::uint32_t size) { return {this, module_.shared(kind, size), kind}; }
  SharedQuads shared_quads(std::uint32_t size) { return {this, module_.shared_quads(size)}; }
  void barrier();  // of the workgroup, its memory and a coherent buffer; in uniform control flow only

  void when(Term condition, const std::function<void()>& then);
  // i = from, from + step, ... while i < to; u32. The most iterations of an invocation are limited on some drivers
  // (limits.h): kernels state them.
  void loop(Term from, Term to, Term step, const std::function<void(Term i)>& body);
  void repeat(const std::function<Term()>& goes_on, const std::function<void()>& body);

  Term select(Term condition, Term yes, Term no);
  Term as(Kind kind, Term value);  // the same bits
  Term convert(Kind kind, Term value);  // i32 or u32 to f32, f32 to i32 (in range), boolean to any: 0 or 1
  Term call(Ext function, const std::vector<Term>& operands);
  std::pair<Term, Term> wide_product(Term a, Term b);         // low and high 32 bits; signed when a is
  std::pair<Term, Term> sum_with_carry(Term a, Term b);       // u32: sum, carry
  Term binary(Spv op, Kind result, Term a, Term b);
  Term unary(Spv op, Kind result, Term a);

  // Products and sums may become fused multiply-adds where the driver likes: in the whole shader, or in `code`.
  void allow_contraction() { contracts_ = true; }
  void contract(const std::function<void()>& code);

  Words finish() { return module_.finish(); }

 private:
  friend struct Local;
  friend struct Shared;
  friend struct Quad;
  friend struct SharedQuads;
  Term parameter(int index);

  Module module_;
  std::uint32_t local_size_;
  bool contracts_ = false, exchanges_;
  const LiveRows* const live_;
  Term rows_, rows_before_;
  std::vector<Term> base_;                    // [operand]
  std::vector<std::pair<Term, Term>> bounds_;  // [operand] elements of live rows, and those before the bound ones
};

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term operator%(Term a, Term b);  // u32
Term operator-(Term a);
Term operator<(Term a, Term b);
Term operator<=(Term a, Term b);
Term operator>(Term a, Term b);
Term operator>=(Term a, Term b);
Term operator==(Term a, Term b);
Term operator!=(Term a, Term b);
Term operator&(Term a, Term b);  // of bits, or of truths
Term operator|(Term a, Term b);
Term operator^(Term a, Term b);
Term operator!(Term a);
Term operator<<(Term a, Term b);
Term operator>>(Term a, Term b);  // of i32 with its sign

}  // namespace unroll::vulkan
