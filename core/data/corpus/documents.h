// SPDX-License-Identifier: Apache-2.0
// Documents as sentences of words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unroll {

inline constexpr std::size_t k_max_sentences = 256;  // of a document
inline constexpr std::size_t k_max_words = 256;      // of a sentence

// A sentence ends behind a part between blanks that has . ! or ? near its end: "sat." "so!)". A word is such a part in
// small letters, without the bytes around it that are no letter, digit or part of a character outside ASCII. Sentences
// without a word are left out.
using Document = std::vector<std::vector<std::string>>;
Document document_of(std::string_view text);

// What is too large in it, or "".
std::string excess_of(const Document& document);

}  // namespace unroll
