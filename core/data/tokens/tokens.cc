// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/tokens.h"

#include <algorithm>

#include "core/data/text/encoding.h"
#include "core/support/interruption.h"
#include "core/support/text/utf8.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

bool is_token_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Returns the end of a block that is followed by more text.
std::size_t cut_of(std::string_view text) {
  for (std::size_t at = text.size() - 1; at > text.size() / 2; --at)
    if (is_token_space(text[at])) return at;
  std::size_t at = text.size() - 1;
  while (at > 1 && text.size() - at < 4 && continues_character(text[at])) --at;
  return at;
}

}  // namespace

void TokenList::read(std::int64_t begin, std::span<std::int32_t> to) const {
  std::copy_n(ids_.begin() + begin, to.size(), to.begin());
}

std::string TextBlocks::read(std::size_t begin, std::size_t end) const {
  std::string text(end - begin, '\0');
  file_->read_at(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string TextBlocks::text(std::string bytes) const {
  return skips_marks_ ? without_marks(std::move(bytes)) : bytes;
}

void TextBlocks::for_each_text(const std::function<void(std::string_view text)>& take) const {
  for_each([&](std::string_view bytes, std::size_t) { take(text(std::string(bytes))); });
}

void TextBlocks::for_each(const std::function<void(std::string_view text, std::size_t at)>& take) const {
  for (std::size_t at = begin_; at < end_;) {
    check_interruption();
    const std::string text = read(at, std::min(end_, at + block_));
    const std::size_t size = at + text.size() < end_ ? cut_of(text) : text.size();
    take(std::string_view(text).substr(0, size), at);
    at += size;
  }
}

BlockTokens::BlockTokens(TextBlocks text, Tokenizer tokenizer, std::size_t kept, std::string name)
    : text_(std::move(text)), tokenizer_(std::move(tokenizer)), name_(std::move(name)),
      kept_(std::max<std::size_t>(kept, 1)) {
  text_.for_each([&](std::string_view block, std::size_t at) {
    blocks_.push_back({at, n_tokens_});
    n_tokens_ += static_cast<std::int64_t>(tokenizer_.encode(text_.text(std::string(block)), name_).size());
  });
  blocks_.push_back({text_.end(), n_tokens_});
}

const std::vector<std::int32_t>& BlockTokens::ids_of(std::size_t block) const {
  Kept* oldest = &kept_.front();
  for (Kept& k : kept_) {
    if (k.used > 0 && k.block == block) {
      k.used = ++reads_;
      return k.ids;
    }
    if (k.used < oldest->used) oldest = &k;
  }
  *oldest = {};  // frees the oldest block before the next allocation
  const std::string text = text_.text(text_.read(blocks_[block].at, blocks_[block + 1].at));
  std::vector<std::int32_t> ids = tokenizer_.encode(text, name_);
  if (std::ssize(ids) != blocks_[block + 1].first_token - blocks_[block].first_token)
    throw Error(ErrorKind::input_file, name_, "changed while it was in use",
                "Do not modify the file while it is in use");
  *oldest = {block, ++reads_, std::move(ids)};
  return oldest->ids;
}

void BlockTokens::read(std::int64_t begin, std::span<std::int32_t> to) const {
  const std::lock_guard lock(mutex_);
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), begin,
                                      [](std::int64_t token, const Block& b) { return token < b.first_token; });
  std::size_t block = after - blocks_.begin() - 1;
  for (std::size_t done = 0; done < to.size(); ++block) {
    const std::vector<std::int32_t>& ids = ids_of(block);
    const std::size_t from = begin + static_cast<std::int64_t>(done) - blocks_[block].first_token;
    const std::size_t n = std::min(ids.size() - from, to.size() - done);
    std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(from), n, to.begin() + static_cast<std::ptrdiff_t>(done));
    done += n;
  }
}

}  // namespace unroll
