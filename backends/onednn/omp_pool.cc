// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/omp_pool.h"

#include "backends/onednn/library.h"

namespace unroll::onednn {

ThreadPool::ThreadPool(int n) : n_(n), shared_run_(n) {
  if (n > 1 && !library().has_openmp()) own_ = std::make_unique<cpu::ThreadPool>(n);
}

void ThreadPool::run_erased(cpu::SharedRun::Call call, void* argument) {
  if (n_ == 1) return call(argument, cpu::Worker{});
  if (own_) return own_->run([&](const cpu::Worker& worker) { call(argument, worker); });
  struct Run {
    ThreadPool* pool;
    cpu::SharedRun::Call call;
    void* argument;
    bool alone;
  } run{this, call, argument, false};
  const auto worker = [](void* at) {
    Run& r = *static_cast<Run*>(at);
    const Library& l = library();
    const int given = l.omp_get_num_threads(), index = l.omp_get_thread_num();
    if (given == r.pool->n_) r.pool->shared_run_.do_part(r.call, r.argument, index, given);
    else if (index == 0) r.alone = true;
  };
  library().gomp_parallel(worker, &run, static_cast<unsigned>(n_), 0);
  shared_run_.rethrow();
  // OpenMP may give fewer threads than requested inside a parallel region of the caller, or by its limits. Results are
  // the same for any number.
  if (run.alone) call(argument, cpu::Worker{});
}

}  // namespace unroll::onednn
