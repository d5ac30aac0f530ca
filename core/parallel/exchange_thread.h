// SPDX-License-Identifier: Apache-2.0
// Overlaps exchanges with computation. Jobs run in order in a separate thread, which the first job starts.
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
  ~ExchangeThread();  // waits for the running job; drops the others
  ExchangeThread(const ExchangeThread&) = delete;
  ExchangeThread& operator=(const ExchangeThread&) = delete;

  void start(std::function<void()> job);
  // Waits for all jobs. Throws the error of the first failed job; later jobs are dropped. Records the part of the job
  // time that was hidden by computation.
  void finish();
  // Runs a job in the caller's thread, after all started jobs.
  void run_last(const std::function<void()>& job);

 private:
  void work();

  Communicator& ranks_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_busy_ = false, ends_ = false;
  double job_seconds_ = 0;  // since finish()
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace unroll
