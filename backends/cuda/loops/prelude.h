// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace unroll::cuda {

// What a module with resident loops begins with: tensor cores, clusters and shared memory in inline PTX, loads of
// weights, and the sums of products.
std::string resident_prelude();

}  // namespace unroll::cuda
