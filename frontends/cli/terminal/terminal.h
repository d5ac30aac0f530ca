// SPDX-License-Identifier: Apache-2.0
// Text layout for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unroll::cli {

// Returns the columns of the descriptor's terminal, else the variable COLUMNS, else 80.
int terminal_width(int descriptor);
// Returns the width of stdout.
int output_width();

// True if stderr is a terminal that can redraw a line: not TERM=dumb.
bool can_redraw();
// As can_redraw, and NO_COLOR is unset or empty.
bool can_color();

// Returns the columns of UTF-8 text.
std::size_t columns_of(std::string_view text);
// Returns the text cut to `width` columns, with "..." for omitted text.
std::string fitted(std::string_view text, std::size_t width);
// Breaks text at spaces, and inside words wider than a line, so that no line exceeds `width`; paths and commands stay
// unbroken. The first line keeps its leading spaces. Later lines begin with `indent` spaces, which count as width, and
// then `margin` spaces, which do not.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent, std::size_t margin = 0);

}  // namespace unroll::cli
