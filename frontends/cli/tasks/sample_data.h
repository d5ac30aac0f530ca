// SPDX-License-Identifier: Apache-2.0
// Small synthetic data for `unroll new`, so that a new folder trains at once.
#pragma once

#include <cstdint>
#include <string>

namespace unroll::cli {

// Returns the n-th number in [0, 1) of a fixed random sequence.
double sample_uniform(std::uint64_t n);

std::string sample_text();      // sentences from a small grammar
std::string sample_series();    // CSV: week, value with trend, season and noise
std::string sample_patterns();  // CSV: 64 values, then the label 0, 1 or 2
std::string sample_pairs();     // numbers below 1,000 in digits, and in words
std::string sample_summaries();  // reports with made-up names, and a summary: who did what where
std::string sample_labels();    // the sentences of sample_text as words, each with its role: who, does, what, when

std::string sample_documents();  // a few sentences of sample_text each, labeled with the subject of the last one

}  // namespace unroll::cli
