// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/passes/streaming/flow.h"
#include "unroll/passes/block_stream.h"

namespace unroll::streaming {

// The graphs of a stream of `output`, a sequence, in blocks of this many steps of the input.
BlockStream emit_blocks(const Graph& graph, const PerNode<NodeFlow>& flows, const NamedValue& output,
                        std::int64_t block);

}  // namespace unroll::streaming
