// SPDX-License-Identifier: Apache-2.0
// The list of commands.
#pragma once

#include <span>

#include "frontends/cli/options/command.h"

namespace unroll::cli {

#define UNROLL_COMMAND(name) extern const Command name##_command;
#include "frontends/cli/commands.def"
#undef UNROLL_COMMAND

// Returns the commands in the order of `unroll help`.
std::span<const Command* const> all_commands();

}  // namespace unroll::cli
