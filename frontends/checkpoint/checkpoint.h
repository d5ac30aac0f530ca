// SPDX-License-Identifier: Apache-2.0
// The tensors of a PyTorch checkpoint: a file of torch.save (since PyTorch 1.6) or a safetensors file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "unroll/tensor.h"
#include "unroll/vfs.h"

namespace unroll::checkpoint {

struct NamedTensor {
  std::string name;  // "lstm.weight_ih_l0"
  Tensor tensor;     // f32, f64, i32 or b8
  std::string stored;  // type in the file: "bf16[16,3]"
};
struct Checkpoint {
  std::vector<NamedTensor> tensors;
  bool in_order = false;  // as the program that wrote the file registered them
};

// f16 and bf16 become f32, and integers i32, exactly. Throws Error(input_file), which names the file and the tensor, on
// damaged files, integers that do not fit i32, big-endian data, views outside of their storage or onto the same element
// twice, and on anything beyond tensors in dicts and lists.
Checkpoint parse_checkpoint(std::span<const std::byte> file, const std::string& name);
Checkpoint load_checkpoint(const std::string& path, Vfs& vfs = disk());

}  // namespace unroll::checkpoint
