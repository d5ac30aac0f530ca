// SPDX-License-Identifier: Apache-2.0
// Any bytes are a file as it is, or unpack to at most the limit, or are refused with Error(input_file).
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "core/data/file/gzip.h"
#include "core/data/file/held_text.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

FUZZ_TARGET(gzip) {
  using namespace unroll;
  constexpr std::size_t k_limit = std::size_t{1} << 20;
  const auto file = std::make_shared<HeldText>(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    const auto reader = unpacked(file, "fuzz", k_limit);
    if (reader != file && reader->size() > k_limit) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  return 0;
}
