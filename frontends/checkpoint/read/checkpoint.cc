// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/read/checkpoint.h"

#include <utility>

#include "core/io/safetensors_header.h"
#include "frontends/checkpoint/read/budgets.h"
#include "frontends/checkpoint/read/fold.h"
#include "frontends/checkpoint/read/formats.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::checkpoint {

namespace {

Checkpoint parse_tied(std::span<const std::byte> file, const std::string& name) {
  const FileHeader header = parse_safetensors_header(file, name);
  Checkpoint checkpoint;
  const auto add = [&](const std::string& tensor_name, const std::string& entry, const std::string& tied) {
    const FileEntry& e = header.entries.at(entry);
    Shape shape;
    if (e.shape.size() <= std::size_t{Shape::k_max_rank}) shape = Shape(Ints(e.shape.begin(), e.shape.end()));
    Result<Tensor> tensor = attempt([&] { return read_entry(file, header, entry, name); });
    checkpoint.tensors.push_back(named_tensor(tensor_name, std::move(tensor), e.text() + tied, std::move(shape)));
  };
  for (const auto& [entry, where] : header.entries) add(entry, entry, "");
  const auto has = [&](const std::string& entry) { return header.entries.contains(entry); };
  for (const auto& [alias, kept] : tied_tensors(header.metadata, has, name)) add(alias, kept, ", tied to " + kept);
  return checkpoint;
}

}  // namespace

NamedTensor named_tensor(const std::string& name, Result<Tensor> tensor, std::string stored, Shape shape) {
  if (!tensor && tensor.error().kind() != ErrorKind::input_file) throw_error(tensor.error());
  if (!tensor) return {name, {}, std::move(stored), std::move(shape), tensor.error()};
  return {name, *std::move(tensor), std::move(stored), std::move(shape), std::nullopt};
}

Checkpoint parse_checkpoint(std::span<const std::byte> file, const std::string& name) {
  Checkpoint read;
  if (begins_old_torch(file)) {
    read = parse_old_torch(file, name);
  } else if (begins_zip(file)) {
    const ZipFile zip(file, name);
    read = is_npz(zip) ? parse_npz(zip, name) : parse_torch(zip, name);
  } else {
    read = parse_tied(file, name);
  }
  fold_parametrizations(read);
  return read;
}

Checkpoint load_checkpoint(const std::string& path, Vfs& vfs) {
  const Bytes file = vfs.read(path, k_max_file_bytes);
  return parse_checkpoint({file.data(), file.size()}, path);
}

}  // namespace unroll::checkpoint
