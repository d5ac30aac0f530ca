// SPDX-License-Identifier: Apache-2.0
// Simple methods that write a text for each text, beside which a model is judged, and what is counted of their words.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "unroll/tasks.h"

namespace unroll::cli {

using Guess = std::function<std::string(const std::string& source)>;
// translate: source_as_it_is, word_by_word; summarize: first_sentence, first_words
std::map<std::string, Guess> text_baselines(std::string_view task, const PairTask& data);

// The share of trigrams of words, without regard to case, that occur earlier in the same text; 0 without a trigram.
double repeated_trigrams(std::span<const std::string> texts);

}  // namespace unroll::cli
