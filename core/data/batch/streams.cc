// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch/streams.h"

#include <algorithm>
#include <vector>

#include "unroll/support/error.h"

namespace unroll {

Streams::Streams(std::shared_ptr<const Tokens> ids, const Layout& layout, std::string_view name)
    : ids_(std::move(ids)), layout_(layout), per_stream_(0) {
  if (layout.batch < 1 || layout.steps < 1 || layout.shards < 1)
    throw Error(ErrorKind::usage, name,
                "batch, steps and shards must be at least 1; got " + std::to_string(layout.batch) + ", " +
                    std::to_string(layout.steps) + " and " + std::to_string(layout.shards));
  const std::int64_t least = layout.keep_remainder ? 1 : layout.steps;
  const std::int64_t streams = layout.batch * layout.shards;
  per_stream_ = (ids_->size() - 1) / streams;
  if (per_stream_ < least)
    throw Error(ErrorKind::usage, name,
                std::to_string(ids_->size()) + " values are too few for " + std::to_string(streams) +
                    " streams in windows of " + std::to_string(layout.steps),
                "Lower train.batch, data.shards or data.steps, change data.validation or data.test, or use more data");
}

std::int64_t Streams::n_windows(std::int64_t offset) const {
  const std::int64_t left = std::max<std::int64_t>(per_stream_ - offset, 0);
  const std::int64_t n = layout_.keep_remainder ? (left + layout_.steps - 1) / layout_.steps : left / layout_.steps;
  return n * layout_.shards;
}

Streams::Window Streams::window(std::int64_t index, std::int64_t offset) const {
  if (index < 0 || index >= n_windows(offset))
    throw Error(ErrorKind::usage, "Streams::window",
                "index must be in [0," + std::to_string(n_windows(offset)) + "); got " + std::to_string(index));
  const std::int64_t shard = index % layout_.shards, first = shard * layout_.batch;
  const std::int64_t begin = offset + index / layout_.shards * layout_.steps;
  const std::int64_t T = std::min(layout_.steps, per_stream_ - begin);
  Window w{Tensor(DType::i32, {T, layout_.batch}), Tensor(DType::i32, {T, layout_.batch})};
  const auto ids = w.ids.values<std::int32_t>(), labels = w.labels.values<std::int32_t>();
  std::vector<std::int32_t> from(T + 1);
  for (std::int64_t b = 0; b < layout_.batch; ++b) {
    ids_->read((first + b) * per_stream_ + begin, from);
    for (std::int64_t t = 0; t < T; ++t) {
      const std::size_t at = t * layout_.batch + b;
      ids[at] = from[t];
      labels[at] = from[t + 1];
    }
  }
  return w;
}

}  // namespace unroll
