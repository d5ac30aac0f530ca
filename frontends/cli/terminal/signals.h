// SPDX-License-Identifier: Apache-2.0
// Signal handling of commands. Without catch_stop_signals() a fatal signal first removes the process's temporary files.
// With it the first SIGINT, SIGTERM or SIGHUP sets a flag that the training loop polls, and the second one kills the
// process.
#pragma once

namespace unroll::cli {

void remove_temporary_files_at_end();  // call once, at the start
void catch_stop_signals();
int stop_signal();  // 0 before the first signal
// SIGUSR1, which MPICH's launcher sends when another process has died, sets a flag too.
void catch_lost_process();
bool has_lost_process();

}  // namespace unroll::cli
