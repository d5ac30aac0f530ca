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

TEST_CASE("every part runs exactly once in every run") {
  for (int n = 1; n <= 5; ++n) {
    Team team(n);
    CHECK(team.size() == n);
    std::vector<int> counts(static_cast<std::size_t>(n), 0);
    for (int run = 0; run < 200; ++run)
      team.run([&](const Part& part) {
        CHECK(part.count == n);
        ++counts[static_cast<std::size_t>(part.index)];
      });
    for (const int count : counts) CHECK(count == 200);
  }
}

TEST_CASE("what is written before a barrier is seen after it") {
  for (int n = 1; n <= 4; ++n) {
    Team team(n);
    // A ring: each part adds its left neighbor's last value to its own; two buffers, one barrier per round.
    const auto size = static_cast<std::size_t>(n);
    std::array<std::vector<long>, 2> values{std::vector<long>(size, 1), std::vector<long>(size, 0)};
    const int rounds = 30;
    team.run([&](const Part& part) {
      const auto i = static_cast<std::size_t>(part.index);
      for (int r = 0; r < rounds; ++r) {
        const auto& from = values[static_cast<std::size_t>(r % 2)];
        values[static_cast<std::size_t>((r + 1) % 2)][i] = from[i] + from[(i + size - 1) % size];
        part.sync();
      }
    });
    for (const long value : values[0]) CHECK(value == 1L << rounds);
  }
}

TEST_CASE("an exception of a part reaches the caller and the team stays usable") {
  for (int n = 1; n <= 4; ++n)
    for (int thrower = 0; thrower < n; ++thrower) {
      Team team(n);
      std::string caught;
      try {
        team.run([&](const Part& part) {
          part.sync();
          if (part.index == thrower) throw std::runtime_error("part " + std::to_string(thrower));
          for (int i = 0; i < 3; ++i) part.sync();
        });
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
      CHECK(caught == "part " + std::to_string(thrower));
      std::atomic<int> ran{0};
      team.run([&](const Part& part) {
        part.sync();
        ++ran;
        part.sync();
      });
      CHECK(ran == n);
    }
}

TEST_CASE("threads that went to sleep wake for the next run") {
  Team team(3);
  int total = 0;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> ran{0};
    team.run([&](const Part&) { ++ran; });
    total += ran;
  }
  CHECK(total == 15);
}

TEST_CASE("a thread that waits long leaves its core to others, at a barrier and at the end of a run") {
  Team team(2);
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  const std::clock_t before = std::clock();  // processor time of all threads
  team.run([&](const Part& part) {
    if (part.index == 0) wait();
    part.sync();
    if (part.index == 1) wait();
  });
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.06);
}

TEST_CASE("a part that fails wakes those that sleep at a barrier") {
  Team team(3);
  CHECK_THROWS_WITH(team.run([&](const Part& part) {
    if (part.index == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw std::runtime_error("late");
    }
    part.sync();
  }), "late");
  int ran = 0;
  team.run([&](const Part& part) {
    part.sync();
    if (part.index == 0) ++ran;
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

bool all_parts_run(Team& team) {
  std::atomic<int> ran{0};
  team.run([&](const Part& part) {
    part.sync();
    ++ran;
    part.sync();
  });
  return ran == team.size();
}

}  // namespace

TEST_CASE("the child of a fork has threads of its own") {
  for (int n = 1; n <= 4; ++n) {
    Team team(n);
    CHECK(holds_in_child([&] { return all_parts_run(team); }));  // before a run
    CHECK(all_parts_run(team));
    CHECK(holds_in_child([&] { return all_parts_run(team) && all_parts_run(team); }));
    CHECK(holds_in_child([&] { return holds_in_child([&] { return all_parts_run(team); }); }));
    CHECK(all_parts_run(team));
  }
}

TEST_CASE("a team can be destroyed in the child of a fork") {
  auto team = std::make_unique<Team>(3);
  CHECK(all_parts_run(*team));
  CHECK(holds_in_child([&] {
    team.reset();
    return true;
  }));
  CHECK(all_parts_run(*team));
}

TEST_CASE("a fork in the middle of another thread's run leaves a team that the child can use") {
  Team team(3);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) all_parts_run(team);
  });
  for (int i = 0; i < 20; ++i) CHECK(holds_in_child([&] { return all_parts_run(team); }));
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
          const Range range = Part{index, count, nullptr}.share(n, grain);
          CHECK(range.begin == next);
          CHECK((range.begin % grain == 0 || range.begin == n));
          next = range.end;
        }
        CHECK(next == n);
      }
}
