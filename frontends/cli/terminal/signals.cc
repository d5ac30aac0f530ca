// SPDX-License-Identifier: Apache-2.0
// Handlers only set a flag or remove files, then exit with the signal or with 128 + signal, as a shell reports it.
#include "frontends/cli/terminal/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/support/files/temporary_files.h"

namespace unroll::cli {
namespace {

std::atomic<int> g_signal{0};
std::atomic<bool> g_lost_process{false};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_stop(int signal) {
  int none = 0;
  if (g_signal.compare_exchange_strong(none, signal)) return;
  remove_temporary_files();
  _exit(128 + signal);
}

// The default action was restored; the second signal triggers it.
extern "C" void on_end(int signal) {
  remove_temporary_files();
  raise(signal);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void remove_temporary_files_at_end() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU})
    if (!is_ignored(signal)) handle(signal, on_end, static_cast<int>(SA_RESETHAND | SA_NODEFER));
}

void catch_stop_signals() {
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_stop, SA_RESTART);  // nohup ignores it
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, on_stop, SA_RESTART);
}

void catch_lost_process() {
  handle(SIGUSR1, [](int) { g_lost_process.store(true); }, SA_RESTART);
}

bool has_lost_process() { return g_lost_process.load(); }

int stop_signal() { return g_signal.load(); }

}  // namespace unroll::cli
