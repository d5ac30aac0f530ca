// SPDX-License-Identifier: Apache-2.0
// The wording of file errors: the path, what failed, what the system says and what to do about it.
#pragma once

#include <string>
#include <string_view>

#include "unroll/error.h"

namespace unroll {

// "[path] cannot <action>: No space left on device. Free some space ..."; `error` is an errno value.
Error file_error(ErrorKind kind, const std::string& path, std::string_view action, int error);

}  // namespace unroll
