// SPDX-License-Identifier: Apache-2.0
// Whatever bytes a file has, its lines put together are the file, or what it unpacks to, but for carriage returns
// before line ends and byte order marks; a file in another encoding is refused; and a line is ready before it is read.
// A line has a cell, or is refused with Error(input_file).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "core/data/corpus/text_column.h"
#include "core/data/file/gzip.h"
#include "core/data/file/held_text.h"
#include "core/data/text/encoding.h"
#include "frontends/cli/predict/line_reader.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

namespace {

// The text of a file, unpacked if it is packed.
std::string text_of(const std::string& bytes) {
  using namespace unroll;
  constexpr std::size_t k_limit = std::size_t{1} << 25;
  const auto reader = unpacked(std::make_shared<HeldText>(bytes), "fuzz", k_limit);
  std::string text(reader->size(), '\0');
  reader->read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void check_cell(unroll::TextColumn& column, const std::string& line, std::int64_t number) {
  try {
    const std::optional<std::string> cell = column.cell(line, number);
    if (cell && cell->size() > line.size()) std::abort();  // escapes of JSON are longer than their characters
  } catch (const unroll::Error& e) {
    if (e.kind() != unroll::ErrorKind::input_file) std::abort();
  }
}

}  // namespace

FUZZ_TARGET(line_reader) {
  using namespace unroll;
  std::FILE* file = std::tmpfile();
  if (!file) return 0;
  if (size > 0) std::fwrite(data, 1, size, file);
  std::fflush(file);
  std::rewind(file);
  std::string wanted(reinterpret_cast<const char*>(data), size), found, line;
  bool refused = false, wanted_refused = false;
  TextColumn numbered("2", "fuzz"), named("text", "fuzz");
  try {
    wanted = text_of(wanted);
    const std::size_t end = wanted.find('\n');
    require_start_of_text(wanted.substr(0, end == std::string::npos ? end : end + 1), end == std::string::npos, "fuzz");
  } catch (const Error&) {
    wanted_refused = true;
  }
  if (wanted.size() > cli::LineReader::k_max_line_bytes) return std::fclose(file), 0;
  try {
    cli::LineReader reader("/dev/fd/" + std::to_string(fileno(file)), /*skips_blank=*/false);
    for (std::int64_t n = 1; reader.ready(0) && reader.next(line); ++n) {
      if (reader.number() != n || line.find('\n') != std::string::npos) std::abort();
      found += line + "\n";
      check_cell(numbered, line, n);
      check_cell(named, line, n);
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
    refused = true;
  }
  if (refused != wanted_refused) std::abort();
  std::fclose(file);
  if (refused) return 0;
  if (!wanted.empty() && wanted.back() != '\n') wanted += '\n';
  wanted = without_marks(wanted);
  for (std::size_t at = 0; (at = wanted.find("\r\n", at)) != std::string::npos; ++at) wanted.erase(at, 1);
  if (found != wanted) std::abort();
  return 0;
}
