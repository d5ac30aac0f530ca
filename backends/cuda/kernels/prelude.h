// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace unroll::cuda {

// Start of a module with loops that are one kernel: the waits of their blocks.
std::string loop_prelude();

// Continuation in a module with resident loops: tensor cores, clusters and shared memory in inline PTX, loads of
// weights, and the sums of products.
std::string resident_prelude();

// Its part for exchanges through shared memory, and what follows it in modules with products by wgmma.
std::string exchange_prelude();
std::string wgmma_prelude();

}  // namespace unroll::cuda
