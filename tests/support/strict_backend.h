// SPDX-License-Identifier: Apache-2.0
// Another backend whose plans must also satisfy the strict device, and a record of what it was asked to do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/passes/forwarding_backend.h"
#include "tests/support/strict.h"
#include "unroll/support/error.h"

namespace unroll::testing {

class StrictBackend final : public ForwardingBackend {
 public:
  explicit StrictBackend(const std::string& name) : ForwardingBackend(make_backend(name, {.threads = 1})) {}

  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override {
    calls_->push_back("upload " + std::to_string(from.size()));
    inner_.upload(buffer, offset, from);
  }
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override {
    calls_->push_back("download");
    inner_.download(buffer, offset, to);
  }
  // Throws Error(internal) when the plan breaks a promise.
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    for (const std::string& finding : strict::violations(*plan, common::hazards_of(*plan)))
      throw Error(ErrorKind::internal, "strict device", finding);
    ++n_plans_;
    return std::make_unique<Recorded>(inner_.compile(std::move(plan)), calls_);
  }
  void wait() override {
    calls_->push_back("wait");
    inner_.wait();
  }

  int n_plans() const { return n_plans_; }
  // "upload 64", "run", "wait", "download" in order.
  std::vector<std::string>& calls() { return *calls_; }

 private:
  using Calls = std::shared_ptr<std::vector<std::string>>;
  class Recorded final : public ForwardingExecutable {
   public:
    Recorded(std::unique_ptr<Executable> inner, Calls calls)
        : ForwardingExecutable(std::move(inner)), calls_(std::move(calls)) {}
    void run(const Bindings& bindings) override {
      calls_->push_back("run");
      inner_->run(bindings);
    }

   private:
    Calls calls_;
  };

  Calls calls_ = std::make_shared<std::vector<std::string>>();
  int n_plans_ = 0;
};

}  // namespace unroll::testing
