// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/launched_ranks.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "frontends/cli/terminal/signals.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

// Ends the process when MPI hangs, and the main thread with it.
void end_process(const Error& e) {
  std::fprintf(stderr, "unroll: error: %s\n", e.what());
  _exit(exit_code(e.kind()));
}

}  // namespace

int on_launched_ranks(double timeout, const std::function<int(Communicator&)>& work) {
  catch_stop_signals();
  catch_lost_process();
  const auto ranks = mpi_ranks({timeout, [] { return stop_signal() == SIGTERM || has_lost_process(); }, end_process});
  try {
    return work(*ranks);
  } catch (const std::exception& e) {
    ranks->fail(e.what());
    throw;
  }
}

}  // namespace unroll::cli
