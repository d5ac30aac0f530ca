// SPDX-License-Identifier: Apache-2.0
// What a step must not do: allocate, lock, or call the operating system. The allocation functions of this program
// count, and so do its locks; on Linux steps also run where every system call but read, write and exit ends the
// process.
#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "tests/support/sanitizers.h"
#include "unroll/model/stream.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

// The sanitizers have these functions themselves.
#if defined(UNROLL_SANITIZED) || !defined(__GLIBC__)
constexpr bool k_counts = false;
#else
constexpr bool k_counts = true;
#endif

namespace {
std::atomic<long> allocations{0}, locks{0};
}

#if !defined(UNROLL_SANITIZED) && defined(__GLIBC__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) { return ++allocations, __libc_malloc(n); }
void* calloc(std::size_t n, std::size_t size) { return ++allocations, __libc_calloc(n, size); }
void* realloc(void* p, std::size_t n) { return ++allocations, __libc_realloc(p, n); }
void* aligned_alloc(std::size_t alignment, std::size_t n) { return ++allocations, __libc_memalign(alignment, n); }
int posix_memalign(void** p, std::size_t alignment, std::size_t n) {
  *p = (++allocations, __libc_memalign(alignment, n));
  return *p ? 0 : 12;
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  return ++locks, real(mutex);
}
}
#endif

using namespace unroll;

namespace {

constexpr std::size_t I = 8, O = 32;

struct Quiet {
  std::unique_ptr<Backend> backend = make_backend("cpu", {.threads = 1});
  std::vector<float> x = std::vector<float>(4 * I), y = std::vector<float>(4 * O);

  Stream stream(const std::string& cell, WeightFormat weights) {
    const StreamModel model = recurrent_stream({.cell = cell, .hidden = O, .layers = 2}, I);
    Graph graph;
    Scope scope(graph, false);
    std::vector<Value> states;
    for (const Shape& shape : model.state_shapes(1)) states.push_back(filled(graph, {DType::f32, shape}, 0));
    model.build(scope, graph.input("x", {DType::f32, {1, 1, I}}), states);
    return {*backend, model, initialize(scope.parameters(), 1), {.chunk = 4, .weights = weights}};
  }
  bool step(Stream& s, int i) {
    x[static_cast<std::size_t>(i) % I] = std::sin(static_cast<float>(i));
    return s.step(std::span(x).first(I), std::span(y).first(O));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Quiet, "steps, chunks and resets allocate nothing and take no lock") {
  if (!k_counts) {
    MESSAGE("skipped: the allocation functions are not glibc's");
    return;
  }
  const long before = allocations;
  std::free(std::malloc(1));
  REQUIRE(allocations > before);  // the counter counts
  for (const char* cell : {"lstm", "gru", "lnlstm", "mgu"})
    for (const WeightFormat weights : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
      Stream s = stream(cell, weights);
      const long allocated = allocations, locked = locks;
      bool done = true;
      for (int i = 0; i < 100; ++i) done = step(s, i) && s.step(x, y) && s.reset(0) && done;
      CHECK(allocations == allocated);
      CHECK(locks == locked);
      CHECK(done);
    }
}

#if defined(__linux__) && defined(SYS_exit)
TEST_CASE_FIXTURE(Quiet, "steps make no system call") {
  if (!k_counts) {
    MESSAGE("skipped: sanitizers make calls of their own");
    return;
  }
  Stream s = stream("lstm", WeightFormat::f32);
  step(s, 0);
  constexpr int k_refused = 3;
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(k_refused);
    bool done = true;
    for (int i = 0; i < 1000; ++i) done = step(s, i) && done;
    syscall(SYS_exit, done ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == k_refused) {
    MESSAGE("skipped: the system has no seccomp");
    return;
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE_FIXTURE(Quiet, "a hundred thousand steps end where two halves of them end") {
  constexpr int k_steps = 100000;
  Stream s = stream("lstm", WeightFormat::f32);
  int failed = 0;
  for (int i = 0; i < k_steps / 2; ++i) failed += !step(s, i);
  Stream second = s.fork();
  const std::vector<float> middle = x;
  for (int i = k_steps / 2; i < k_steps; ++i) failed += !step(s, i);
  const std::vector<float> end = y;
  x = middle;
  for (int i = k_steps / 2; i < k_steps; ++i) failed += !step(second, i);
  CHECK(failed == 0);
  CHECK(y == end);
  for (const float value : y) CHECK(std::isfinite(value));
}
