// SPDX-License-Identifier: Apache-2.0
// Porter's stemmer (1980) with the extensions of NLTK, which rouge-score uses.
#pragma once

#include <string>

namespace unroll {

// Of a word in small letters.
std::string porter_stem(const std::string& word);

}  // namespace unroll
