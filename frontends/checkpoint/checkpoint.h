// SPDX-License-Identifier: Apache-2.0
// The tensors of a PyTorch checkpoint: a file of torch.save (since PyTorch 1.6) or a safetensors file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/error.h"
#include "unroll/support/tensor.h"
#include "unroll/support/vfs.h"

namespace unroll::checkpoint {

struct NamedTensor {
  std::string name;    // "lstm.weight_ih_l0"
  Tensor tensor;       // f32, f64, i32 or b8; empty where it is unusable
  std::string stored;  // type in the file: "bf16[16,3]", and the name of the tensor that it is tied to
  Shape shape;         // [] where there are more dimensions than a tensor can have
  std::optional<Error> unusable;  // why: its type, or an element that does not fit. To be thrown when it is read
};
struct Checkpoint {
  std::vector<NamedTensor> tensors;
  bool in_order = false;  // as the program that wrote the file registered them
};

// f16 and bf16 become f32, and integers i32, exactly. Tied tensors, of which a safetensors file holds one and names the
// others in its metadata, are all there. Throws Error(input_file), which names the file and the tensor, on damaged
// files, big-endian data, views outside of their storage or onto the same element twice, on anything beyond tensors in
// dicts and lists, and on a parameter that is tied to a tensor that is not there.
Checkpoint parse_checkpoint(std::span<const std::byte> file, const std::string& name);
Checkpoint load_checkpoint(const std::string& path, Vfs& vfs = disk());

}  // namespace unroll::checkpoint
