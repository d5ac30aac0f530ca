// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a checkpoint: a file of torch.save or torch.jit.save, a safetensors file, or an .npz of NumPy.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "frontends/checkpoint/read/named_tensor.h"
#include "unroll/support/vfs.h"

namespace unroll::checkpoint {

// Whole modules, training states of Lightning and other dicts are read without executing anything: their tensors have
// the keys and attributes around them as names, joined by dots. Weight norm, spectral norm and pruning are folded into
// their weights. f16 and bf16 become f32, and integers i32, exactly. All tied tensors are present; a safetensors file
// stores one and names the others in its metadata. Throws Error(input_file), which names the file and the tensor, for
// damaged files, big-endian data, views outside of their storage or with repeated elements, and a parameter that is
// tied to a missing tensor.
Checkpoint parse_checkpoint(std::span<const std::byte> file, const std::string& name);
Checkpoint load_checkpoint(const std::string& path, Vfs& vfs = disk());

}  // namespace unroll::checkpoint
