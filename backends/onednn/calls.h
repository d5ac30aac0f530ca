// SPDX-License-Identifier: Apache-2.0
// The claims of this backend and the calls that run them.
#pragma once

#include <memory>

#include "backends/cpu/program/program.h"
#include "unroll/passes/backend.h"

namespace unroll::onednn {

Claim claim_recurrent(const Graph& graph, const Node& node, DType format);
std::unique_ptr<cpu::Call> make_recurrent(const cpu::PlanView& view, std::int32_t node);

}  // namespace unroll::onednn
