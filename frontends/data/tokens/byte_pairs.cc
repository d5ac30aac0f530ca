// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding. Token 256 + k is what merge k joins.
#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "core/support/interruption.h"
#include "frontends/data/file/lines.h"
#include "frontends/data/tokens/tokenizer_coders.h"
#include "unroll/error.h"

namespace unroll {

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;
using Ids = std::vector<std::int32_t>;
constexpr std::int32_t k_n_bytes = 256;
constexpr std::size_t k_max_token_bytes = 256;

// Every place of `pair`, from the left, becomes `joined`.
void join(Ids& ids, Pair pair, std::int32_t joined) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < ids.size(); ++from) {
    const bool here = from + 1 < ids.size() && ids[from] == pair.first && ids[from + 1] == pair.second;
    ids[to++] = here ? joined : ids[from];
    from += here;
  }
  ids.resize(to);
}

class BytePairs : public Tokenizer::Coder {
 public:
  BytePairs() {
    for (std::int32_t byte = 0; byte < k_n_bytes; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
  }
  // False when a merge is not of earlier tokens, makes too long a token, or is there already.
  bool add(Pair merge) {
    const auto n = static_cast<std::int32_t>(texts_.size());
    if (merge.first < 0 || merge.second < 0 || merge.first >= n || merge.second >= n) return false;
    std::string text = texts_[static_cast<std::size_t>(merge.first)] + texts_[static_cast<std::size_t>(merge.second)];
    if (text.size() > k_max_token_bytes || !ranks_.emplace(merge, n).second) return false;
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
  std::int64_t size() const override { return static_cast<std::int64_t>(texts_.size()); }
  bool pieces() const override { return true; }
  std::string text(std::int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }

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
  // The earliest merge first, until none applies.
  Ids encode_piece(std::string_view piece) const {
    Ids ids;
    for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
    while (true) {
      auto best = ranks_.end();
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto at = ranks_.find({ids[i], ids[i + 1]});
        if (at != ranks_.end() && (best == ranks_.end() || at->second < best->second)) best = at;
      }
      if (best == ranks_.end()) return ids;
      join(ids, best->first, best->second);
    }
  }

  std::vector<std::string> texts_;  // by token
  std::vector<Pair> merges_;
  std::map<Pair, std::int32_t> ranks_;  // the token that a pair becomes
};

// How often each pair of neighbors occurs in the pieces, most frequent first.
class PairCounts {
 public:
  explicit PairCounts(const Lexicon::Counts& counts) {
    for (const auto& [text, count] : counts) {
      Ids ids;
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
      pieces_.push_back({std::move(ids), count});
      tell(pieces_.size() - 1, +1);
    }
  }
  struct Best {
    Pair pair;
    std::int64_t count = 0;  // 0: there is no pair
  };
  Best best() const {
    if (order_.empty()) return {};
    return {order_.begin()->second, -order_.begin()->first};
  }
  void merge(Pair pair, std::int32_t joined) {
    const std::set<std::size_t> in = places_.at(pair);  // the list changes under way
    for (const std::size_t p : in) {
      tell(p, -1);
      join(pieces_[p].ids, pair, joined);
      tell(p, +1);
    }
  }

 private:
  struct Piece {
    Ids ids;
    std::int64_t count;
  };
  void tell(std::size_t p, std::int64_t sign) {
    const Piece& piece = pieces_[p];
    for (std::size_t i = 0; i + 1 < piece.ids.size(); ++i) {
      const Pair pair{piece.ids[i], piece.ids[i + 1]};
      std::int64_t& count = counts_[pair];
      if (count > 0) order_.erase({-count, pair});
      count += sign * piece.count;
      if (count > 0) order_.emplace(-count, pair);
      if (sign > 0)
        places_[pair].insert(p);
      else
        places_[pair].erase(p);
    }
  }

  std::vector<Piece> pieces_;
  std::map<Pair, std::int64_t> counts_;
  std::map<Pair, std::set<std::size_t>> places_;   // pieces that have the pair
  std::set<std::pair<std::int64_t, Pair>> order_;  // (-count, pair)
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
