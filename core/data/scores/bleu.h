// SPDX-License-Identifier: Apache-2.0
// Corpus BLEU and chrF: counts are summed over pairs, then combined into one score.
#pragma once

#include <array>
#include <span>
#include <string>

namespace unroll {

// BLEU (Papineni et al. 2002) as in sacrebleu: n-grams up to 4, tokenizer "13a", exponential smoothing, 0 to 100.
// Counts of a pair: matches, then text n-grams, by order; then the words of the text and of the reference.
inline constexpr std::size_t k_bleu_order = 4, k_bleu_counts = 2 * k_bleu_order + 2;
std::array<double, k_bleu_counts> bleu_counts(const std::string& text, const std::string& reference);
double bleu_of(std::span<const double> counts);

// chrF2 (Popovic 2015) as in sacrebleu: characters without white space, n-grams up to 6, beta 2, 0 to 100. Counts of a
// pair: text, reference, matches, by order.
inline constexpr std::size_t k_chrf_order = 6, k_chrf_counts = 3 * k_chrf_order;
std::array<double, k_chrf_counts> chrf_counts(const std::string& text, const std::string& reference);
double chrf_of(std::span<const double> counts);

}  // namespace unroll
