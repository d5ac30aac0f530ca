// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/parallel/lost_rank.h"
#include "unroll/communicator.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

// Messages that were sent and not yet received, by sender and receiver.
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
    const bool came = changed_.wait_until(lock, deadline, [&] { return !queue.empty() || !failures_.empty(); });
    if (!queue.empty()) {
      require_size(message, queue.front().size());
      std::copy(queue.front().begin(), queue.front().end(), message.bytes.begin());
      queue.pop_front();
      return;
    }
    if (came) throw failed_rank(failures_.begin()->first, failures_.begin()->second);
    throw silent_ranks({message.from}, seconds);
  }

  void fail(int rank, const std::string& text) {
    {
      const std::lock_guard lock(mutex_);
      failures_.emplace(rank, text);
    }
    changed_.notify_all();
  }

 private:
  const int size_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> waiting_;
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
    } catch (const std::exception&) {  // without memory for the text the others time out
    }
  }

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
