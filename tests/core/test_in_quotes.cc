// SPDX-License-Identifier: Apache-2.0
// Foreign text in messages: every character whole, nothing that moves a cursor, and a mark where something is left out.
#include <doctest/doctest.h>

#include "core/support/text/in_quotes.h"

using unroll::in_quotes;

TEST_CASE("text of printable characters stands as it is") {
  CHECK(in_quotes("") == "''");
  CHECK(in_quotes("weight_ih_l0") == "'weight_ih_l0'");
  CHECK(in_quotes("Größe 東京 🙂") == "'Größe 東京 🙂'");
}

TEST_CASE("control characters and bytes that are no UTF-8 are escaped") {
  CHECK(in_quotes("a\x1b[2Jb\n") == "'a\\x1b[2Jb\\x0a'");
  CHECK(in_quotes(std::string_view("\0", 1)) == "'\\x00'");
  CHECK(in_quotes("\x7f\xc2\x9b") == "'\\x7f\\xc2\\x9b'");  // DEL, and CSI of the C1 controls
  CHECK(in_quotes("caf\xe9") == "'caf\\xe9'");
  CHECK(in_quotes("\xe6\x9d") == "'\\xe6\\x9d'");        // the third byte is missing
  CHECK(in_quotes("\xc0\xaf") == "'\\xc0\\xaf'");        // an overlong slash
  CHECK(in_quotes("\xed\xa0\x80") == "'\\xed\\xa0\\x80'");  // a surrogate
}

TEST_CASE("long text is cut between characters and marked") {
  std::string whole, longer;
  for (std::size_t n = 0; n < unroll::k_quoted_characters; ++n) whole += "京";
  longer = whole + "x";
  CHECK(in_quotes(whole) == "'" + whole + "'");
  CHECK(in_quotes(longer) == "'" + whole + "...'");
}
