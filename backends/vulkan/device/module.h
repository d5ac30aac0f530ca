// SPDX-License-Identifier: Apache-2.0
// Writes one SPIR-V 1.3 compute shader, word by word: storage buffers of 32-bit words in set 0, which may be read and
// written as 16-bit elements too, push constants, one function. Types and constants appear once. SPIR-V specification
// 1.3, sections 2.3 (layout) and 3.32 (instructions).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace unroll::vulkan {

using Id = std::uint32_t;
using Words = std::vector<std::uint32_t>;

// Types of registers. Words in memory are u32.
enum class Kind : std::uint8_t { boolean, i32, u32, f32 };

// Operation codes of the instructions that are written.
enum class Spv : std::uint16_t {
  extension = 10, ext_inst_import = 11, ext_inst = 12, memory_model = 14, entry_point = 15, execution_mode = 16,
  capability = 17, type_void = 19, type_bool = 20, type_int = 21, type_float = 22, type_vector = 23, type_array = 28,
  type_runtime_array = 29, type_struct = 30, type_pointer = 32, type_function = 33, constant_true = 41,
  constant_false = 42, constant = 43, function = 54, function_end = 56, variable = 59, load = 61, store = 62,
  access_chain = 65, decorate = 71, member_decorate = 72, composite_construct = 80, composite_extract = 81,
  f_to_s = 110, s_to_f = 111, u_to_f = 112, u_convert = 113, bitcast = 124, s_negate = 126, f_negate = 127,
  i_add = 128, f_add = 129,
  i_sub = 130, f_sub = 131, i_mul = 132, f_mul = 133, u_div = 134, s_div = 135, f_div = 136, u_mod = 137,
  i_add_carry = 149, u_mul_extended = 151, s_mul_extended = 152, logical_equal = 164, logical_not_equal = 165,
  logical_or = 166, logical_and = 167, logical_not = 168, select = 169, i_equal = 170, i_not_equal = 171,
  u_greater = 172, s_greater = 173, u_greater_equal = 174, s_greater_equal = 175, u_less = 176, s_less = 177,
  u_less_equal = 178, s_less_equal = 179, f_equal = 180, f_not_equal = 183, f_less = 184, f_greater = 186,
  f_less_equal = 188, f_greater_equal = 190, shift_right = 194, shift_right_signed = 195, shift_left = 196,
  bit_or = 197, bit_xor = 198, bit_and = 199, bit_not = 200, control_barrier = 224, atomic_and = 240, atomic_or = 241,
  loop_merge = 246, selection_merge = 247, label = 248, branch = 249, branch_conditional = 250, return_ = 253
};
// Numbers of the set GLSL.std.450.
enum class Ext : std::uint32_t { round_even = 2, fabs = 4, floor = 8, sqrt = 31, fma = 50 };

struct LiveRows;  // code.h

struct ModuleOptions {
  int buffers = 1;
  std::uint32_t local_size = 64;
  int push_words = 1;
  int coherent = -1;  // buffer through which invocations of a workgroup exchange values
  bool preserve_nan = false;  // SignedZeroInfNanPreserve, where the device has it
  const LiveRows* live = nullptr;
};

class Module {
 public:
  explicit Module(const ModuleOptions& options);

  Id type(Kind kind);
  Id constant(Kind kind, std::uint32_t bits);  // boolean: 0 or 1
  // Appends an instruction with a result to the function.
  Id emit(Spv op, Id type, const std::vector<Id>& operands);
  Id emit(Ext function, Kind kind, const std::vector<Id>& operands);
  void emit_plain(Spv op, const std::vector<Id>& operands);  // without a result
  void no_contraction(Id id);  // its rounding stays: never part of a fused multiply-add
  Id new_id() { return next_++; }

  Id buffer_word(int buffer, Id index);  // pointer to a word of a storage buffer
  Id buffer_half(int buffer, Id index);  // pointer to 16 bits of it
  Id half();                             // type: u16, which is only loaded, stored and converted
  Id push_word(int word);                // its value
  Id variable(Kind kind);                // function-local; pointer
  Id shared(Kind kind, std::uint32_t size);       // array of a workgroup
  Id shared_word(Id array, Kind kind, Id index);  // pointer
  Id quad();                                      // type: four f32
  Id shared_quads(std::uint32_t size);            // array of a workgroup
  Id shared_quad(Id array, Id index);             // pointer
  Id builtin(std::uint32_t number, int component);  // a component of a builtin uvec3
  Id pair(Kind kind);                               // struct of two: results with carry

  Words finish();

 private:
  Id declare(Spv op, const std::vector<Id>& operands, bool typed = false);  // type or constant, made once
  Id pointer(std::uint32_t storage_class, Id to);
  Id block_of(Id element, std::uint32_t bytes);  // pointer type: a buffer of such elements
  Id buffer(Id block_pointer, int binding);
  Id global(std::uint32_t storage_class, Id type);

  ModuleOptions options_;
  Id next_ = 1;
  Id glsl_ = 0, main_ = 0;
  Id word_pointer_ = 0, half_block_ = 0, push_ = 0, push_pointer_ = 0;
  std::vector<Id> buffers_;
  std::map<int, Id> halves_;  // [buffer] as 16-bit elements
  std::map<Words, Id> declared_;
  std::map<std::uint32_t, Id> builtins_;
  std::map<Kind, Id> pairs_;
  Words decorations_, declarations_, variables_, body_;
};

}  // namespace unroll::vulkan
