// SPDX-License-Identifier: Apache-2.0
// What signals do to a command. Without catch_stop_signals() one that ends the process removes its temporary files
// first. With it the first SIGINT, SIGTERM or SIGHUP sets a flag that the training loop asks for, and the second one
// ends the process at once.
#pragma once

namespace unroll::cli {

void remove_temporary_files_at_end();  // call once, at the start
void catch_stop_signals();
int stop_signal();  // 0 while none has come
// SIGUSR1, with which MPICH's launcher tells that another process has died: a flag, too.
void catch_lost_process();
bool has_lost_process();

}  // namespace unroll::cli
