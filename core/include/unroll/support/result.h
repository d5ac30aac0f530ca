// SPDX-License-Identifier: Apache-2.0
// Errors as values, for programs that do not use exceptions: a Result holds a value or the Error that prevented it.
// The factories that return one start with `try_`; they never throw.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "unroll/support/error.h"

namespace unroll {

[[noreturn]] UNROLL_API void throw_error(const Error& error);
// Returns the exception that is being handled, as an Error.
UNROLL_API Error current_error() noexcept;

// Return the parts of an error's text "[where] message. next": the function, layer or file that refuses, and the
// reason. error.kind() and error.next() return the other two. The views point into error.what().
UNROLL_API std::string_view where_of(const Error& error);
UNROLL_API std::string_view message_of(const Error& error);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const noexcept { return held_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  // Throws if ok() is true.
  const Error& error() const {
    if (ok()) throw_error({ErrorKind::usage, "Result", "there is no error", "Call ok() first"});
    return *std::get_if<1>(&held_);
  }
  // Returns the value, or throws the error if ok() is false.
  T& value() & { return require(), *std::get_if<0>(&held_); }
  const T& value() const& { return require(), *std::get_if<0>(&held_); }
  T&& value() && { return require(), std::move(*std::get_if<0>(&held_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void require() const {
    if (!ok()) throw_error(error());
  }
  std::variant<T, Error> held_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  const Error& error() const {
    if (ok()) throw_error({ErrorKind::usage, "Result", "there is no error", "Call ok() first"});
    return *error_;
  }
  void value() const {
    if (!ok()) throw_error(*error_);
  }

 private:
  std::optional<Error> error_;
};

#if defined(__cpp_exceptions)
// Calls a function and returns its result, or the exception as an error:
//   Result<UpdateResult> r = attempt([&] { return trainer.update(batch); });
template <class Call>
auto attempt(Call&& call) -> Result<std::invoke_result_t<Call>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>)
      return std::forward<Call>(call)(), Result<void>();
    else
      return std::forward<Call>(call)();
  } catch (...) {
    return current_error();
  }
}
#endif

}  // namespace unroll
