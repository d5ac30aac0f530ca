// SPDX-License-Identifier: Apache-2.0
#include "frontends/c/failure.h"

#include "frontends/c/include/unroll.h"
#include "unroll/support/result.h"

namespace unroll::c {

namespace {

struct LastFailure {
  std::string message, hint;
};
LastFailure& last_failure() {
  thread_local LastFailure failure;
  return failure;
}

// Truncates messages if memory is short.
void keep(const char* message, const std::string& hint) noexcept try {
  last_failure() = {message, hint};
} catch (...) {
  last_failure().message.clear();
  last_failure().hint.clear();
}

}  // namespace

int keep_failure() noexcept {
  try {
    throw;
  } catch (const Busy& busy) {
    keep(busy.what(), "Wait for the other call, or make one for each thread");
    return UNROLL_BUSY;
  } catch (...) {
    const Error error = current_error();
    keep(error.what(), error.next());
    return exit_code(error.kind());
  }
}

}  // namespace unroll::c

extern "C" {

const char* unroll_last_error(void) { return unroll::c::last_failure().message.c_str(); }
const char* unroll_last_error_hint(void) { return unroll::c::last_failure().hint.c_str(); }
const char* unroll_version(void) { return UNROLL_VERSION; }
int32_t unroll_abi_version(void) { return UNROLL_ABI_VERSION; }

int unroll_require_abi(int32_t version) {
  return unroll::c::guarded([&] {
    if (version == UNROLL_ABI_VERSION) return;
    using namespace unroll;
    throw Error(ErrorKind::usage, "unroll_require_abi",
                "the program needs version " + std::to_string(version) + " of the C interface; libunroll-c " +
                    UNROLL_VERSION + " has version " + std::to_string(UNROLL_ABI_VERSION),
                "Compile the program with the header of this library, or load the library of that header");
  });
}

const char* unroll_code_name(int code) {
  switch (code) {
    case UNROLL_OK: return "ok";
    case UNROLL_INTERNAL: return "internal";
    case UNROLL_USAGE: return "usage";
    case UNROLL_INPUT_FILE: return "input file";
    case UNROLL_NUMERIC: return "numeric";
    case UNROLL_DEVICE: return "device";
    case UNROLL_STORAGE: return "storage";
    case UNROLL_MEMORY: return "memory";
    case UNROLL_BUSY: return "busy";
    default: return "unknown";
  }
}

}  // extern "C"
