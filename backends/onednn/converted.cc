// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/converted.h"

namespace unroll::onednn {

Converted::Converted(Way way, std::size_t elements, DType format, Space& scratch) {
  if (format == DType::f32) return;
  const std::vector<std::int64_t> dims{static_cast<std::int64_t>(elements)};
  const Desc outside = dense_desc(dims), inside = dense_desc(dims, format);
  reorder_ = way == Way::in ? std::make_unique<Reorder>(outside.get(), inside.get())
                            : std::make_unique<Reorder>(inside.get(), outside.get());
  at_ = scratch.take(bytes_of(inside.get()));
  reorder_scratch_ = scratch.take(reorder_->scratch_bytes());
}

void Converted::prepare() {
  if (reorder_) reorder_->prepare();
}

const std::byte* Converted::in(const float* outside, std::byte* scratch) {
  if (!reorder_) return reinterpret_cast<const std::byte*>(outside);
  reorder_->run(outside, scratch + at_, scratch + reorder_scratch_);
  return scratch + at_;
}

std::byte* Converted::inside(float* outside, std::byte* scratch) const {
  return reorder_ ? scratch + at_ : reinterpret_cast<std::byte*>(outside);
}

void Converted::out(float* outside, std::byte* scratch) {
  if (reorder_) reorder_->run(scratch + at_, outside, scratch + reorder_scratch_);
}

}  // namespace unroll::onednn
