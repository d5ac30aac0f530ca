// SPDX-License-Identifier: Apache-2.0
#include "core/data/corpus/documents.h"

#include <algorithm>

#include "core/data/file/lines.h"

namespace unroll {

namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80);
}

}  // namespace

Document document_of(std::string_view text) {
  Document document(1);
  for (const std::string& part : words_of(text)) {
    const auto first = std::find_if(part.begin(), part.end(), is_word_character);
    const auto last = std::find_if(part.rbegin(), part.rend(), is_word_character).base();
    if (first != part.end()) {
      std::string& word = document.back().emplace_back(first, last);
      for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    const bool ends = std::any_of(first == part.end() ? part.begin() : last, part.end(),
                                  [](char c) { return c == '.' || c == '!' || c == '?'; });
    if (ends && !document.back().empty()) document.emplace_back();
  }
  if (document.back().empty()) document.pop_back();
  return document;
}

std::string excess_of(const Document& document) {
  if (document.size() > k_max_sentences)
    return "the text has " + std::to_string(document.size()) + " sentences; at most " +
           std::to_string(k_max_sentences) + " are read";
  for (const auto& sentence : document)
    if (sentence.size() > k_max_words)
      return "a sentence has " + std::to_string(sentence.size()) + " words; at most " + std::to_string(k_max_words) +
             " are read";
  return {};
}

}  // namespace unroll
