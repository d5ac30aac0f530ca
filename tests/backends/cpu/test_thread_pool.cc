// SPDX-License-Identifier: Apache-2.0
// The cpu backend's threads: every part runs, barriers order memory, failures reach the caller.
#include "backends/cpu/threads/thread_pool.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitizers.h"

using namespace unroll::cpu;

TEST_CASE("every worker runs exactly once in every run") {
  for (int n = 1; n <= 5; ++n) {
    ThreadPool pool(n);
    CHECK(pool.size() == n);
    std::vector<int> counts(static_cast<std::size_t>(n), 0);
    for (int run = 0; run < 200; ++run)
      pool.run([&](const Worker& worker) {
        CHECK(worker.count == n);
        ++counts[static_cast<std::size_t>(worker.index)];
      });
    for (const int count : counts) CHECK(count == 200);
  }
}

TEST_CASE("what is written before a barrier is seen after it") {
  for (int n = 1; n <= 4; ++n) {
    ThreadPool pool(n);
    // A ring: each part adds its left neighbor's last value to its own; two buffers, one barrier per round.
    const auto size = static_cast<std::size_t>(n);
    std::array<std::vector<long>, 2> values{std::vector<long>(size, 1), std::vector<long>(size, 0)};
    const int rounds = 30;
    pool.run([&](const Worker& worker) {
      const auto i = static_cast<std::size_t>(worker.index);
      for (int r = 0; r < rounds; ++r) {
        const auto& from = values[static_cast<std::size_t>(r % 2)];
        values[static_cast<std::size_t>((r + 1) % 2)][i] = from[i] + from[(i + size - 1) % size];
        worker.sync();
      }
    });
    for (const long value : values[0]) CHECK(value == 1L << rounds);
  }
}

TEST_CASE("an exception of a worker reaches the caller and the pool stays usable") {
  for (int n = 1; n <= 4; ++n)
    for (int thrower = 0; thrower < n; ++thrower) {
      ThreadPool pool(n);
      std::string caught;
      try {
        pool.run([&](const Worker& worker) {
          worker.sync();
          if (worker.index == thrower) throw std::runtime_error("worker " + std::to_string(thrower));
          for (int i = 0; i < 3; ++i) worker.sync();
        });
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
      CHECK(caught == "worker " + std::to_string(thrower));
      std::atomic<int> ran{0};
      pool.run([&](const Worker& worker) {
        worker.sync();
        ++ran;
        worker.sync();
      });
      CHECK(ran == n);
    }
}

TEST_CASE("threads that went to sleep wake for the next run") {
  ThreadPool pool(3);
  int total = 0;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> ran{0};
    pool.run([&](const Worker&) { ++ran; });
    total += ran;
  }
  CHECK(total == 15);
}

TEST_CASE("a thread that waits long leaves its core to others, at a barrier and at the end of a run") {
  ThreadPool pool(2);
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  const std::clock_t before = std::clock();  // processor time of all threads
  pool.run([&](const Worker& worker) {
    if (worker.index == 0) wait();
    worker.sync();
    if (worker.index == 1) wait();
  });
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.06);
}

TEST_CASE("a worker that fails wakes those that sleep at a barrier") {
  ThreadPool pool(3);
  CHECK_THROWS_WITH(pool.run([&](const Worker& worker) {
    if (worker.index == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw std::runtime_error("late");
    }
    worker.sync();
  }), "late");
  int ran = 0;
  pool.run([&](const Worker& worker) {
    worker.sync();
    if (worker.index == 0) ++ran;
  });
  CHECK(ran == 1);
}

#if !defined(UNROLL_OTHER_SANITIZER)  // ThreadSanitizer ends a child that starts threads

namespace {

// Whether work() holds in a fork of this process, within a minute.
template <class Work>
bool holds_in_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // ends a child that hangs
    _exit(work() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool all_parts_run(ThreadPool& pool) {
  std::atomic<int> ran{0};
  pool.run([&](const Worker& worker) {
    worker.sync();
    ++ran;
    worker.sync();
  });
  return ran == pool.size();
}

}  // namespace

TEST_CASE("the child of a fork has threads of its own") {
  for (int n = 1; n <= 4; ++n) {
    ThreadPool pool(n);
    CHECK(holds_in_child([&] { return all_parts_run(pool); }));  // before a run
    CHECK(all_parts_run(pool));
    CHECK(holds_in_child([&] { return all_parts_run(pool) && all_parts_run(pool); }));
    CHECK(holds_in_child([&] { return holds_in_child([&] { return all_parts_run(pool); }); }));
    CHECK(all_parts_run(pool));
  }
}

TEST_CASE("a pool can be destroyed in the child of a fork") {
  auto pool = std::make_unique<ThreadPool>(3);
  CHECK(all_parts_run(*pool));
  CHECK(holds_in_child([&] {
    pool.reset();
    return true;
  }));
  CHECK(all_parts_run(*pool));
}

TEST_CASE("a fork in the middle of another thread's run leaves a pool that the child can use") {
  ThreadPool pool(3);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) all_parts_run(pool);
  });
  for (int i = 0; i < 20; ++i) CHECK(holds_in_child([&] { return all_parts_run(pool); }));
  stop = true;
  other.join();
}

#endif

TEST_CASE("shares cover the whole range without overlap, cut at the grain") {
  for (const std::int64_t n : {0, 1, 7, 64, 100})
    for (const std::int64_t grain : {1, 8, 16})
      for (int count = 1; count <= 5; ++count) {
        std::int64_t next = 0;
        for (int index = 0; index < count; ++index) {
          const Range range = Worker{index, count, nullptr}.share(n, grain);
          CHECK(range.begin == next);
          CHECK((range.begin % grain == 0 || range.begin == n));
          next = range.end;
        }
        CHECK(next == n);
      }
}
