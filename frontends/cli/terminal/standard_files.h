// SPDX-License-Identifier: Apache-2.0
// The files that a process is started with: input, output and error output.
#pragma once

#include <string_view>

namespace unroll::cli {

// Call this first. A closed descriptor would become that of the next file that is opened, and output would be written
// into it: it is opened so that reading or writing fails. A limit on the size of files is an error of the writer, not a
// signal.
void secure_standard_files();

// Throw Error(storage) if the text, or anything before it, could not be written to standard output.
void write_output(std::string_view text);
void flush_output();

}  // namespace unroll::cli
