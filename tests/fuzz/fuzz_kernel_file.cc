// SPDX-License-Identifier: Apache-2.0
// A file of a compiled kernel: whatever it holds, a kernel is read only from the file that was written, for what it
// depends on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backends/common/kernel_files.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(kernel_file) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto kept = unroll::common::parse_kernel(file, "device");
  if (!kept.bytes.empty() && (!kept.damage.empty() || kept.bytes.size() + 6 >= size || !file.ends_with(kept.bytes)))
    std::abort();
  return 0;
}
