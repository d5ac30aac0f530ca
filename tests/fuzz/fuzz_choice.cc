// SPDX-License-Identifier: Apache-2.0
// A choice of an algorithm in a file: whatever the text holds, it is refused, or printed as the same bytes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backends/common/autotune/choice.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(choice) {
  using namespace unroll::common;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto choice = parse_choice(text);
  if (!choice) return 0;
  if (choice->chosen >= choice->candidates.size() || !choice->best().runs() || print_choice(*choice) != text ||
      choice->candidates.size() > k_most_candidates || times_text(*choice).empty())
    std::abort();
  return 0;
}
