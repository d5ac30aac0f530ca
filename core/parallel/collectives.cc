// SPDX-License-Identifier: Apache-2.0
#include "core/parallel/collectives.h"

#include <algorithm>

#include "core/support/sum_tree.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Outgoing = Communicator::Outgoing;
using Incoming = Communicator::Incoming;

std::span<const std::byte> bytes_of(const std::uint64_t& n) { return std::as_bytes(std::span(&n, 1)); }

template <class T>
void add(const std::byte* left, const std::byte* right, std::byte* sum, std::size_t n) {
  const T *a = reinterpret_cast<const T*>(left), *b = reinterpret_cast<const T*>(right);
  T* to = reinterpret_cast<T*>(sum);
  for (std::size_t i = 0; i < n; ++i) to[i] = a[i] + b[i];
}

// Calls each(first rank of the partner's group, partner) for the other groups of each level (sum_plan.h).
template <class Each>
void for_each_level(const Communicator& ranks, const Each& each) {
  int stride = 1;
  for (const int factor : level_factors(ranks.size())) {
    each(stride, level_partners(ranks.rank(), stride, factor));
    stride *= factor;
  }
}

// Each rank has one piece, and every rank receives all of them. After a level a rank has those of a group of neighbors.
// `piece(r)` is the memory for the piece of rank r.
template <class Piece>
void exchange_pieces(Communicator& ranks, const Piece& piece) {
  for_each_level(ranks, [&](int stride, const std::vector<int>& partners) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    const int own = ranks.rank() / stride * stride;
    for (const int partner : partners) {
      if (partner == ranks.rank()) continue;
      const int theirs = partner / stride * stride;
      for (int i = 0; i < stride; ++i) {
        if (const std::span<const std::byte> mine = piece(own + i); !mine.empty()) out.push_back({partner, mine});
        if (const std::span<std::byte> other = piece(theirs + i); !other.empty()) in.push_back({partner, other});
      }
    }
    ranks.exchange(out, in);
  });
}

}  // namespace

std::vector<ByteList> all_gather(Communicator& ranks, std::span<const std::byte> mine) {
  const auto n = static_cast<std::size_t>(ranks.size());
  std::vector<std::uint64_t> sizes(n, 0);
  sizes[ranks.rank()] = mine.size();
  for_each_level(ranks, [&](int stride, const std::vector<int>& partners) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    const auto of_group = [&](int rank) {
      const auto first = sizes.begin() + rank / stride * stride;
      return std::as_writable_bytes(std::span(first, first + stride));
    };
    for (const int partner : partners) {
      if (partner == ranks.rank()) continue;
      out.push_back({partner, of_group(ranks.rank())});
      in.push_back({partner, of_group(partner)});
    }
    ranks.exchange(out, in);
  });
  std::vector<ByteList> all(n);
  for (std::size_t r = 0; r < n; ++r) all[r].resize(sizes[r]);
  std::ranges::copy(mine, all[ranks.rank()].begin());
  exchange_pieces(ranks, [&](int r) { return std::span(all[r]); });
  return all;
}

// Broadcasts along a tree: after a level that joins groups of `stride` ranks, the first rank of each has the value.
ByteList broadcast(Communicator& ranks, std::span<const std::byte> from_rank_0) {
  ByteList all(from_rank_0.begin(), from_rank_0.end());
  std::uint64_t size = all.size();
  int stride = ranks.size();
  std::vector<int> factors = level_factors(ranks.size());
  for (; !factors.empty(); factors.pop_back()) {
    const int factor = factors.back(), above = stride;
    stride /= factor;
    if (ranks.rank() % stride != 0) continue;
    const int first = ranks.rank() / above * above;
    if (ranks.rank() == first) {
      std::vector<Outgoing> out;
      for (int g = 1; g < factor; ++g) {
        out.push_back({first + g * stride, bytes_of(size)});
        if (size > 0) out.push_back({first + g * stride, all});
      }
      ranks.exchange(out, {});
      continue;
    }
    const Incoming head{first, std::as_writable_bytes(std::span(&size, 1))};
    ranks.exchange({}, std::span(&head, 1));
    all.resize(size);
    const Incoming body{first, all};
    if (size > 0) ranks.exchange({}, std::span(&body, 1));
  }
  return all;
}

bool any(Communicator& ranks, bool mine) {
  std::byte own{static_cast<unsigned char>(mine)};
  for_each_level(ranks, [&](int, const std::vector<int>& partners) {
    ByteList theirs(partners.size());
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (std::size_t g = 0; g < partners.size(); ++g) {
      if (partners[g] == ranks.rank()) continue;
      out.push_back({partners[g], {&own, 1}});
      in.push_back({partners[g], {&theirs[g], 1}});
    }
    ranks.exchange(out, in);
    for (const std::byte each : theirs) own |= each;
  });
  return own != std::byte{0};
}

HostSum::HostSum(Communicator& ranks, std::int64_t micro_batches, DType dtype, std::int64_t elements)
    : ranks_(ranks), dtype_(dtype), width_(dtype_bytes(dtype)),
      n_blocks_(partial_sums_before_last(micro_batches_of(micro_batches, ranks.rank(), ranks.size())).size()),
      plan_(sum_plan(micro_batches, ranks.rank(), ranks.size(), static_cast<std::size_t>(elements))),
      work_(plan_.work * width_) {}

void HostSum::run(std::span<const std::byte* const> blocks, std::byte* result) {
  if (blocks.size() != n_blocks_)
    throw Error(ErrorKind::internal, "all_reduce", "the blocks of a rank do not fit its micro-batches");
  using Part = SumPlan::Part;
  const auto to = [&](const Part& part) {
    return (part.where == Part::Where::work ? work_.data() : result) + part.at * width_;
  };
  const auto from = [&](const Part& part) {
    return part.where == Part::Where::block ? blocks[part.block] + part.at * width_ : to(part);
  };
  const auto run = [&](const std::vector<SumPlan::Stage>& stages) {
    for (const SumPlan::Stage& stage : stages) {
      std::vector<Outgoing> out;
      std::vector<Incoming> in;
      for (const auto& [peer, part] : stage.send) out.push_back({peer, {from(part), part.n * width_}});
      for (const auto& [peer, part] : stage.receive) in.push_back({peer, {to(part), part.n * width_}});
      if (!out.empty() || !in.empty()) ranks_.exchange(out, in);
      for (const auto& [left, right, sum] : stage.additions)
        (dtype_ == DType::f64 ? add<double> : add<float>)(from(left), from(right), to(sum), sum.n);
    }
  };
  if (ranks_.measures_waiting()) ranks_.wait_for_all();
  run(plan_.stages);
  if (plan_.slice) std::copy_n(from(plan_.slice->from), plan_.slice->to.n * width_, to(plan_.slice->to));
  run(plan_.gather);
}

void sum_micro_batches(Communicator& ranks, std::int64_t micro_batches, DType dtype, std::int64_t elements,
                   std::span<const std::byte* const> blocks, std::byte* result) {
  HostSum(ranks, micro_batches, dtype, elements).run(blocks, result);
}

}  // namespace unroll
