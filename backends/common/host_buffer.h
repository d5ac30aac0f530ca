// SPDX-License-Identifier: Apache-2.0
// Buffers in host memory for backends that run on the CPU: 64-byte aligned, from the current allocator; or borrowed
// from the caller, with the alignment of the elements.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <typeinfo>

#include "unroll/passes/backend.h"
#include "unroll/support/error.h"
#include "unroll/support/tensor.h"

namespace unroll {

// Memory must not be null even if empty, because offsets are added to its address.
inline std::size_t at_least_one(std::size_t n_bytes) { return n_bytes == 0 ? 1 : n_bytes; }

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t n_bytes)
      : bytes_(at_least_one(n_bytes)), data_(bytes_.data()), n_bytes_(n_bytes) {}
  explicit HostBuffer(std::span<std::byte> borrowed) : data_(borrowed.data()), n_bytes_(borrowed.size()) {}

  std::size_t bytes() const override { return n_bytes_; }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }

 private:
  Bytes bytes_;  // empty if borrowed
  std::byte* data_;
  std::size_t n_bytes_;
};

// Returns the host memory of a buffer. Throws Error(usage) for a buffer of another kind of backend.
inline HostBuffer& as_host(Buffer& buffer) {
  if (typeid(buffer) == typeid(HostBuffer))
    return static_cast<HostBuffer&>(buffer);  // final: cheaper than a dynamic_cast
  throw Error(ErrorKind::usage, "Buffer", "the buffer was allocated by another backend",
              "allocate it with the backend that compiled the plan");
}

inline const HostBuffer& as_host(const Buffer& buffer) { return as_host(const_cast<Buffer&>(buffer)); }

// Base class of all backends with buffers in host memory. The backend's caller has checked ranges.
class HostBackend : public Backend {
 public:
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<HostBuffer>(bytes); }
  std::unique_ptr<Buffer> borrow(std::span<std::byte> memory) override {
    return memory.empty() ? nullptr : std::make_unique<HostBuffer>(memory);
  }
  std::span<std::byte> host_bytes(Buffer& buffer) override { return {as_host(buffer).data(), buffer.bytes()}; }
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(as_host(buffer).data() + offset, from.data(), from.size());
  }
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), as_host(buffer).data() + offset, to.size());
  }
};

}  // namespace unroll
