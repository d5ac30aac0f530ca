// SPDX-License-Identifier: Apache-2.0
// What training costs besides its executables: the character language model's updates, with validation and checkpoints,
// beside the time its executables ran, and the process's memory from the first fifth of the run to its end.
// usage: trainer_cost TEXT_FILE FOLDER [SECONDS] [HIDDEN]
#include <unroll/tasks/tasks.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/passes/forwarding_backend.h"
#include "core/support/machine_memory.h"

using namespace unroll;

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The cpu backend, with a clock on every run and transfer.
class Timed final : public ForwardingBackend {
 public:
  Timed() : ForwardingBackend(make_backend("cpu")) {}
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    return std::make_unique<TimedExecutable>(inner_.compile(std::move(plan)), seconds_);
  }
  double seconds() const { return seconds_; }

 private:
  class TimedExecutable final : public ForwardingExecutable {
   public:
    TimedExecutable(std::unique_ptr<Executable> inner, double& seconds)
        : ForwardingExecutable(std::move(inner)), seconds_(seconds) {}
    void run(const Bindings& bindings) override {
      const auto start = Clock::now();
      inner_->run(bindings);
      seconds_ += seconds_since(start);
    }

   private:
    double& seconds_;
  };
  double seconds_ = 0;  // of all runs; cpu has ended when run() returns
};

double resident_mib() { return static_cast<double>(resident_memory()) / (1 << 20); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: trainer_cost TEXT_FILE FOLDER [SECONDS] [HIDDEN]\n"), 2;
  const double wanted = argc > 3 ? std::atof(argv[3]) : 30;
  std::ifstream file(argv[1]);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::int64_t hidden = argc > 4 ? std::atoi(argv[4]) : 96;
  const auto task = make_language_model({.model = {.cell = "lstm", .hidden = hidden}, .batch = 32}, text, argv[1]);
  TrainerOptions options;
  options.folder = argv[2];
  options.max_updates = 1 << 30;
  options.log_every = 20;
  options.validate_every = 500;
  options.checkpoint_every = 500;

  Timed backend;
  Trainer trainer(task, backend, options);
  const auto start = Clock::now();
  Clock::time_point begin;
  double run_before = 0, memory = 0;
  std::int64_t first = -1, last = 0;
  trainer.fit(
      [&](const Progress& p) {
        last = p.update;
        if (first >= 0 || seconds_since(start) < wanted / 5) return;
        first = p.update;
        begin = Clock::now();
        run_before = backend.seconds();
        memory = resident_mib();
      },
      [&] { return seconds_since(start) > wanted; });
  if (first < 0 || last <= first) return std::fprintf(stderr, "too few updates: give it more SECONDS\n"), 1;
  const double whole = seconds_since(begin), run = backend.seconds() - run_before, updates = double(last - first);
  std::printf("update_ms=%.3f executables_ms=%.3f overhead=%.2f%% resident_mib=%.1f grown=%.2f%% updates=%.0f\n",
              1e3 * whole / updates, 1e3 * run / updates, 100 * (whole / run - 1), memory,
              100 * (resident_mib() / memory - 1), updates);
}
