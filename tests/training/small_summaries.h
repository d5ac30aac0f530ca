// SPDX-License-Identifier: Apache-2.0
// Pairs of texts small enough for the reference interpreter.
#pragma once

#include <string>

#include "unroll/tasks/tasks.h"

namespace unroll::testing {

// "the <name> of <name> came" -> "<name> came": each name occurs in one line, so that no vocabulary has it. Targets may
// have other words for "came" and "left".
inline std::string small_summaries(int n = 60, const std::string& came = "came", const std::string& left = "left") {
  const auto name = [](int k) {
    std::string letters;
    for (int i = 0, rest = k * 7919 + 13; i < 6; ++i, rest /= 5) letters += static_cast<char>('a' + rest % 5);
    return letters;
  };
  std::string text;
  for (int i = 0; i < n; ++i) {
    const std::string who = name(2 * i), where = name(2 * i + 1);
    text += (i % 3 == 0 ? "today " : "") + std::string("the ") + who + " of " + where;
    text += (i % 2 == 0 ? " came\t" : " left\t") + who + " " + (i % 2 == 0 ? came : left) + "\n";
  }
  return text;
}

inline SummarizeOptions small_summary_options() {
  SummarizeOptions o;
  o.model.hidden = 6;
  o.embedding = 4;
  o.batch = 8;
  o.test = 0.1;
  o.coverage = true;
  o.label_smoothing = 0.1;
  return o;
}

}  // namespace unroll::testing
