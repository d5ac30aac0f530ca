// SPDX-License-Identifier: Apache-2.0
// Scans whose rows (axis 0 of states, outputs and most sequences) never meet: a part may run all steps of its own rows.
#pragma once

#include "backends/cpu/program.h"

namespace unroll::cpu {

// Rows of such a scan's body; 0 when it is not one, or when that is not seen.
std::int64_t separate_rows(const PlanView& body, const ScanLayout& layout);

}  // namespace unroll::cpu
