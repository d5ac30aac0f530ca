// SPDX-License-Identifier: Apache-2.0
// Text that fits a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unroll::cli {

// Columns of the terminal behind the descriptor; where there is none, those of the variable COLUMNS, else 80.
int terminal_width(int descriptor);
// Of standard output.
int output_width();

// stderr is a terminal that can redraw a line: not TERM=dumb.
bool can_redraw();
// NO_COLOR is unset or empty as well.
bool can_color();

// Columns that UTF-8 text takes.
std::size_t columns_of(std::string_view text);
// The text cut to `width` columns, with "..." where something is missing.
std::string fitted(std::string_view text, std::size_t width);
// Broken at spaces, and in words that are wider than a line, so that no line is wider than `width`; paths and commands
// stay whole.
// The first line keeps its leading spaces. Later lines begin with `indent` spaces, which count, and then `margin`
// spaces, which do not.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent, std::size_t margin = 0);

}  // namespace unroll::cli
