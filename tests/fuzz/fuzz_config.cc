// SPDX-License-Identifier: Apache-2.0
// Any text is a config or is refused with Error(input_file); a config's resolved text reads back to the same config,
// and the same text as --set is taken or refused with Error(usage).
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "frontends/config/config.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;
using namespace unroll::cli;

void try_file(std::string_view text) {
  Config config;
  try {
    config.apply_toml(text, "fuzz");
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
    return;
  }
  Config again;
  again.apply_toml(config.toml(k_every), "fuzz");
  if (!(again == config)) std::abort();
}

void try_setting(std::string_view text) {
  Config config;
  try {
    config.apply_setting(text);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) std::abort();
  }
}

}  // namespace

FUZZ_TARGET(config) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_file(text);
  try_setting(text.substr(0, text.find('\n')));
  return 0;
}
