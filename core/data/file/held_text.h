// SPDX-License-Identifier: Apache-2.0
// A reader of a text in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "unroll/support/vfs.h"

namespace unroll {

// Reads a text, which must outlive this object.
class HeldText : public Vfs::Reader {
 public:
  explicit HeldText(std::string_view text) : text_(text) {}
  std::size_t size() const override { return text_.size(); }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    std::copy_n(std::as_bytes(std::span(text_)).begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
  }

 private:
  std::string_view text_;
};

class OwnedText final : public Vfs::Reader {
 public:
  explicit OwnedText(std::string text) : text_(std::move(text)) {}
  std::size_t size() const override { return text_.size(); }
  void read_at(std::size_t offset, std::span<std::byte> to) const override { HeldText(text_).read_at(offset, to); }

 private:
  std::string text_;
};

}  // namespace unroll
