// SPDX-License-Identifier: Apache-2.0
// A text that is in memory already, read as a file is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "unroll/vfs.h"

namespace unroll {

// The text must outlive it.
class HeldText final : public Vfs::Reader {
 public:
  explicit HeldText(std::string_view text) : text_(text) {}
  std::size_t size() const override { return text_.size(); }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    std::copy_n(std::as_bytes(std::span(text_)).begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
  }

 private:
  std::string_view text_;
};

}  // namespace unroll
