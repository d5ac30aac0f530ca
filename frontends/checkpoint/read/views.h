// SPDX-License-Identifier: Apache-2.0
// Copies the tensors of a file out of their storages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "frontends/checkpoint/read/named_tensor.h"
#include "frontends/checkpoint/read/tensor_view.h"

namespace unroll::checkpoint {

[[noreturn]] void damaged(const std::string& file, const std::string& what, std::string_view next);

// Returns the number of elements. Throws Error(input_file) unless every element lies in the storage and none is read
// twice.
std::int64_t check_view(const TensorView& view, const std::string& file, const std::string& name);

// Returns the tensor of a checked view of `storage`, or why it is unusable. Throws Error(input_file) if the storage has
// another size than the view describes.
NamedTensor read_view(const TensorView& view, std::span<const std::byte> storage, const std::string& file,
                      const std::string& name);

}  // namespace unroll::checkpoint
