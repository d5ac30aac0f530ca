// SPDX-License-Identifier: Apache-2.0
// Detection of bf16 matrix tiles (Intel AMX).
#pragma once

namespace unroll::cpu {

// True if the processor has bf16 tiles and the kernel permits them. Requests the permission once.
bool has_bf16_tiles();

}  // namespace unroll::cpu
