// SPDX-License-Identifier: Apache-2.0
// The handler only sets a flag, or leaves with 128 + signal, as a shell reports it.
#include "frontends/cli/terminal/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace unroll::cli {
namespace {

std::atomic<int> g_signal{0};
std::atomic<bool> g_lost_process{false};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_stop(int signal) {
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, signal)) _exit(128 + signal);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void catch_lost_process() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_lost_process.store(true); };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

bool has_lost_process() { return g_lost_process.load(); }

int stop_signal() { return g_signal.load(); }

}  // namespace unroll::cli
