// SPDX-License-Identifier: Apache-2.0
// Porter's stemmer (1980) with the extensions of NLTK, as used by rouge-score.
#pragma once

#include <string>

namespace unroll {

// Returns the stem of a lower-case word.
std::string porter_stem(const std::string& word);

}  // namespace unroll
