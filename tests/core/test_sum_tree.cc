// SPDX-License-Identifier: Apache-2.0
// The tree in which leaves are summed: the same sums, whoever holds which leaves; and what ranks do together.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include "core/parallel/collectives.h"
#include "core/parallel/exchange_thread.h"
#include "core/support/sum_tree.h"
#include "unroll/support/error.h"

using namespace unroll;

namespace {

// The sum as text, "((0+1)+2)".
std::string sum_of(const std::vector<PartialSum>& roots, std::vector<std::string> texts) {
  for (const SumStep& step : sum_steps(roots)) {
    std::string& left = texts[step.left];
    left = "(" + left + "+" + texts[step.right] + ")";
  }
  return texts.at(0);
}

// The texts of a rank's roots.
std::vector<std::string> roots_as_text(MicroBatches leaves) {
  SumStack stack(leaves);
  std::vector<std::string> texts;
  for (std::int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
    texts.push_back(std::to_string(leaf));
    for (int sums = stack.push(); sums > 0; --sums) {
      const std::string right = texts.back();
      texts.pop_back();
      texts.back() = "(" + texts.back() + "+" + right + ")";
    }
  }
  return texts;
}

std::string sum_by_ranks(std::int64_t leaves, int ranks) {
  std::vector<PartialSum> roots;
  std::vector<std::string> texts;
  for (int r = 0; r < ranks; ++r) {
    const MicroBatches own = micro_batches_of(leaves, r, ranks);
    const auto of_rank = partial_sums_of(own);
    const auto as_text = roots_as_text(own);
    CHECK(of_rank.size() == as_text.size());
    roots.insert(roots.end(), of_rank.begin(), of_rank.end());
    texts.insert(texts.end(), as_text.begin(), as_text.end());
  }
  return sum_of(roots, texts);
}

}  // namespace

TEST_CASE("the sum of some leaves is a tree over their indices") {
  CHECK(sum_by_ranks(1, 1) == "0");
  CHECK(sum_by_ranks(3, 1) == "((0+1)+2)");
  CHECK(sum_by_ranks(4, 1) == "((0+1)+(2+3))");
  CHECK(sum_by_ranks(7, 1) == "(((0+1)+(2+3))+((4+5)+6))");
}

TEST_CASE("the sum is the same for any number of ranks") {
  for (std::int64_t leaves = 1; leaves <= 70; ++leaves)
    for (int ranks = 2; ranks <= 24; ++ranks) {
      CAPTURE(leaves);
      CAPTURE(ranks);
      REQUIRE(sum_by_ranks(leaves, ranks) == sum_by_ranks(leaves, 1));
    }
}

TEST_CASE("shares are contiguous, differ by one leaf at most, and rank 0 has one") {
  for (std::int64_t leaves = 1; leaves <= 40; ++leaves)
    for (int ranks = 1; ranks <= 50; ++ranks) {
      CAPTURE(leaves);
      CAPTURE(ranks);
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const MicroBatches own = micro_batches_of(leaves, r, ranks);
        REQUIRE(own.begin == next);
        REQUIRE(own.size() >= leaves / ranks);
        REQUIRE(own.size() <= (leaves + ranks - 1) / ranks);
        next = own.end;
      }
      REQUIRE(next == leaves);
      REQUIRE(micro_batches_of(leaves, 0, ranks).size() >= 1);
    }
}

