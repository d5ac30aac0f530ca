// SPDX-License-Identifier: Apache-2.0
// A long text as token ids: in memory, or re-encoded from its file block by block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/data/tokens/tokenizer.h"
#include "unroll/support/vfs.h"

namespace unroll {

class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual std::int64_t size() const = 0;
  // Reads existing tokens [begin, begin + to.size()), from any thread.
  virtual void read(std::int64_t begin, std::span<std::int32_t> to) const = 0;
};

class TokenList : public Tokens {
 public:
  explicit TokenList(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  std::int64_t size() const override { return std::ssize(ids_); }
  void read(std::int64_t begin, std::span<std::int32_t> to) const override;

 private:
  std::vector<std::int32_t> ids_;
};

// Splits bytes [begin, end) of a file into blocks of at most `block` bytes. A block ends before white space in its
// second half, if there is any, and never within a UTF-8 character. So every tokenizer gives the same tokens as for the
// whole text.
class TextBlocks {
 public:
  // `skips_marks`: text() removes byte order marks at the start of lines, which concatenated files contain.
  TextBlocks(std::shared_ptr<const Vfs::Reader> file, std::size_t begin, std::size_t end, std::size_t block,
             bool skips_marks)
      : file_(std::move(file)), begin_(begin), end_(end), block_(block), skips_marks_(skips_marks) {}
  // Calls `take` with the bytes of each block and their position in the file.
  void for_each(const std::function<void(std::string_view bytes, std::size_t at)>& take) const;
  std::string read(std::size_t begin, std::size_t end) const;
  // Returns the text of a block for tokenizers.
  std::string text(std::string bytes) const;
  void for_each_text(const std::function<void(std::string_view text)>& take) const;
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }

 private:
  std::shared_ptr<const Vfs::Reader> file_;
  std::size_t begin_, end_, block_;
  bool skips_marks_;
};

// Stores 16 bytes per block, and the tokens of the last `kept` blocks.
class BlockTokens : public Tokens {
 public:
  BlockTokens(TextBlocks text, Tokenizer tokenizer, std::size_t kept, std::string name);
  std::int64_t size() const override { return n_tokens_; }
  void read(std::int64_t begin, std::span<std::int32_t> to) const override;

 private:
  struct Block {
    std::size_t at;            // position in the file
    std::int64_t first_token;  // in the text
  };
  struct Kept {
    std::size_t block = 0;
    std::uint64_t used = 0;  // time of last use; 0: never
    std::vector<std::int32_t> ids;
  };
  const std::vector<std::int32_t>& ids_of(std::size_t block) const;

  TextBlocks text_;
  Tokenizer tokenizer_;
  std::string name_;
  std::vector<Block> blocks_;
  std::int64_t n_tokens_ = 0;
  mutable std::mutex mutex_;  // guards all members below
  mutable std::vector<Kept> kept_;
  mutable std::uint64_t reads_ = 0;
};

}  // namespace unroll
