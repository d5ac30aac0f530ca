// SPDX-License-Identifier: Apache-2.0
// The standard files of a process: input, output and error output.
#pragma once

#include <string_view>

namespace unroll::cli {

// Call this first. The next opened file would reuse a closed descriptor and receive the output. A closed descriptor is
// therefore opened so that reads or writes fail. Exceeding a file-size limit becomes an error.
void secure_standard_files();

// Throw Error(storage) if the text, or earlier text, could not be written to stdout.
void write_output(std::string_view text);
void flush_output();

}  // namespace unroll::cli
