// SPDX-License-Identifier: Apache-2.0
// The pickle of a torch.save file as data. Nothing is imported or called: a global is refused, with its name, unless it
// denotes a tensor, an ordered dict or a storage. The opcodes are those of protocol 2 that torch.save writes (Python,
// Lib/pickletools.py).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "frontends/checkpoint/tensor_view.h"

namespace unroll::checkpoint {

struct NamedView {
  std::string name;  // keys of dicts and indices of lists, joined by dots
  TensorView view;
};

// Returns the tensors of a pickle in its order. Other values, such as numbers, are omitted. Throws Error(input_file),
// which names `file`, for other objects, damaged pickles, and sizes above the budgets.
std::vector<NamedView> read_pickle(std::span<const std::byte> pickle, const std::string& file);

}  // namespace unroll::checkpoint
