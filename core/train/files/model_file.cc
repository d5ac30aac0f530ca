// SPDX-License-Identifier: Apache-2.0
// Parts of a model file that training and inference share: its digest, and the selection of parameters.
#include "core/io/digest.h"
#include "core/io/safetensors_header.h"
#include "core/support/tensor_role.h"
#include "core/support/text/in_quotes.h"
#include "core/train/files/checkpoint.h"
#include "unroll/support/error.h"

namespace unroll {

std::string digest_of(const Batch& batch) { return digest_of(batch.inputs, {}); }

void put_digest(TensorFile& file) { file.metadata[k_digest] = k_digest_form; }

void check_digest(const TensorFile& file, const std::string& path) {
  const auto at = file.metadata.find(k_digest);
  if (at == file.metadata.end()) return;
  const std::string now = digest_of(file.tensors, file.metadata);
  if (now != at->second)
    throw Error(ErrorKind::input_file, path,
                "is damaged, or was changed by another program: its content gives " + now + ", it was written with " +
                    in_quotes(at->second),
                "Use an older copy of the file. If you changed it on purpose, delete its metadata '" +
                    std::string(k_digest) + "'");
}

namespace {

TensorFile model_of(TensorFile file, const std::string& path) {
  check_digest(file, path);
  const auto has = [&](const std::string& name) { return file.tensors.contains(name); };
  for (const auto& [alias, kept] : tied_tensors(file.metadata, has, path))
    file.tensors.emplace(alias, file.tensors.at(kept));
  if (!file.metadata.contains("trainer.format")) return file;  // parameters only
  for (auto& [name, tensor] : file.tensors)
    if (const auto average = file.tensors.find(average_name(name)); average != file.tensors.end())
      tensor = average->second;
  std::erase_if(file.tensors, [](const auto& entry) { return role_of(entry.first) != TensorRole::parameter; });
  return file;
}

}  // namespace

TensorFile load_model(const std::string& path, Vfs& vfs) { return model_of(load_safetensors(path, vfs), path); }
TensorFile parse_model(std::span<const std::byte> bytes, const std::string& name) {
  return model_of(parse_safetensors(bytes, name), name);
}

Result<TensorFile> try_load_model(const std::string& path, Vfs& vfs) noexcept {
  return attempt([&] { return load_model(path, vfs); });
}

}  // namespace unroll
