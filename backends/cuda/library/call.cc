// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/call.h"

namespace unroll::cuda {

std::string advice(std::int64_t multiple, std::initializer_list<NamedSize> sizes) {
  std::string text;
  for (const NamedSize& each : sizes)
    if (each.size % multiple != 0)
      text += (text.empty() ? "; faster with multiples of " + std::to_string(multiple) + ": " : ", ") +
              std::string(each.name) + " " + std::to_string(each.size);
  return text;
}

}  // namespace unroll::cuda
