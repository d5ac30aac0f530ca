// SPDX-License-Identifier: Apache-2.0
// A trainer for custom training loops in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/support/process/forked.h"
#include "frontends/python/network/training.h"
#include "unroll/passes/backend.h"

namespace unroll::python {

// For one thread at a time; Python's lock is released during computation. Batches are dicts of arrays by name, which
// are read in place.
class NetworkTrainer {
 public:
  // The example determines names, dtypes and shapes. Empty parameters are drawn from the seed.
  NetworkTrainer(LossNetwork functions, const nanobind::dict& example, const std::vector<std::string>& settings,
                 const nanobind::dict& parameters, const std::string& backend, int threads);
  // Runs one update with the gradient of 1 to `accumulate` batches as one.
  nanobind::dict update(const std::vector<nanobind::dict>& batches, std::optional<double> lr);
  std::int64_t accumulate() const { return accumulate_; }
  nanobind::dict evaluate(const nanobind::dict& batch);
  nanobind::dict predict(const nanobind::dict& inputs);
  nanobind::dict state_dict();
  void load_state_dict(const nanobind::dict& parameters);
  void save(const std::string& path);
  void load(const std::string& path);
  std::int64_t updates() const { return trainer_->updates(); }
  const LossNetwork& functions() const { return functions_; }

 private:
  template <class Work>
  auto alone(const Work& work);

  LossNetwork functions_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Trainer> trainer_;
  std::int64_t accumulate_ = 1;
  std::unique_ptr<UseFlag> used_ = std::make_unique<UseFlag>();
};

void add_own_loop(nanobind::module_& module);

}  // namespace unroll::python
