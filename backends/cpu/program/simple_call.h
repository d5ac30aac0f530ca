// SPDX-License-Identifier: Apache-2.0
// A call that runs a function over resolved operands.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/cpu/program/plan_view.h"

namespace unroll::cpu {

template <class F>
class Simple : public Call {
 public:
  Simple(std::string implementation, F run) : implementation_(std::move(implementation)), run_(std::move(run)) {}
  void run(const Frame& frame, const Worker& worker) override { run_(frame, worker); }
  std::string implementation() const override { return implementation_; }

 private:
  std::string implementation_;
  F run_;
};
template <class F>
std::unique_ptr<Call> simple(std::string implementation, F run) {
  return std::make_unique<Simple<F>>(std::move(implementation), std::move(run));
}

}  // namespace unroll::cpu
