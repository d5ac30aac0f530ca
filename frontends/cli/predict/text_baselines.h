// SPDX-License-Identifier: Apache-2.0
// Simple methods that write a text for each text, with which a model is compared, and what is counted of their words.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "unroll/tasks/tasks.h"

namespace unroll::cli {

using Guess = std::function<std::string(const std::string& source)>;
std::map<std::string, Guess> translation_baselines(const PairTask& data);  // source_as_it_is, word_by_word
std::map<std::string, Guess> summary_baselines(const PairTask& data);      // first_sentence, first_words

// The share of trigrams of words, without regard to case, that occur earlier in the same text; 0 without a trigram.
double repeated_trigrams(std::span<const std::string> texts);

}  // namespace unroll::cli
