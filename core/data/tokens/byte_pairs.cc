// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding. Merge k creates token 256 + k.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "core/data/file/lines.h"
#include "core/data/tokens/tokenizer_coders.h"
#include "core/support/interruption.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;
using Ids = std::vector<std::int32_t>;
constexpr std::int32_t k_n_bytes = 256;
constexpr std::size_t k_max_token_bytes = 256;

// Packs a pair into one number, for table keys.
std::uint64_t key_of(Pair pair) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32 |
         static_cast<std::uint32_t>(pair.second);
}

class BytePairs : public Tokenizer::Coder {
 public:
  BytePairs() {
    for (std::int32_t byte = 0; byte < k_n_bytes; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
  }
  // False if a merge uses later tokens, makes too long a token, or exists already.
  bool add(Pair merge) {
    const auto n = static_cast<std::int32_t>(texts_.size());
    if (merge.first < 0 || merge.second < 0 || merge.first >= n || merge.second >= n) return false;
    std::string text = texts_[merge.first] + texts_[merge.second];
    if (text.size() > k_max_token_bytes || !joined_.emplace(key_of(merge), n).second) return false;
    texts_.push_back(std::move(text));
    merges_.push_back(merge);
    return true;
  }

  std::string_view kind() const override { return "bpe"; }
  std::string stored() const override {
    std::string text;
    for (const Pair& m : merges_) text += std::to_string(m.first) + " " + std::to_string(m.second) + "\n";
    return text;
  }
  std::int64_t size() const override { return std::ssize(texts_); }
  bool pieces() const override { return true; }
  std::string text(std::int32_t id) const override { return texts_[id]; }

  std::vector<std::int32_t> encode(std::string_view text, const std::string&) const override {
    std::unordered_map<std::string_view, Ids> seen;
    Ids ids;
    for (const std::string_view piece : pieces_of(text)) {
      const auto [at, is_new] = seen.try_emplace(piece);
      if (is_new) at->second = encode_piece(piece);
      ids.insert(ids.end(), at->second.begin(), at->second.end());
    }
    return ids;
  }

 private:
  static constexpr std::int32_t k_no_merge = std::numeric_limits<std::int32_t>::max();

  // Returns the merged token of two neighbors.
  std::int32_t joined(std::int32_t first, std::int32_t second) const {
    const auto at = joined_.find(key_of({first, second}));
    return at == joined_.end() ? k_no_merge : at->second;
  }

  // Applies the earliest merge first, at its leftmost position, until none applies. A merge creates only pairs of later
  // merges, so earlier merges need no second pass.
  Ids encode_piece(std::string_view piece) const {
    Ids ids;
    for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
    Ids next;  // merged token of ids[i] and ids[i + 1]
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) next.push_back(joined(ids[i], ids[i + 1]));
    while (!next.empty()) {
      const auto best = std::min_element(next.begin(), next.end());
      if (*best == k_no_merge) break;
      const auto i = best - next.begin();
      ids[i] = *best;
      ids.erase(ids.begin() + i + 1);
      next.erase(best);
      for (std::ptrdiff_t k = std::max<std::ptrdiff_t>(i - 1, 0); k <= i && k < std::ssize(next); ++k)
        next[k] = joined(ids[k], ids[k + 1]);
    }
    return ids;
  }

  std::vector<std::string> texts_;  // by token
  std::vector<Pair> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> joined_;  // by key_of
};

