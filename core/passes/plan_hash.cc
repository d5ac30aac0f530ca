// SPDX-License-Identifier: Apache-2.0
#include "unroll/passes/plan_hash.h"

#include "core/support/fnv.h"

namespace unroll {

namespace {

std::uint64_t unsigned_of(std::int64_t number) { return static_cast<std::uint64_t>(number); }

}  // namespace

std::uint64_t plan_hash(const Plan& plan) {
  Fnv hash;
  hash.add(graph_hash(*plan.graph)).add(plan.arena_bytes);
  hash.add(static_cast<std::uint64_t>(plan.weights)).add(std::uint64_t{plan.one_thread});
  const auto add = [&](const Storage& s) {
    hash.add(static_cast<std::uint64_t>(s.place)).add(unsigned_of(s.index)).add(s.offset);
    for (const std::int64_t stride : s.strides) hash.add(unsigned_of(stride));
  };
  for (const auto& outputs : plan.storage)
    for (const Storage& s : outputs) add(s);
  for (const Storage& s : plan.outputs) add(s);
  for (const int donor : plan.donors) hash.add(unsigned_of(donor));
  for (const auto& body : plan.bodies) hash.add(body ? plan_hash(*body) : 0);
  for (const auto* sizes : {&plan.scratch_offset, &plan.scratch_bytes})
    for (const std::size_t bytes : *sizes) hash.add(bytes);
  return hash.value();
}

}  // namespace unroll
