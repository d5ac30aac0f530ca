// SPDX-License-Identifier: Apache-2.0
// Claims everything, computes nothing: every output is zero. For tests of the core, it records what it is asked, and it
// takes no plan, of whatever backend, that breaks a promise (strict.h): Error(internal) says which.
#pragma once

#include <string>
#include <vector>

#include "backends/common/host_buffer.h"
#include "unroll/passes/backend.h"

namespace unroll {

class NullBackend final : public HostBackend {
 public:
  NullBackend();
  ~NullBackend() override;

  const Capabilities& describe() const override { return capabilities_; }
  Claim claim(const Graph& graph, const Node& node) const override;
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override;
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;
  void wait() override;

  // In order: "claim lstm", "allocate 64", "upload 64", "compile 12", "run", "wait", "download 64".
  const std::vector<std::string>& calls() const { return *calls_; }

 private:
  Capabilities capabilities_;
  std::shared_ptr<std::vector<std::string>> calls_;  // shared with the executables
};

}  // namespace unroll
