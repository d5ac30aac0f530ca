// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/scan/scan.h"

#include <algorithm>
#include <chrono>

#include "backends/cpu/kernels/flush.h"
#include "core/support/text/counted.h"

namespace unroll::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Returns the rows that workers may run separately through all steps: no row reads another one, and all matmuls are
// packed. 0: none.
std::int64_t divided_rows(const PlanView& view, std::int32_t id, const ScanForm& form) {
  const PlanView body{*view.plan.bodies[id], 1, view.state};
  const auto packed = [&](const ScanForm::Product& product) { return is_packed_matmul(body, product.node, form); };
  return view.parts > 1 && std::ranges::all_of(form.products, packed) ? form.rows : 0;
}

}  // namespace

ScanCall::ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes)
    : form_(scan_form(view.plan, id)),
      buffers_(view, id, form_, divided_rows(view, id, form_)),
      variants_(view, id, form_, buffers_, scratch_bytes) {}

std::string ScanCall::implementation() const {
  const ScanVariant& variant = variants_.active();
  std::string text = "loop of " + std::to_string(form_.layout.steps);
  if (variant.lanes.size() > 1 || variants_.timed() || variant.schedule != Schedule::calls)
    text += ", by " + std::string(schedule_name(variant.schedule));
  if (variant.together() && variant.lanes.size() > 1) {
    const int barriers = variant.programs[0]->steps().n_barriers();
    text += ", " + counted(barriers, "barrier") + " a step";
  }
  if (!variant.packed[0]->empty()) text += ", " + std::to_string(variant.packed[0]->size()) + " packed";
  return text + variants_.times();
}

void ScanCall::run(const Frame& frame, const Worker& worker) {
  ScanVariant& variant = variants_.active();
  const bool choosing = variants_.open(), together = variant.together(), notes = variants_.timed() && worker.index == 0;
  const auto start = notes ? Clock::now() : Clock::time_point();
  bool ended = false;  // ended with a barrier
  if (worker.index < std::ssize(variant.lanes)) {
    ScanLane& lane = variant.lanes[worker.index];
    if (variant.schedule != Schedule::rows || !lane.rows.empty()) run_lane(frame, lane, together ? worker : Worker{});
    ended = together && lane.body->steps().ends_together() && !choosing;
  }
  if (!ended) worker.sync();
  if (!form_.layout.packed) buffers_.finish(frame, worker);
  if (notes) variants_.note_run(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
}

void ScanCall::run_lane(const Frame& frame, ScanLane& lane, const Worker& worker) {
  const FlushDenormals flush;  // values that decay over the steps would become slow denormals
  lane.bases[k_arena] = lane.arena.size() > 0 ? lane.arena.data() : frame.bases[k_arena] + buffers_.scratch_base;
  lane.bases[k_constants] = lane.body->constants();
  Frame inner{lane.bases.data(), lane.scratch.size() > 0 ? lane.scratch.data() : frame.scratch, {}, frame.lane};
  if (form_.layout.packed) return run_packed_steps(frame, inner, lane, worker);
  if (!lane.rows.empty()) inner.rows = {lane.rows.end - lane.rows.begin, buffers_.rows};
  for (std::int64_t step = 0; step < form_.layout.steps; ++step) {
    buffers_.bind_step(frame, step, lane.rows.begin, lane.bases.data());
    if (step == 0 && !lane.packed->empty()) {
      for (PackedMatmul* product : *lane.packed) product->pack(inner, worker);
      worker.sync();
    }
    lane.body->run(inner, worker);
  }
}

std::unique_ptr<Call> make_scan(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes) {
  if (const ScanLayout l = scan_layout(view.graph().node(node)); l.n_states == 0 && !l.packed)
    return make_map(view, node, scratch_bytes);
  return std::make_unique<ScanCall>(view, node, scratch_bytes);
}

}  // namespace unroll::cpu
