// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/team.h"

#include "backends/onednn/library.h"

namespace unroll::onednn {

Team::Team(int n) : n_(n), lockstep_(n) {
  if (n > 1 && !library().has_openmp()) own_ = std::make_unique<cpu::Team>(n);
}

void Team::run_erased(cpu::Lockstep::Call call, void* argument) {
  if (n_ == 1) return call(argument, cpu::Part{});
  if (own_) return own_->run([&](const cpu::Part& part) { call(argument, part); });
  struct Run {
    Team* team;
    cpu::Lockstep::Call call;
    void* argument;
    bool alone;
  } run{this, call, argument, false};
  const auto part = [](void* at) {
    Run& r = *static_cast<Run*>(at);
    const Library& l = library();
    const int given = l.omp_get_num_threads(), index = l.omp_get_thread_num();
    if (given == r.team->n_) r.team->lockstep_.do_part(r.call, r.argument, index, given);
    else if (index == 0) r.alone = true;
  };
  library().gomp_parallel(part, &run, static_cast<unsigned>(n_), 0);
  lockstep_.rethrow();
  // OpenMP gives fewer threads than asked for inside a parallel region of the caller, or by its limits. Results are the
  // same for any number.
  if (run.alone) call(argument, cpu::Part{});
}

}  // namespace unroll::onednn
