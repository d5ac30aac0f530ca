// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a checkpoint: a file of torch.save or torch.jit.save, a safetensors file, or an .npz of NumPy.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/support/tensor.h"
#include "unroll/support/vfs.h"

namespace unroll::checkpoint {

struct NamedTensor {
  std::string name;    // "lstm.weight_ih_l0"
  Tensor tensor;       // f32, f64, i32 or b8; empty if it is unusable
  std::string stored;  // type in the file: "bf16[16,3]", and the name of the tensor that it is tied to
  Shape shape;         // [] if there are more dimensions than a tensor supports
  std::optional<Error> unusable;  // reason: its type, or an element out of range. Thrown when the tensor is read
};
struct Checkpoint {
  std::vector<NamedTensor> tensors;
  bool in_order = false;  // in the order in which the writing program registered them
  std::vector<std::string> skipped;  // classes and functions in the file whose objects were left out
};

// Whole modules, training states of Lightning and other dicts are read without executing anything: their tensors have
// the keys and attributes around them as names, joined by dots. Weight norm, spectral norm and pruning are folded into
// their weights. f16 and bf16 become f32, and integers i32, exactly. All tied tensors are present; a safetensors file
// stores one and names the others in its metadata. Throws Error(input_file), which names the file and the tensor, for
// damaged files, big-endian data, views outside of their storage or with repeated elements, and a parameter that is
// tied to a missing tensor.
Checkpoint parse_checkpoint(std::span<const std::byte> file, const std::string& name);
Checkpoint load_checkpoint(const std::string& path, Vfs& vfs = disk());

// The tensor, or the reason of type input_file why it is unusable. Throws other errors.
NamedTensor named_tensor(const std::string& name, Result<Tensor> tensor, std::string stored, Shape shape);

}  // namespace unroll::checkpoint
