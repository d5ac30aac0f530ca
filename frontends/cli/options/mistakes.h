// SPDX-License-Identifier: Apache-2.0
// What the program says about a wrong command line: what is wrong, and what to write instead.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>

#include "unroll/support/error.h"

namespace unroll::cli {

// A word where a command is expected: names the command that does it, from the words of other tools or by spelling.
Error unknown_command(std::string_view word, std::span<const std::string_view> commands);

// What the parser of one command found, as an Error(usage).
Error wrong_options(const CLI::App& command, const CLI::ParseError& found);

}  // namespace unroll::cli
