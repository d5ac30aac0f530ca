// SPDX-License-Identifier: Apache-2.0
// Any line is a step's numbers or is refused with Error(input_file); numbers that were read are finite.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "frontends/cli/predict/number_lines.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

FUZZ_TARGET(number_lines) {
  using namespace unroll;
  if (size == 0) return 0;
  std::vector<float> values(data[0] % 8);
  try {
    cli::parse_numbers({reinterpret_cast<const char*>(data) + 1, size - 1}, values, "fuzz", 1);
    for (const float value : values)
      if (!std::isfinite(value)) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  return 0;
}
