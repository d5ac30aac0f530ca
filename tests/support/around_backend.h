// SPDX-License-Identifier: Apache-2.0
// A backend that does what another one does, for tests that change one thing of it.
#pragma once

#include <memory>
#include <span>

#include "unroll/backend.h"

namespace unroll::testing {

class AroundBackend : public Backend {
 public:
  explicit AroundBackend(Backend& inner) : inner_(inner), capabilities_(inner.describe()) {}
  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph& graph, const Node& node) const override { return inner_.claim(graph, node); }
  Claim claim_in(const Graph& graph, const Node& node, Precision precision) const override {
    return inner_.claim_in(graph, node, precision);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void upload(Buffer& b, std::size_t at, std::span<const std::byte> from) override { inner_.upload(b, at, from); }
  void download(const Buffer& b, std::size_t at, std::span<std::byte> to) override { inner_.download(b, at, to); }
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override { return inner_.compile(plan); }
  void wait() override { inner_.wait(); }

 protected:
  Backend& inner_;
  Capabilities capabilities_;
};

}  // namespace unroll::testing
