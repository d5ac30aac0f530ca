// SPDX-License-Identifier: Apache-2.0
// The one exception type. A text says what must hold, where, and what was given; `next` says what to do.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "unroll/export.h"

namespace unroll {

enum class ErrorKind {
  internal,     // a broken invariant of ours: please report
  usage,        // a wrong option, key or call
  shape,        // shapes do not agree
  type,         // dtypes do not agree
  graph,        // a graph that breaks a verifier rule
  unsupported,  // legal, but this backend or build cannot do it
  input_file,   // a file from outside is malformed or missing
  numeric,      // NaN or infinity where a number must be
  device,       // a device failed or is absent
  storage,      // writing failed: disk full, I/O error
  memory,       // does not fit
  peer,         // another process was lost
  differ,       // results that must agree do not
};

class UNROLL_API Error : public std::exception {
 public:
  // `who` is the function, op or file that refuses; `what` what must hold and what was given;
  // `next` the next action, may be empty. The message reads "[who] what. next".
  Error(ErrorKind kind, std::string_view who, std::string_view what, std::string_view next = {});

  ErrorKind kind() const { return kind_; }
  const std::string& next() const { return next_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorKind kind_;
  std::string text_;
  std::string next_;
};

// Exit codes are API: 0 ok, 1 other, 2 usage, 3 bad input file, 4 numeric, 5 device, 6 storage,
// 7 memory, 8 peer lost, 9 results differ.
UNROLL_API int exit_code(ErrorKind kind);
UNROLL_API std::string_view error_kind_name(ErrorKind kind);

}  // namespace unroll
