// SPDX-License-Identifier: Apache-2.0
// Matrix tiles of the processor (Intel AMX) with products of bf16.
#pragma once

namespace unroll::cpu {

// Whether the processor has them and the kernel lets this process use them, which is asked for once.
bool has_bf16_tiles();

}  // namespace unroll::cpu
