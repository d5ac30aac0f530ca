// SPDX-License-Identifier: Apache-2.0
#include "frontends/config/text_file.h"

#include <array>
#include <span>

#include "unroll/support/vfs.h"

namespace unroll::cli {

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  const Bytes bytes = disk().read(path, max_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_text_file(const std::string& path, const std::string& text) {
  write_atomically(disk(), path, std::array{std::as_bytes(std::span(text))});
}

}  // namespace unroll::cli
