// SPDX-License-Identifier: Apache-2.0
// Errors for a wrong command line: the mistake, and the correct form.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>

#include "unroll/support/error.h"

namespace unroll::cli {

// Returns the error for an unknown command. It suggests a command, from the names of other tools or by spelling.
Error unknown_command(std::string_view word, std::span<const std::string_view> commands);

// Converts a parse error of one command to an Error(usage).
Error wrong_options(const CLI::App& command, const CLI::ParseError& found);

}  // namespace unroll::cli
