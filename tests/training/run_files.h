// SPDX-License-Identifier: Apache-2.0
// The files of a run in memory, and where those of two runs differ first.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <sstream>
#include <string>

#include "tests/support/memory_vfs.h"
#include "unroll/io/safetensors.h"

namespace unroll::testing {

using RunFiles = std::map<std::string, Bytes>;

inline RunFiles files_of(MemoryVfs& vfs, const std::string& folder) {
  RunFiles files;
  for (const char* name : {"last.safetensors", "best.safetensors", "metrics.jsonl"})
    files.emplace(name, vfs.read(folder + "/" + name, 1u << 24));
  return files;
}

inline std::span<const std::byte> view(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }
inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

inline std::string line_difference(const Bytes& a, const Bytes& b) {
  const auto text = [](const Bytes& bytes) {
    return std::istringstream(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  std::istringstream left = text(a), right = text(b);
  for (int n = 1;; ++n) {
    std::string in_a, in_b;
    const bool more_a = static_cast<bool>(std::getline(left, in_a));
    const bool more_b = static_cast<bool>(std::getline(right, in_b));
    if (!more_a && !more_b) return "the ends of lines differ";
    if (in_a != in_b || more_a != more_b) return "line " + std::to_string(n) + ": " + in_a + "\n  and " + in_b;
  }
}

inline std::string tensor_difference(const Bytes& a, const Bytes& b) {
  const TensorFile left = parse_safetensors(view(a), "left"), right = parse_safetensors(view(b), "right");
  std::string text;
  for (const auto& [key, value] : left.metadata)
    if (const auto at = right.metadata.find(key); at == right.metadata.end() || at->second != value)
      text += "metadata " + key + ": " + value + " and " + (at == right.metadata.end() ? "none" : at->second) + "; ";
  if (left.tensors.size() != right.tensors.size()) text += "the numbers of tensors differ; ";
  for (const auto& [name, tensor] : left.tensors) {
    const auto at = right.tensors.find(name);
    if (at == right.tensors.end() || at->second.type() != tensor.type()) {
      text += name + " is missing or has another type; ";
      continue;
    }
    const auto x = tensor.bytes(), y = at->second.bytes();
    if (equal(x, y)) continue;
    const std::size_t width = dtype_bytes(tensor.dtype());
    std::size_t n = 0, first = x.size();
    for (std::size_t i = 0; i < x.size(); i += width) {
      if (std::memcmp(&x[i], &y[i], width) == 0) continue;
      ++n;
      first = std::min(first, i);
    }
    const auto element = static_cast<std::int64_t>(first / width);
    std::ostringstream values;
    values.precision(9);
    values << tensor.at(element) << " and " << at->second.at(element);
    text += name + ": " + std::to_string(n) + " elements, the first " + std::to_string(element) + ": " + values.str() +
            "; ";
  }
  return text.empty() ? "only their layout differs" : text;
}

// Empty where the files have the same bytes; otherwise each file with the tensors, metadata or line that differ.
inline std::string difference(const RunFiles& a, const RunFiles& b) {
  std::string text;
  for (const auto& [name, bytes] : a) {
    const Bytes& other = b.at(name);
    if (equal(view(bytes), view(other))) continue;
    text += name + ": " + (name.ends_with(".jsonl") ? line_difference(bytes, other) : tensor_difference(bytes, other)) +
            "\n";
  }
  return text;
}

}  // namespace unroll::testing
