// SPDX-License-Identifier: Apache-2.0
// Documents split into sentences of words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unroll {

inline constexpr std::size_t k_max_sentences = 256;  // per document
inline constexpr std::size_t k_max_words = 256;      // per sentence

// Splits a text into sentences and words. A sentence ends after a blank-separated part with . ! or ? near its end:
// "sat." "so!)". A word is such a part in lower case, without surrounding ASCII characters that are no letters or
// digits. Sentences without words are omitted.
using Document = std::vector<std::vector<std::string>>;
Document document_of(std::string_view text);

// Returns the limit that the document exceeds, as text; "" if none.
std::string excess_of(const Document& document);

}  // namespace unroll
