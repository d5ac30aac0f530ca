// SPDX-License-Identifier: Apache-2.0
// The only exception type. The message states what failed, the place and the value; `next` says what to do about it.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "unroll/support/export.h"

namespace unroll {

enum class ErrorKind {
  internal,     // a bug in this library: please report it
  usage,        // an invalid option, config key or call
  shape,        // shapes do not match
  type,         // dtypes do not match
  graph,        // the graph violates a verifier rule
  unsupported,  // valid, but not supported by this backend or build
  input_file,   // an input file is malformed or missing
  numeric,      // NaN or infinity where a finite number is required
  device,       // a device failed or is not available
  storage,      // writing failed: disk full, I/O error
  memory,       // not enough memory
  peer,         // lost the connection to another process
  differ,       // results that must agree differ
};

class UNROLL_API Error : public std::exception {
 public:
  // `who` names the function, op or file. `what` states the requirement and the given value. `next` is the advice; it
  // may be empty. The message is "[who] what. next".
  Error(ErrorKind kind, std::string_view who, std::string_view what, std::string_view next = {});

  ErrorKind kind() const { return kind_; }
  const std::string& next() const { return next_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorKind kind_;
  std::string text_;
  std::string next_;
};

// Exit codes are part of the API: 0 success, 1 other, 2 usage, 3 invalid input file, 4 numeric, 5 device, 6 storage, 7
// memory, 8 peer lost, 9 results differ.
UNROLL_API int exit_code(ErrorKind kind);
UNROLL_API std::string_view error_kind_name(ErrorKind kind);

}  // namespace unroll
