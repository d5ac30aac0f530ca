// SPDX-License-Identifier: Apache-2.0
// Baselines that generate a text for each text, and counts of their words.
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

// Returns the share of word trigrams, ignoring case, that occur earlier in the same text; 0 without a trigram.
double repeated_trigrams(std::span<const std::string> texts);

}  // namespace unroll::cli
