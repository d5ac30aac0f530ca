// SPDX-License-Identifier: Apache-2.0
// The class names of the classify task.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/tasks/tasks.h"

namespace unroll {

inline constexpr std::int64_t k_max_classes = 65536;

// Returns the class names of a model; "0", "1", ... for models without names. Throws Error(input_file) on an empty list
// and on a number of classes out of range.
std::vector<std::string> class_names_of(const Metadata& metadata);

}  // namespace unroll
