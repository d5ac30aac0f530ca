// SPDX-License-Identifier: Apache-2.0
// Every kind of tokenizer learns from any text, cuts it into tokens that give it back where nothing is unknown, and
// survives what it stores. Anything as stored is a tokenizer or is refused with Error(input_file).
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/data/tokens/tokenizer.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

void use(const Tokenizer& tokenizer, std::string_view text) {
  std::string back;
  bool all_known = true;
  for (const std::int32_t id : tokenizer.encode(text, "fuzz")) {
    if (id < 0 || id >= tokenizer.size()) std::abort();
    all_known = all_known && id != tokenizer.unknown();
    back += tokenizer.text(id);
  }
  if (all_known && back != text) std::abort();
  if (tokenizer.unknown() >= 0) {
    const std::vector<std::string> parts = tokenizer.parts(text);
    if (parts.size() != tokenizer.encode(text, "fuzz").size()) std::abort();
    back.clear();
    for (const std::string& part : parts) back += part;
    if (back != text) std::abort();
  }
  const Tokenizer again = Tokenizer::from_stored(tokenizer.kind(), tokenizer.stored(), "fuzz");
  if (again.size() != tokenizer.size() || again.encode(text, "fuzz") != tokenizer.encode(text, "fuzz")) std::abort();
}

template <class F>
void refuses_well(const F& call) {
  try {
    call();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
}

}  // namespace

FUZZ_TARGET(tokenizer) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* kind : {"bytes", "characters", "words", "bpe"}) {
    refuses_well(
        [&] { use(Tokenizer::train(kind, std::vector{text}, {.vocabulary = 300, .min_count = 1}, "fuzz"), text); });
    refuses_well([&] { use(Tokenizer::from_stored(kind, text, "fuzz"), text); });
  }
  return 0;
}
