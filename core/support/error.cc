// SPDX-License-Identifier: Apache-2.0
#include "unroll/support/error.h"

#include <array>
#include <new>

#include "unroll/support/result.h"

namespace unroll {

namespace {

struct KindRow {
  std::string_view name;
  int exit_code;
};
// In the order of ErrorKind.
constexpr std::array<KindRow, 13> k_kinds{{
    {"internal", 1},
    {"usage", 2},
    {"shape", 2},
    {"type", 2},
    {"graph", 2},
    {"unsupported", 2},
    {"input file", 3},
    {"numeric", 4},
    {"device", 5},
    {"storage", 6},
    {"memory", 7},
    {"peer", 8},
    {"differ", 9},
}};

const KindRow& row(ErrorKind kind) { return k_kinds[static_cast<std::size_t>(kind)]; }

}  // namespace

Error::Error(ErrorKind kind, std::string_view who, std::string_view what, std::string_view next)
    : kind_(kind), next_(next) {
  text_.append("[").append(who).append("] ").append(what);
  if (!next.empty()) text_.append(". ").append(next);
}

void throw_error(const Error& error) { throw error; }

std::string_view where_of(const Error& error) {
  const std::string_view text = error.what();
  return text.substr(1, text.find("] ") - 1);
}
std::string_view message_of(const Error& error) {
  std::string_view text = error.what();
  if (!error.next().empty()) text.remove_suffix(error.next().size() + 2);
  return text.substr(text.find("] ") + 2);
}

Error current_error() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return {ErrorKind::memory, "unroll", "an allocation failed", "Use smaller tensors or free memory"};
  } catch (const std::exception& e) {
    return {ErrorKind::internal, "unroll", e.what()};
  } catch (...) {
    return {ErrorKind::internal, "unroll", "an exception of an unknown type"};
  }
}

int exit_code(ErrorKind kind) { return row(kind).exit_code; }
std::string_view error_kind_name(ErrorKind kind) { return row(kind).name; }

}  // namespace unroll