// Counts of neighboring pairs in the pieces. A merge changes only the counts of pairs at its positions.
class PairCounts {
 public:
  explicit PairCounts(const Lexicon::Counts& counts) {
    for (const auto& [text, count] : counts) {
      Ids ids;
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
      pieces_.push_back({std::move(ids), count});
      const Ids& of_piece = pieces_.back().ids;
      for (std::size_t i = 0; i + 1 < of_piece.size(); ++i)
        change({of_piece[i], of_piece[i + 1]}, pieces_.size() - 1, +1);
    }
    queue_changed();
  }
  struct Best {
    std::int64_t count = 0;  // 0: no pair
    Pair pair = {};
    // Among equally frequent pairs, the lower ids come first.
    bool operator<(const Best& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  // Returns the most frequent pair.
  Best best() {
    while (!queue_.empty() && counts_.at(key_of(queue_.top().pair)).count != queue_.top().count) queue_.pop();
    return queue_.empty() ? Best{} : queue_.top();
  }
  void merge(Pair pair, std::int32_t joined) {
    const std::vector<std::size_t> in = std::move(counts_.at(key_of(pair)).places);
    for (const std::size_t p : in) merge_in(p, pair, joined);
    queue_changed();
  }

 private:
  struct Piece {
    Ids ids;
    std::int64_t count;
  };
  struct Counted {
    std::int64_t count = 0;
    bool is_changed = false;          // since queue_changed()
    std::vector<std::size_t> places;  // pieces that have or had the pair, possibly repeated
  };

  void change(Pair pair, std::size_t p, std::int64_t sign) {
    Counted& counted = counts_[key_of(pair)];
    counted.count += sign * pieces_[p].count;
    if (sign > 0 && (counted.places.empty() || counted.places.back() != p)) counted.places.push_back(p);
    if (!std::exchange(counted.is_changed, true)) changed_.push_back(pair);
  }

  // Replaces every occurrence of `pair` in the piece by `joined`, from left to right.
  void merge_in(std::size_t p, Pair pair, std::int32_t joined) {
    Ids& ids = pieces_[p].ids;
    std::size_t to = 0;
    bool was_here = false;
    for (std::size_t from = 0; from < ids.size(); ++from) {
      const bool here = from + 1 < ids.size() && ids[from] == pair.first && ids[from + 1] == pair.second;
      const bool is_beside = here || was_here;
      const std::int32_t id = here ? joined : ids[from];
      if (is_beside && from > 0) change({was_here ? pair.second : ids[from - 1], ids[from]}, p, -1);
      if (here) change(pair, p, -1);
      if (is_beside && to > 0) change({ids[to - 1], id}, p, +1);
      ids[to++] = id;
      was_here = here;
      from += here;
    }
    ids.resize(to);
  }

  // Entries with old counts stay in the queue; best() skips them.
  void queue_changed() {
    for (const Pair& pair : changed_) {
      Counted& counted = counts_.at(key_of(pair));
      counted.is_changed = false;
      if (counted.count > 0) queue_.push({counted.count, pair});
    }
    changed_.clear();
  }

  std::vector<Piece> pieces_;
  std::unordered_map<std::uint64_t, Counted> counts_;  // by key_of
  std::vector<Pair> changed_;
  std::priority_queue<Best> queue_;
};

}  // namespace

std::shared_ptr<const Tokenizer::Coder> train_byte_pairs(const Tokenizer::Texts& texts,
                                                         const TokenizerOptions& options) {
  auto coder = std::make_shared<BytePairs>();
  PairCounts pairs(count_pieces(texts));
  while (coder->size() < options.vocabulary) {
    check_interruption();
    const PairCounts::Best best = pairs.best();
    if (best.count < options.min_count || best.count == 0 || !coder->add(best.pair)) break;
    pairs.merge(best.pair, static_cast<std::int32_t>(coder->size() - 1));
  }
  return coder;
}

std::shared_ptr<const Tokenizer::Coder> byte_pairs_from(std::string_view stored, const std::string& name) {
  auto coder = std::make_shared<BytePairs>();
  for_each_line(stored, name, [&](std::string_view line, std::size_t number) {
    Pair merge;
    const char *at = line.data(), *end = at + line.size();
    const auto first = std::from_chars(at, end, merge.first);
    const bool blank = first.ec == std::errc() && first.ptr != end && *first.ptr == ' ';
    const auto second = blank ? std::from_chars(first.ptr + 1, end, merge.second) : first;
    if (!blank || second.ec != std::errc() || second.ptr != end || !coder->add(merge) ||
        coder->size() > static_cast<std::int64_t>(Tokenizer::k_max_tokens))
      refuse_line(name, number, "is not a merge of two earlier tokens");
  });
  return coder;
}

}  // namespace unroll
