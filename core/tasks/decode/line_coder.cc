// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/line_coder.h"

#include "core/tasks/common/task_parts.h"

namespace unroll {

LineCoder get_coder(const Metadata& metadata, const std::string& which) {
  const std::string key = which.empty() ? "vocabulary" : which + ".vocabulary";
  return LineCoder(
      Tokenizer::from_stored(get_text(metadata, "tokens"), get_text(metadata, key), "model metadata '" + key + "'"));
}

namespace {

// White space would otherwise become tokens too.
bool has_words(std::string_view line) { return line.find_first_not_of(" \t\r\n") != std::string_view::npos; }

}  // namespace

std::vector<std::int32_t> LineCoder::encode(std::string_view line, const std::string& name) const {
  if (tokenizer_.pieces() && !has_words(line)) return {};
  return tokenizer_.pieces() ? tokenizer_.encode(" " + std::string(line), name) : tokenizer_.encode(line, name);
}

std::vector<std::string> LineCoder::parts(std::string_view line) const {
  if (tokenizer_.pieces() && !has_words(line)) return {};
  return tokenizer_.pieces() ? tokenizer_.parts(" " + std::string(line)) : tokenizer_.parts(line);
}

std::string LineCoder::joined(std::span<const std::string> parts) const {
  std::string line;
  for (const std::string& part : parts) line += part;
  if (tokenizer_.pieces() && line.starts_with(' ')) line.erase(0, 1);
  return line;
}

}  // namespace unroll
