// SPDX-License-Identifier: Apache-2.0
// Fuzzed bytes as a file of records that is read in parts.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "frontends/data/records.h"

namespace unroll::testing {

class TextReader : public Vfs::Reader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}
  std::size_t size() const override { return text_.size(); }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    std::copy_n(std::as_bytes(std::span(text_)).begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
  }

 private:
  std::string_view text_;
};

inline RecordFile read_in_parts(std::string_view text) {
  return {std::make_shared<TextReader>(text), "fuzz", /*memory_limit=*/1};
}

}  // namespace unroll::testing
