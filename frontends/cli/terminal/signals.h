// SPDX-License-Identifier: Apache-2.0
// First SIGINT or SIGTERM: a flag that the training loop asks for. Second: the process ends at once.
#pragma once

namespace unroll::cli {

void catch_stop_signals();
int stop_signal();  // 0 while none has come
// SIGUSR1, with which MPICH's launcher tells that another process has died: a flag, too.
void catch_lost_process();
bool has_lost_process();

}  // namespace unroll::cli
