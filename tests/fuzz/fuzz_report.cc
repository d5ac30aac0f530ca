// SPDX-License-Identifier: Apache-2.0
// Any bytes in metrics.jsonl, log.txt, config.toml and an attached file give a page without markup from them.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frontends/cli/report/page.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(report) {
  using namespace unroll::cli;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string page = html_page({record_of(text, text, text)}, {{"attached", text}});
  const std::string empty = html_page({record_of("", "", "")}, {{"attached", ""}});
  const auto scripts = [](const std::string& html) {
    int n = 0;
    for (std::size_t at = 0; (at = html.find("<script", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  if (scripts(page) != scripts(empty)) std::abort();
  return 0;
}