namespace {

// Calls work on each of n ranks; the first text that one of them returns.
std::string on_ranks(int n, const std::function<std::string(Communicator&)>& work) {
  const auto ranks = thread_ranks(n, 20);
  std::vector<std::string> texts(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < texts.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        texts[r] = work(*ranks[r]);
      } catch (const Error& e) {
        texts[r] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& text : texts)
    if (!text.empty()) return text;
  return {};
}

// Sums depend on their order: the exponents differ.
template <class T>
std::vector<T> leaf_of(std::int64_t leaf, std::size_t n) {
  std::vector<T> values;
  for (std::size_t i = 0; i < n; ++i) {
    const auto k = static_cast<int>(leaf * 7 + static_cast<std::int64_t>(i) * 3);
    values.push_back(static_cast<T>(std::ldexp(std::sin(k), k % 11)));
  }
  return values;
}
template <class T>
void add_to(std::vector<T>& left, const std::vector<T>& right) {
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
}

// The blocks that a rank holds before its last leaf is added.
template <class T>
std::vector<std::vector<T>> blocks_of(MicroBatches leaves, std::size_t n) {
  SumStack stack(leaves);
  std::vector<std::vector<T>> blocks;
  for (std::int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
    blocks.push_back(leaf_of<T>(leaf, n));
    if (leaf + 1 == leaves.end) break;
    for (int sums = stack.push(); sums > 0; --sums) {
      add_to(blocks.end()[-2], blocks.back());
      blocks.pop_back();
    }
  }
  return blocks;
}

template <class T>
std::vector<T> sum_on(Communicator& ranks, DType dtype, std::int64_t leaves, std::size_t n) {
  const auto blocks = blocks_of<T>(micro_batches_of(leaves, ranks.rank(), ranks.size()), n);
  std::vector<const std::byte*> at;
  for (const auto& block : blocks) at.push_back(reinterpret_cast<const std::byte*>(block.data()));
  std::vector<T> sum(n);
  sum_micro_batches(ranks, leaves, dtype, static_cast<std::int64_t>(n), at, reinterpret_cast<std::byte*>(sum.data()));
  return sum;
}

template <class T>
void check_sums(DType dtype) {
  for (const int n : {2, 3, 4, 5, 6, 8, 12})
    for (const int leaves : {1, n - 1, n, 2 * n + 1, 16})
      for (const std::size_t elements : {std::size_t{1}, std::size_t{5}, std::size_t{67}}) {
        CAPTURE(n);
        CAPTURE(leaves);
        CAPTURE(elements);
        std::vector<T> alone;
        on_ranks(1, [&](Communicator& rank) {
          alone = sum_on<T>(rank, dtype, leaves, elements);
          return std::string();
        });
        REQUIRE(on_ranks(n, [&](Communicator& rank) {
                  return std::string(sum_on<T>(rank, dtype, leaves, elements) == alone ? "" : "other bits");
                }) == "");
      }
}

std::size_t n_messages(const SumPlan& plan) {
  std::size_t n = 0;
  for (const auto* stages : {&plan.stages, &plan.gather})
    for (const SumPlan::Stage& stage : *stages) n += stage.send.size();
  return n;
}

}  // namespace

TEST_CASE("the sum of leaves has the same bits for any number of ranks") {
  check_sums<float>(DType::f32);
  check_sums<double>(DType::f64);
}

TEST_CASE("few messages leave a rank, however many ranks there are") {
  CHECK(n_messages(sum_plan(1024, 77, 1024, 1 << 20)) == 20);
  CHECK(n_messages(sum_plan(96, 5, 96, 1 << 20)) == 14);  // 2 2 2 2 2 3
  CHECK(n_messages(sum_plan(7, 3, 7, 1 << 20)) == 12);
  std::size_t sent = 0;
  for (const SumPlan plan = sum_plan(1024, 77, 1024, 1 << 20); const auto* stages : {&plan.stages, &plan.gather})
    for (const SumPlan::Stage& stage : *stages)
      for (const SumPlan::Message& message : stage.send) sent += message.part.n;
  CHECK(sent == 2 * 1023 * ((1 << 20) / 1024));
}

TEST_CASE("ranks gather, broadcast and ask in levels") {
  for (const int n : {1, 2, 3, 4, 6, 7, 12}) {
    CAPTURE(n);
    CHECK(on_ranks(n, [&](Communicator& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            const ByteList own(r % 3 == 1 ? 0 : 4 * r + 1, std::byte(r));
            const std::vector<ByteList> all = all_gather(rank, own);
            for (std::size_t k = 0; k < all.size(); ++k)
              if (all[k] != ByteList(k % 3 == 1 ? 0 : 4 * k + 1, std::byte(k))) return std::string("all_gather");
            const ByteList first(300, std::byte{9});
            if (broadcast(rank, rank.rank() == 0 ? first : ByteList()) != first) return std::string("broadcast");
            if (!broadcast(rank, {}).empty()) return std::string("an empty broadcast");
            for (int k = 0; k < n; ++k)
              if (!any(rank, rank.rank() == k)) return std::string("any");
            return std::string(any(rank, false) ? "any of none" : "");
          }) == "");
  }
}

TEST_CASE("exchanges in their own thread keep their order, and what fails is thrown by finish") {
  const auto ranks = thread_ranks(1);
  ExchangeThread thread(*ranks[0]);
  std::string done;
  for (const char c : {'a', 'b', 'c'}) thread.start([&, c] { done += c; });
  thread.run_last([&] { done += 'd'; });
  CHECK(done == "abcd");
  thread.start([] { throw Error(ErrorKind::peer, "test", "lost"); });
  thread.start([&] { done += 'e'; });
  CHECK_THROWS_WITH_AS(thread.finish(), "[test] lost", Error);
  CHECK(done == "abcd");
  thread.start([&] { done += 'f'; });
  thread.finish();
  CHECK(done == "abcdf");
}

TEST_CASE("a rank that waits for one that waits itself names the lost one") {
  const auto ranks = thread_ranks(4, 0.2);
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (const int r : {0, 1, 2})  // rank 3 is gone
    threads.emplace_back([&, r] {
      try {
        any(*ranks[static_cast<std::size_t>(r)], false);
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t r = 0; r < 3; ++r) CHECK(errors[r].find("no answer from rank 3") != std::string::npos);
}
