// SPDX-License-Identifier: Apache-2.0
// A backend around another one, and an executable around another one: everything is passed on. Wrappers that measure,
// record, delay or check derive from them and override what they change. They see every upload and download, since no
// memory is borrowed.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "unroll/passes/backend.h"

namespace unroll {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}  // which must outlive this one
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : owned_(std::move(inner)), inner_(*owned_) {}

  const Capabilities& describe() const override { return inner_.describe(); }
  Claim claim(const Graph& graph, const Node& node) const override { return inner_.claim(graph, node); }
  Claim claim_in(const Graph& graph, const Node& node, Precision precision) const override {
    return inner_.claim_in(graph, node, precision);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void upload(Buffer& to, std::size_t at, std::span<const std::byte> from) override { inner_.upload(to, at, from); }
  void download(const Buffer& from, std::size_t at, std::span<std::byte> to) override { inner_.download(from, at, to); }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override {
    return inner_.compile(std::move(plan));
  }
  void wait() override { inner_.wait(); }
  Communicator* communicator() const override { return inner_.communicator(); }

 private:
  std::unique_ptr<Backend> owned_;  // null: the caller's

 protected:
  Backend& inner_;
};

class ForwardingExecutable : public Executable {
 public:
  explicit ForwardingExecutable(std::unique_ptr<Executable> inner) : inner_(std::move(inner)) {}
  void run(const Bindings& bindings) override { inner_->run(bindings); }
  std::vector<ReportLine> report() const override { return inner_->report(); }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

 protected:
  std::unique_ptr<Executable> inner_;
};

}  // namespace unroll
