// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/parallel/lost_rank.h"
#include "unroll/parallel/communicator.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

// Sent messages that are not received yet, by sender and receiver.
class Mail {
 public:
  explicit Mail(int size) : size_(size) {}
  int size() const { return size_; }

  void post(int from, const Communicator::Outgoing& message) {
    {
      const std::lock_guard lock(mutex_);
      waiting_[{from, message.to}].emplace_back(message.bytes.begin(), message.bytes.end());
    }
    changed_.notify_all();
  }

  void receive(int to, const Communicator::Incoming& message, double seconds) {
    const std::chrono::duration<double> limit(seconds);
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
    std::unique_lock lock(mutex_);
    auto& queue = waiting_[{message.from, to}];
    waits_for_[to] = message.from;
    const bool came = changed_.wait_until(lock, deadline, [&] { return !queue.empty() || !failures_.empty(); });
    if (!queue.empty()) {
      require_size(message, queue.front().size());
      std::copy(queue.front().begin(), queue.front().end(), message.bytes.begin());
      queue.pop_front();
      waits_for_.erase(to);
      return;
    }
    if (came) throw failed_rank(failures_.begin()->first, failures_.begin()->second);
    throw silent_ranks({lost(message.from)}, seconds);
  }

  void look_for_failures() {
    const std::lock_guard lock(mutex_);
    if (!failures_.empty()) throw failed_rank(failures_.begin()->first, failures_.begin()->second);
  }

  // Called at about the same time by all ranks that wait for each other.
  [[noreturn]] void name_lost(int self, double seconds) {
    std::unique_lock lock(mutex_);
    present_.insert(self);
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return std::ssize(present_) + 1 >= size_; });
    std::vector<int> absent;
    for (int r = 0; r < size_; ++r)
      if (!present_.contains(r)) absent.push_back(r);
    throw silent_ranks(absent, seconds);
  }

  void fail(int rank, const std::string& text) {
    {
      const std::lock_guard lock(mutex_);
      failures_.emplace(rank, text);
    }
    changed_.notify_all();
  }

 private:
  // Follows the chain of waiting ranks, as a waiting rank is not the lost one. Ranks that gave up stay in the list.
  int lost(int rank) const {
    for (int n = 0; n < size_ && waits_for_.contains(rank); ++n) rank = waits_for_.at(rank);
    return rank;
  }

  const int size_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> waiting_;
  std::map<int, int> waits_for_;  // the awaited rank of each waiting rank
  std::set<int> present_;         // answered the roll call
  std::map<int, std::string> failures_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<Mail> mail, int rank, double seconds)
      : mail_(std::move(mail)), rank_(rank), seconds_(seconds) {}
  int rank() const override { return rank_; }
  int size() const override { return mail_->size(); }
  void fail(const char* text) noexcept override {
    try {
      mail_->fail(rank_, text);
    } catch (const std::exception&) {  // without memory for the text, the others time out
    }
  }

  void look_for_failures() override { mail_->look_for_failures(); }
  [[noreturn]] void name_lost() override { mail_->name_lost(rank_, seconds_); }
  double time_limit() const override { return seconds_; }

 protected:
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    for (const Outgoing& message : out) mail_->post(rank_, message);
    for (const Incoming& message : in) mail_->receive(rank_, message, seconds_);
  }

 private:
  std::shared_ptr<Mail> mail_;
  int rank_;
  double seconds_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_ranks(int size, double seconds) {
  const auto mail = std::make_shared<Mail>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<ThreadRank>(mail, r, seconds));
  return ranks;
}

}  // namespace unroll
