// SPDX-License-Identifier: Apache-2.0
// Runs as one of the processes that mpirun or a similar launcher started.
#pragma once

#include <functional>

#include "unroll/parallel/communicator.h"

namespace unroll::cli {

// Runs `work` as one rank and returns its exit code. An error of one rank ends the others; a lost rank is an error
// after `timeout` seconds. Call if was_launched_by_mpi(). SIGINT and SIGTERM set stop_signal() from now on.
int on_launched_ranks(double timeout, const std::function<int(Communicator&)>& work);

}  // namespace unroll::cli
