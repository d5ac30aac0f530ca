// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/export.h"

namespace unroll::onnx {

void write_model_files(Vfs& vfs, const std::string& path, const ExportedModel& model) {
  static constexpr std::byte k_zeros[4096] = {};
  DataFile data{.name = model.location, .parts = {}};
  std::size_t end = 0;
  for (const ExternalTensor& each : model.external) {
    data.parts.push_back(std::span(k_zeros).first(each.offset - end));
    data.parts.push_back(each.tensor->bytes());
    end = each.offset + each.tensor->bytes().size();
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(model.bytes));
  write_with_data(vfs, path, std::span(&bytes, 1), data);
}

}  // namespace unroll::onnx
