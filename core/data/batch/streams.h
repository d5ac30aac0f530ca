// SPDX-License-Identifier: Apache-2.0
// Truncated backpropagation through time: a long sequence is cut into B contiguous parallel streams, read in windows of
// T steps. The state at the end of a window is the start of the next. With S shards there are S * B streams, and S
// windows per T steps: window i has the streams of shard i % S.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/data/tokens/tokens.h"
#include "unroll/support/tensor.h"

namespace unroll {

class Streams {
 public:
  struct Layout {
    std::int64_t batch;   // B
    std::int64_t steps;   // T
    bool keep_remainder;  // true: return a last window shorter than T
    std::int64_t shards = 1;  // S
  };
  // Each stream predicts the same number of next values. Throws Error(usage), which names `name`, unless there is at
  // least one prediction per stream.
  Streams(std::shared_ptr<const Tokens> ids, const Layout& layout, std::string_view name);

  // Returns the number of windows in an epoch whose streams start `offset` values later; offset < T.
  std::int64_t n_windows(std::int64_t offset = 0) const;
  // Window `index` as inputs and next values, both i32 [T, B].
  struct Window {
    Tensor ids, labels;
  };
  Window window(std::int64_t index, std::int64_t offset = 0) const;
  std::int64_t per_stream() const { return per_stream_; }

 private:
  std::shared_ptr<const Tokens> ids_;
  Layout layout_;
  std::int64_t per_stream_;  // predictions of one stream
};

}  // namespace unroll
