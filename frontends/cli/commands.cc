// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands.h"

namespace unroll::cli {

std::span<const Command* const> all_commands() {
  static constexpr const Command* k_commands[] = {
#define UNROLL_COMMAND(name) &name##_command,
#include "frontends/cli/commands.def"
#undef UNROLL_COMMAND
  };
  return k_commands;
}

}  // namespace unroll::cli
