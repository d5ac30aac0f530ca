// SPDX-License-Identifier: Apache-2.0
// Whatever bytes a file has, its lines put together are the file, but for carriage returns before line ends and a byte
// order mark; and a line is ready before it is read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "frontends/cli/line_reader.h"
#include "unroll/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unroll;
  std::FILE* file = std::tmpfile();
  if (!file) return 0;
  if (size > 0) std::fwrite(data, 1, size, file);
  std::fflush(file);
  std::rewind(file);
  std::string wanted(reinterpret_cast<const char*>(data), size), found, line;
  try {
    cli::LineReader reader("/dev/fd/" + std::to_string(fileno(file)), /*skips_blank=*/false);
    for (std::int64_t n = 1; reader.ready(0) && reader.next(line); ++n) {
      if (reader.number() != n || line.find('\n') != std::string::npos) std::abort();
      found += line + "\n";
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
    std::fclose(file);
    return 0;
  }
  std::fclose(file);
  if (!wanted.empty() && wanted.back() != '\n') wanted += '\n';
  if (wanted.starts_with("\xEF\xBB\xBF")) wanted.erase(0, 3);
  for (std::size_t at = 0; (at = wanted.find("\r\n", at)) != std::string::npos; ++at) wanted.erase(at, 1);
  if (found != wanted) std::abort();
  return 0;
}
