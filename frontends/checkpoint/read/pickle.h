// SPDX-License-Identifier: Apache-2.0
// The pickle of a torch.save file as data. Nothing is imported or called: an object of a class other than tensors,
// storages and ordered dicts becomes its attributes and items, and its class is named. The opcodes are those of
// protocols 2 to 5 (Python, Lib/pickletools.py).
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "frontends/checkpoint/read/tensor_view.h"

namespace unroll::checkpoint {

struct NamedView {
  std::string name;  // keys of dicts, attributes of objects and indices of lists, joined by dots
  TensorView view;
};
struct PickleTensors {
  std::vector<NamedView> tensors;  // in the order of the pickle
  std::set<std::string> skipped;   // classes and functions of which nothing else was read
  std::map<std::string, Stored> storages;  // types by key, also of storages without a tensor
  std::size_t end = 0;                     // bytes of the pickle
};

// Other values, such as numbers, are omitted. A module of PyTorch has the names of its state dict. Throws
// Error(input_file), which names `file`, for damaged pickles and sizes above the budgets.
PickleTensors read_pickle(std::span<const std::byte> pickle, const std::string& file);

}  // namespace unroll::checkpoint
