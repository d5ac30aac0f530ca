// SPDX-License-Identifier: Apache-2.0
// One reader for each form of a file of torch.save or NumPy. Throw Error(input_file), as parse_checkpoint.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "frontends/checkpoint/read/named_tensor.h"
#include "frontends/checkpoint/read/zip.h"

namespace unroll::checkpoint {

// Since PyTorch 1.6: a zip file of a pickle and storages. torch.jit.save writes the same.
Checkpoint parse_torch(const ZipFile& zip, const std::string& name);

// Before PyTorch 1.6: pickles and storages in a row.
bool begins_old_torch(std::span<const std::byte> file);
Checkpoint parse_old_torch(std::span<const std::byte> file, const std::string& name);

// numpy.savez: a zip file of arrays NAME.npy, in the order of the file.
bool is_npz(const ZipFile& zip);
Checkpoint parse_npz(const ZipFile& zip, const std::string& name);

}  // namespace unroll::checkpoint
