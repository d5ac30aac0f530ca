// SPDX-License-Identifier: Apache-2.0
// ROUGE (Lin 2004) as in rouge-score.
#pragma once

#include <array>
#include <string>

#include "unroll/data/text_scores.h"

namespace unroll {

// Returns ROUGE-1, ROUGE-2 and ROUGE-L of a text.
std::array<RougeScore, 3> rouge_scores(const std::string& text, const std::string& reference, bool stem);

}  // namespace unroll
