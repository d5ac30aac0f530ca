// SPDX-License-Identifier: Apache-2.0
// A call of a library of NVIDIA's as a launch of a program: it puts work on the stream, where a graph may capture it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace unroll::cuda {

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // For reports: the library, and what it does besides the node.
  virtual std::string name() const = 0;
  virtual bool may_refuse_capture() const { return false; }  // as a node of a CUDA graph
  // Operands in the order of the launch. Throws Error(memory) or Error(device).
  virtual void run(std::span<const CUdeviceptr> operands, CUstream stream) const = 0;
};

// A size in a product. NVIDIA's guide "Optimizing Recurrent Layers": tensor cores are fastest if sizes are multiples of
// 16 bytes, 8 numbers of 16 bits or 4 of tf32. "; faster with multiples of 8: I 100", or nothing.
struct NamedSize {
  const char* name;
  std::int64_t size;
};
inline std::string advice(std::int64_t multiple, std::initializer_list<NamedSize> sizes) {
  std::string text;
  for (const NamedSize& each : sizes)
    if (each.size % multiple != 0)
      text += (text.empty() ? "; faster with multiples of " + std::to_string(multiple) + ": " : ", ") +
              std::string(each.name) + " " + std::to_string(each.size);
  return text;
}

}  // namespace unroll::cuda
