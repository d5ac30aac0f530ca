// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "frontends/onnx/export.h"

namespace unroll::onnx {
namespace {

namespace fs = std::filesystem;

// "lm.onnx.0123456789abcdef.data", or what a killed process left of it.
bool is_data_of(const std::string& file, const std::string& name) {
  constexpr std::size_t k_digits = 16;
  if (!file.starts_with(name + ".") || file.size() < name.size() + 1 + k_digits) return false;
  const std::string digits = file.substr(name.size() + 1, k_digits), rest = file.substr(name.size() + 1 + k_digits);
  return digits.find_first_not_of("0123456789abcdef") == std::string::npos && (rest == ".data" || rest == ".data.tmp");
}

}  // namespace

void write_model_files(Vfs& vfs, const std::string& path, const ExportedModel& model) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  if (!model.location.empty()) {
    static constexpr std::byte k_zeros[4096] = {};
    std::vector<std::span<const std::byte>> parts;
    std::size_t end = 0;
    for (const ExternalTensor& each : model.external) {
      parts.push_back(std::span(k_zeros).first(each.offset - end));
      parts.push_back(each.tensor->bytes());
      end = each.offset + each.tensor->bytes().size();
    }
    write_atomically(vfs, (folder / model.location).string(), parts);
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(model.bytes));
  write_atomically(vfs, path, std::span(&bytes, 1));
  for (const std::string& file : vfs.list(folder.empty() ? "." : folder.string()))
    if (is_data_of(file, name) && file != model.location) vfs.remove((folder / file).string());
}

}  // namespace unroll::onnx
