// SPDX-License-Identifier: Apache-2.0
// File error messages: the path, the failed action, the system's reason, and the advice.
#pragma once

#include <string>
#include <string_view>

#include "unroll/support/error.h"
#include "unroll/support/export.h"

namespace unroll {

// Returns "[path] cannot <action>: No space left on device. Free some space ..."; `error` is an errno value.
UNROLL_API Error file_error(ErrorKind kind, const std::string& path, std::string_view action, int error);

}  // namespace unroll
