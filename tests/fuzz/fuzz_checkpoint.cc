// SPDX-License-Identifier: Apache-2.0
// Any bytes are a checkpoint or are refused with Error(input_file). A first byte 0 stands for a pickle without its
// archive, whose views need not lie in a storage.
#include <cstdint>
#include <cstdlib>

#include "frontends/checkpoint/read/checkpoint.h"
#include "frontends/checkpoint/read/pickle.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

FUZZ_TARGET(checkpoint) {
  using namespace unroll;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    if (size > 0 && data[0] == 0) checkpoint::read_pickle(bytes.subspan(1), "fuzz");
    else checkpoint::parse_checkpoint(bytes, "fuzz");
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  return 0;
}
