// SPDX-License-Identifier: Apache-2.0
// Exchanges while the thread that trains computes: jobs in the order in which they were given, in a thread that is made
// for the first one.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "unroll/parallel/communicator.h"

namespace unroll {

class ExchangeThread {
 public:
  explicit ExchangeThread(Communicator& ranks) : ranks_(ranks) {}
  ~ExchangeThread();  // waits for the job that is under way; others are left out
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  void start(std::function<void()> job);
  // Returns when all are done; throws what the first one threw that failed, and leaves out those after it. Notes how
  // much of their time was hidden.
  void finish();
  // A job in the caller's thread, after all that were started.
  void run_last(const std::function<void()>& job);

 private:
  void work();

  Communicator& ranks_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_busy_ = false, ends_ = false;
  double job_seconds_ = 0;  // since finish()
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace unroll
