// SPDX-License-Identifier: Apache-2.0
// One function per pass; pipeline.cc has their order. All passes also work on the bodies of scans.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "core/passes/log.h"
#include "unroll/backend.h"
#include "unroll/graph.h"
#include "unroll/run.h"

namespace unroll {

// Loops that compute rnn, gru or lstm, whatever way they are written, become those.
std::shared_ptr<const Graph> recognise(const Graph& graph, PassLog* log = nullptr);
// Identities (x + 0, x * 1, double transposes, ...) and arithmetic on scalar constants.
std::shared_ptr<const Graph> fold(const Graph& graph);
// Equal nodes become one.
std::shared_ptr<const Graph> eliminate_common(const Graph& graph);
// Scans over the same inputs whose states agree become one scan with the outputs of all.
std::shared_ptr<const Graph> merge_scans(const Graph& graph, PassLog* log = nullptr);
// Drops states, sequences, constants and per-step outputs of scans that nothing needs.
std::shared_ptr<const Graph> prune_scans(const Graph& graph);
// Composites and gradients that are claimed stay whole, marked claimed; all others become their bodies.
using AskClaim = std::function<Claim(const Graph&, const Node&)>;
std::shared_ptr<const Graph> claim(const Graph& graph, const AskClaim& ask, PassLog* log = nullptr);
std::shared_ptr<const Graph> claim(const Graph& graph, const Backend& backend, PassLog* log = nullptr);
// Number formats by role (Precision in unroll/backend.h). A backend without the dtype gets round_* ops on f32.
std::shared_ptr<const Graph> set_precision(const Graph& graph, Precision precision, std::span<const DType> dtypes,
                                           PassLog* log = nullptr);
// Lengths and reset masks of scans become ordinary ops of their bodies.
std::shared_ptr<const Graph> lower_scan_masks(const Graph& graph);
// Scans of one step become their bodies.
std::shared_ptr<const Graph> inline_steps(const Graph& graph, PassLog* log = nullptr);
// Products with one operand in common, and sums of products, become one product of matrices side by side.
std::shared_ptr<const Graph> concat_products(const Graph& graph, const Tuning& tuning = {}, PassLog* log = nullptr);
// Slices that a scan takes or stacks one by one, all parts of one value, become the value.
std::shared_ptr<const Graph> join_parts(const Graph& graph);
// Loops keep their states before each segment of about sqrt(T) steps; the gradient computes segments again.
std::shared_ptr<const Graph> checkpoint(const Graph& graph, PassLog* log = nullptr);
// Work of scan bodies that needs no state moves before the loop, work that no state needs after it, for all steps at
// once.
std::shared_ptr<const Graph> split_scans(const Graph& graph, const Tuning& tuning = {}, PassLog* log = nullptr);
// Small ops of scan bodies that need no state, or that no state needs, and that are a call of their own in every step.
std::shared_ptr<const Graph> split_calls(const Graph& graph, PassLog* log = nullptr);
// A state that only adds up products or sums over time becomes one product or sum after the loop.
std::shared_ptr<const Graph> defer(const Graph& graph, const Tuning& tuning = {}, PassLog* log = nullptr);
// The same for products and sums that need no other state, which split_scans would take apart.
std::shared_ptr<const Graph> defer_stateless(const Graph& graph, const Tuning& tuning = {}, PassLog* log = nullptr);
// Scans whose rows end at their lengths, and the products around them, on the rows that exist.
std::shared_ptr<const Graph> pack(const Graph& graph, PassLog* log = nullptr);
// Scans whose rows end at their lengths take the lengths again, and their steps no longer select.
std::shared_ptr<const Graph> restore_lengths(const Graph& graph, PassLog* log = nullptr);
// Constants of the graph that a scan hands to its body become constants of the body, which a backend may prepare once.
std::shared_ptr<const Graph> bind_constants(const Graph& graph);
// Loops of more steps become loops of at most `steps`, one after the other.
std::shared_ptr<const Graph> chunk_scans(const Graph& graph, std::int64_t steps);
// Slices of elementwise results become elementwise results of slices.
std::shared_ptr<const Graph> sink_slices(const Graph& graph);
// Elementwise ops on inputs and reshaped results become reshaped elementwise ops, where the reshape leaves rows as they
// are.
std::shared_ptr<const Graph> raise_reshapes(const Graph& graph);
// A reduction over the last axis and the elementwise work around it become one row_group node.
std::shared_ptr<const Graph> row_groups(const Graph& graph, const Tuning& tuning = {}, PassLog* log = nullptr);
// A row group adds up rows of what only a sum over all rows reads.
std::shared_ptr<const Graph> sum_rows(const Graph& graph, const Tuning& tuning = {}, PassLog* log = nullptr);
// Elementwise neighbours of one shape become fused nodes of at most so many ops.
std::shared_ptr<const Graph> fuse(const Graph& graph, int most_ops = Capabilities().max_fused_ops,
                                  PassLog* log = nullptr);
// Nodes of branches (branches.h) become neighbours, branch after branch.
std::shared_ptr<const Graph> order_branches(const Graph& graph, PassLog* log = nullptr);
// Lifetimes to arena offsets, views, in-place updates; the last step.
std::shared_ptr<const Plan> plan_memory(std::shared_ptr<const Graph> graph, const Capabilities& backend,
                                        const PlanOptions& options);

}  // namespace unroll
