// SPDX-License-Identifier: Apache-2.0
// Pieces of text that all printers of expressions share.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"

namespace unroll::common {

struct PrintOptions {
  // Indices of 32 bits, where every index and offset of the caller is below 2^31; otherwise 64 bits. GLSL has 32 only.
  bool short_indices = false;
  // Elements of 8 and 16 bits are types of buffers. Otherwise, in GLSL, buffers hold words: loads cut elements out,
  // stores put them in with two atomics, and a buffer is a multiple of 4 bytes.
  bool small_types = true;
  // Of row kernels in CUDA: bytes of arrays that the threads of a block share. Further arrays lie in memory of the
  // caller, PrintedKernel::scratch_bytes for each block.
  std::size_t most_shared_bytes = std::numeric_limits<std::size_t>::max();
};

inline constexpr std::size_t k_push_sizes = 32;  // 128 bytes, which every Vulkan device has

std::string variable(std::size_t r);  // of a register: "v3"
// The same number again when it is read.
std::string literal(Dialect dialect, DType dtype, double value);
// Of a register. Throws Error(unsupported) when the dialect lacks it.
std::string type_of(Dialect dialect, DType dtype);
// Of indices. Throws Error(unsupported) when the dialect lacks it.
std::string index_type(Dialect dialect, const PrintOptions& options);

// Of an element in a buffer. Throws as type_of.
std::string element_type(Dialect dialect, DType dtype, const PrintOptions& options);
// What a register holds of element `index` of a buffer, and the statement that stores a register there: b8 and 16 bits
// are bytes in memory.
std::string load_of(DType dtype, const std::string& buffer, const std::string& index, const PrintOptions& options);
// The same of the key of draws, whose first element it is.
std::string key_of(const std::string& buffer, const std::string& index);
std::string store_of(DType dtype, const std::string& buffer, const std::string& index, const std::string& variable,
                     const PrintOptions& options);
// "layout(...) readonly buffer B0 { float x0[]; };\n" and so on: bindings from 0.
std::string glsl_buffer(std::size_t binding, const std::string& access, const std::string& type,
                        const std::string& name);

// The run-time sizes of a kernel, and their text: "sizes[4]".
struct KernelSizes {
  KernelSizes(Dialect dialect_, std::size_t operands) : dialect(dialect_), values(1 + operands, 0) {}
  std::string at(std::size_t k) const;
  std::string next(std::int64_t value);
  std::string cuda_struct(const std::string& kernel, const std::string& index) const;
  std::string glsl_block(std::size_t binding) const;

  Dialect dialect;
  std::vector<std::int64_t> values;
};
// Throws Error(unsupported) when an operand needs indices of 64 bits and the options say 32.
void check_short_indices(const Shape& shape, const Strides& strides, const PrintOptions& options);

// What an elementwise instruction is of its operands' variables. Throws Error(unsupported) when the dialect lacks it.
std::string right_side(Dialect dialect, const Instruction& instruction);

// What goes once before the row kernels of a file, after print_prelude.
std::string print_row_prelude(Dialect dialect);

}  // namespace unroll::common
