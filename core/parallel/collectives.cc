// SPDX-License-Identifier: Apache-2.0
#include "core/parallel/collectives.h"

#include <algorithm>

#include "core/support/sum_tree.h"
#include "unroll/error.h"

namespace unroll {

namespace {

using Outgoing = Communicator::Outgoing;
using Incoming = Communicator::Incoming;

std::span<const std::byte> bytes_of(const std::uint64_t& n) { return std::as_bytes(std::span(&n, 1)); }

// Elements [begin, end) of a vector.
struct Slice {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};
Slice slice_of(std::size_t n, int rank, int ranks) {
  const auto r = static_cast<std::size_t>(rank), all = static_cast<std::size_t>(ranks);
  return {n / all * r + std::min(r, n % all), n / all * (r + 1) + std::min(r + 1, n % all)};
}

template <class T>
void add_to(std::byte* left, const std::byte* right, std::size_t n) {
  T* a = reinterpret_cast<T*>(left);
  const T* b = reinterpret_cast<const T*>(right);
  for (std::size_t i = 0; i < n; ++i) a[i] += b[i];
}

// Sends `out` to every other rank, and receives what rank r sends in place(r).
template <class Place>
void exchange_with_each(Communicator& ranks, std::span<const std::byte> out, const Place& place) {
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int r = 0; r < ranks.size(); ++r) {
    if (r == ranks.rank()) continue;
    outgoing.push_back({r, out});
    incoming.push_back({r, place(static_cast<std::size_t>(r))});
  }
  ranks.exchange(outgoing, incoming);
}

// The same blocks on every rank.
std::vector<std::vector<TreeBlock>> roots_by_rank(std::int64_t leaves, int ranks) {
  std::vector<std::vector<TreeBlock>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(roots_of(leaves_of(leaves, r, ranks)));
  return all;
}

}  // namespace

std::vector<ByteList> all_gather(Communicator& ranks, std::span<const std::byte> mine) {
  const auto n = static_cast<std::size_t>(ranks.size());
  const std::uint64_t own = mine.size();
  std::vector<std::uint64_t> sizes(n, own);
  std::vector<ByteList> all(n);
  exchange_with_each(ranks, bytes_of(own),
                     [&](std::size_t r) { return std::as_writable_bytes(std::span(&sizes[r], 1)); });
  for (std::size_t r = 0; r < n; ++r) all[r].resize(sizes[r]);
  std::copy(mine.begin(), mine.end(), all[static_cast<std::size_t>(ranks.rank())].begin());
  exchange_with_each(ranks, mine, [&](std::size_t r) { return std::span(all[r]); });
  return all;
}

ByteList broadcast(Communicator& ranks, std::span<const std::byte> from_rank_0) {
  std::uint64_t size = from_rank_0.size();
  if (ranks.rank() == 0) {
    std::vector<Outgoing> out;
    for (int r = 1; r < ranks.size(); ++r) out.insert(out.end(), {{r, bytes_of(size)}, {r, from_rank_0}});
    ranks.exchange(out, {});
    return {from_rank_0.begin(), from_rank_0.end()};
  }
  const Incoming head{0, std::as_writable_bytes(std::span(&size, 1))};
  ranks.exchange({}, std::span(&head, 1));
  ByteList all(size);
  const Incoming body{0, all};
  ranks.exchange({}, std::span(&body, 1));
  return all;
}

bool any(Communicator& ranks, bool mine) {
  ByteList all(static_cast<std::size_t>(ranks.size()), std::byte{static_cast<unsigned char>(mine)});
  const std::byte own = all[0];
  exchange_with_each(ranks, std::span(&own, 1), [&](std::size_t r) { return std::span(all).subspan(r, 1); });
  return std::any_of(all.begin(), all.end(), [](std::byte b) { return b != std::byte{0}; });
}

void sum_of_leaves(Communicator& ranks, std::int64_t leaves, DType dtype, std::int64_t elements,
                   std::span<const std::byte* const> roots, std::byte* result) {
  const int n_ranks = ranks.size(), me = ranks.rank();
  const std::size_t width = dtype_bytes(dtype), n = static_cast<std::size_t>(elements);
  const std::vector<std::vector<TreeBlock>> blocks = roots_by_rank(leaves, n_ranks);
  if (blocks[static_cast<std::size_t>(me)].size() != roots.size())
    throw Error(ErrorKind::internal, "all_reduce", "the roots of a rank do not fit its leaves");

  // My slice of every root of every rank, one behind the other in the order of the leaves. It is empty where there are
  // fewer elements than ranks.
  const Slice mine = slice_of(n, me, n_ranks);
  std::vector<TreeBlock> order;
  for (const auto& of_rank : blocks) order.insert(order.end(), of_rank.begin(), of_rank.end());
  ByteList slices(order.size() * mine.size() * width);
  const auto slice_at = [&](std::size_t root) { return slices.data() + root * mine.size() * width; };
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::size_t root = 0;
  for (int r = 0; r < n_ranks; ++r) {
    const Slice theirs = slice_of(n, r, n_ranks);
    if (r != me)
      for (const std::byte* own : roots) out.push_back({r, {own + theirs.begin * width, theirs.size() * width}});
    for (std::size_t k = 0; k < blocks[static_cast<std::size_t>(r)].size(); ++k, ++root) {
      if (r == me) std::copy_n(roots[k] + mine.begin * width, mine.size() * width, slice_at(root));
      else in.push_back({r, {slice_at(root), mine.size() * width}});
    }
  }
  ranks.exchange(out, in);
  for (const SumStep& step : sum_steps(order)) {
    std::byte* left = slice_at(static_cast<std::size_t>(step.left));
    const std::byte* right = slice_at(static_cast<std::size_t>(step.right));
    dtype == DType::f64 ? add_to<double>(left, right, mine.size()) : add_to<float>(left, right, mine.size());
  }

  std::copy_n(slice_at(0), mine.size() * width, result + mine.begin * width);
  out.clear();
  in.clear();
  for (int r = 0; r < n_ranks; ++r) {
    if (r == me) continue;
    const Slice theirs = slice_of(n, r, n_ranks);
    out.push_back({r, {result + mine.begin * width, mine.size() * width}});
    in.push_back({r, {result + theirs.begin * width, theirs.size() * width}});
  }
  ranks.exchange(out, in);
}

}  // namespace unroll
