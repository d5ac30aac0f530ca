// SPDX-License-Identifier: Apache-2.0
// Selection of example predictions, and confusion counts.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tasks/common/split_records.h"
#include "core/tasks/common/task_rows.h"

namespace unroll {

inline constexpr std::size_t k_example_batch = 512;  // records per prediction batch

// Keeps the first right and the first wrong examples, half of each if there are enough.
template <class Example>
class Chosen {
 public:
  explicit Chosen(std::size_t most) : most_(most) {}
  void add(Example example, bool right) {
    auto& list = right ? right_ : wrong_;
    if (list.size() < most_) list.emplace_back(n_seen_, std::move(example));
    ++n_seen_;
  }
  std::vector<Example> take() {
    const std::size_t wrong = std::min(wrong_.size(), most_ - std::min(right_.size(), most_ / 2));
    wrong_.resize(wrong);
    right_.resize(std::min(right_.size(), most_ - wrong));
    std::move(right_.begin(), right_.end(), std::back_inserter(wrong_));
    std::sort(wrong_.begin(), wrong_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Example> list;
    for (auto& [at, example] : wrong_) list.push_back(std::move(example));
    return list;
  }

 private:
  std::size_t most_, n_seen_ = 0;
  std::vector<std::pair<std::size_t, Example>> right_, wrong_;
};

// Calls `predict` with a batch of records of the split at a time.
template <class Record, class Read, class Predict>
void for_each_batch_of(const Task& task, Split split, const Read& read, const Predict& predict) {
  const auto* records = dynamic_cast<const SplitRecords*>(&task);
  if (!records) return;
  std::vector<Record> batch;
  records->for_each_record(split, [&](std::string_view text) {
    batch.push_back(read(text));
    if (batch.size() < k_example_batch) return;
    predict(batch);
    batch.clear();
  });
  if (!batch.empty()) predict(batch);
}

class ConfusionCount {
 public:
  explicit ConfusionCount(std::vector<std::string> labels) {
    result.labels = std::move(labels);
    result.counts.resize(result.labels.size() * result.labels.size());
    for (std::size_t k = 0; k < result.labels.size(); ++k) index_.emplace(result.labels[k], k);
  }
  void add(const std::string& truth, const std::string& predicted) {
    const auto t = index_.find(truth), p = index_.find(predicted);
    if (t != index_.end() && p != index_.end()) ++result.counts[t->second * result.labels.size() + p->second];
  }
  Confusion result;

 private:
  std::map<std::string, std::size_t> index_;
};

// The first pairs of a split. Decoding is much slower than reading, so only the pairs to show are decoded.
struct FirstPairs {
  std::vector<std::string> sources, targets;
  FirstPairs(const PairTask& task, Split split, std::size_t most) {
    task.for_each_pair(split, [&](const PairTask::Pair& pair) {
      if (sources.size() >= most) return;
      sources.push_back(pair.source);
      targets.push_back(pair.target);
    });
  }
};

}  // namespace unroll
