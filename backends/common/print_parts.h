// SPDX-License-Identifier: Apache-2.0
// Text fragments that all expression printers share.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"

namespace unroll::common {

struct PrintOptions {
  // Use 32-bit indices: every index and offset of the caller is below 2^31. Otherwise 64 bits.
  bool short_indices = false;
  // Row kernels: bytes of arrays in shared memory. Further arrays lie in memory of the caller,
  // PrintedKernel::scratch_bytes for each block.
  std::size_t most_shared_bytes = std::numeric_limits<std::size_t>::max();
};

std::string variable(std::size_t r);  // name of a register: "v3"
// Returns a literal that reads back as the same number.
std::string literal(Dialect dialect, DType dtype, double value);
std::string index_type(Dialect dialect, const PrintOptions& options);

// load_of returns the register value of element `index` of a buffer; store_of the statement that stores a register
// there. In memory b8 has 8 and half formats have 16 bits.
std::string load_of(DType dtype, const std::string& buffer, const std::string& index);
// The same for the key of draws, which begins at `index`.
std::string key_of(const std::string& buffer, const std::string& index);
std::string store_of(DType dtype, const std::string& buffer, const std::string& index, const std::string& variable);

// Run-time sizes of a kernel, and their text: "sizes[4]".
struct KernelSizes {
  KernelSizes(Dialect dialect_, std::size_t operands) : dialect(dialect_), values(1 + operands, 0) {}
  std::string at(std::size_t k) const;
  std::string next(std::int64_t value);
  std::string cuda_struct(const std::string& kernel, const std::string& index) const;

  Dialect dialect;
  std::vector<std::int64_t> values;
};
// Throws Error(unsupported) if an operand needs 64-bit indices but the options request 32.
void check_short_indices(const Shape& shape, const Strides& strides, const PrintOptions& options);

// Returns the right-hand side of an elementwise instruction. Throws Error(unsupported) if the dialect lacks it.
std::string right_side(Dialect dialect, const Instruction& instruction);

// Returns the text that precedes all row kernels of a file, after print_prelude.
std::string print_row_prelude();

}  // namespace unroll::common
