// SPDX-License-Identifier: Apache-2.0
#include "core/io/digest.h"

#include <charconv>
#include <string_view>

#include "core/support/crc32c.h"

namespace unroll {

namespace {

class Digest {
 public:
  void add(std::string_view text) {
    const std::uint64_t size = text.size();
    crc_.add(std::as_bytes(std::span(&size, 1)));
    crc_.add(std::as_bytes(std::span(text.data(), text.size())));
  }
  void add(const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) {
      add(name);
      add(tensor.type().text());
      crc_.add(tensor.bytes());
    }
  }
  std::string text() const {
    char hex[16];
    const std::string digits(hex, std::to_chars(hex, hex + sizeof hex, crc_.value(), 16).ptr);
    return k_digest_form + std::string(8 - digits.size(), '0') + digits;
  }

 private:
  Crc32c crc_;
};

}  // namespace

std::string digest_of(const TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  Digest digest;
  digest.add(tensors);
  for (const auto& [key, value] : metadata) {
    if (key == k_digest) continue;
    digest.add(key);
    digest.add(value);
  }
  return digest.text();
}

}  // namespace unroll
