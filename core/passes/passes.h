// SPDX-License-Identifier: Apache-2.0
// One function per pass; passes.def has their order and what each does.
#pragma once

#include <memory>
#include <span>

#include "core/passes/log.h"
#include "unroll/ir/graph.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"

namespace unroll {

#define UNROLL_PASS(name, function, parameters, arguments, condition) std::shared_ptr<const Graph> function parameters;
#define UNROLL_SIMPLIFIER(name) std::shared_ptr<const Graph> name(const Graph& graph);
#define UNROLL_SIMPLIFY()
#include "core/passes/passes.def"
#undef UNROLL_PASS
#undef UNROLL_SIMPLIFIER
#undef UNROLL_SIMPLIFY

// Lifetimes to arena offsets, views, in-place updates; the last step.
std::shared_ptr<const Plan> plan_memory(std::shared_ptr<const Graph> graph, const Capabilities& backend,
                                        const PlanOptions& options);

}  // namespace unroll
