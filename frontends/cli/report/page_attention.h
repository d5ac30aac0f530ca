// SPDX-License-Identifier: Apache-2.0
// `predict --explain-attention`: a page with the attention of each generated word, and p_gen.
#pragma once

#include <string>
#include <vector>

#include "unroll/tasks/predict.h"

namespace unroll::cli {

// Returns one self-contained HTML file. A map without `p_gen` is shown without the column.
std::string attention_page(const std::string& title, const std::vector<WrittenAttention>& maps);

}  // namespace unroll::cli
