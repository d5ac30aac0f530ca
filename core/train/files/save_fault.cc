// SPDX-License-Identifier: Apache-2.0
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"
#include "unroll/train/compare.h"

namespace unroll {

void save_fault(const NodeFault& fault, const std::string& folder, Vfs& vfs) {
  if (!fault.graph)
    throw Error(ErrorKind::usage, "save_fault", "the fault is in a loop, which cannot be replayed as a single node");
  vfs.make_folder(folder);
  const std::string text = print_graph(*fault.graph);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  write_atomically(vfs, folder + "/node.txt", std::span(&bytes, 1));
  TensorFile file;
  file.tensors = fault.tensors;
  file.metadata = {{"node", fault.text()}};
  save_safetensors(folder + "/node.safetensors", file, vfs);
}

}  // namespace unroll
