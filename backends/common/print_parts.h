// SPDX-License-Identifier: Apache-2.0
// Pieces of text that all printers of expressions share.
#pragma once

#include <string>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"

namespace unroll::common {

std::string variable(std::size_t r);  // of a register: "v3"
// The same number again when it is read.
std::string literal(Dialect dialect, DType dtype, double value);
// Of a register. Throws Error(unsupported) when the dialect lacks it.
std::string type_of(Dialect dialect, DType dtype);
// What a register holds of an element in memory, and memory of a register: b8 and 16 bits are bytes there.
std::string load_of(DType dtype, const std::string& element);
std::string store_of(DType dtype, const std::string& variable);
// What an elementwise instruction is of its operands' variables. Throws Error(unsupported) when the dialect lacks it.
std::string right_side(Dialect dialect, const Instruction& instruction);

}  // namespace unroll::common
