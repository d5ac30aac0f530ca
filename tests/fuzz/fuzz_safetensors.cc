// SPDX-License-Identifier: Apache-2.0
// Any bytes are read or refused with Error(input_file); what was read saves and reads back equal.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/fuzz/target.h"
#include "tests/support/memory_vfs.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

bool equal(const TensorFile& a, const TensorFile& b) {
  return a.metadata == b.metadata && std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                                                [](const auto& s, const auto& t) {
                                                  const auto x = s.second.bytes(), y = t.second.bytes();
                                                  return s.first == t.first && s.second.type() == t.second.type() &&
                                                         std::equal(x.begin(), x.end(), y.begin(), y.end());
                                                });
}

void try_file(std::span<const std::byte> bytes) {
  TensorFile file;
  try {
    file = parse_safetensors(bytes, "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input_file) std::abort();
    return;
  }
  MemoryVfs memory;
  save_safetensors("f", file, memory);
  if (!equal(file, load_safetensors("f", memory))) std::abort();
}

// The same bytes with the header length set to end at the last brace, so that a change of the text does not
// make the length wrong.
std::vector<std::byte> with_fitting_length(std::span<const std::byte> bytes) {
  std::vector<std::byte> fitted(bytes.begin(), bytes.end());
  const auto brace = std::find(fitted.rbegin(), fitted.rend(), std::byte{'}'});
  const auto end = static_cast<std::size_t>(fitted.rend() - brace);
  for (std::size_t i = 0; i < 8 && end >= 8; ++i) fitted[i] = static_cast<std::byte>((end - 8) >> (8 * i) & 255u);
  return fitted;
}

}  // namespace

FUZZ_TARGET(safetensors) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try_file(bytes);
  try_file(with_fitting_length(bytes));
  return 0;
}
