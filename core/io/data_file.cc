// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "unroll/support/vfs.h"

namespace unroll {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_digits = "0123456789abcdef";
constexpr std::size_t k_n_digits = 16;

// True for a data file of this name, or the remains of one after a killed process.
bool is_data_of(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + ".") || file.size() < name.size() + 1 + k_n_digits) return false;
  const std::string digits = file.substr(name.size() + 1, k_n_digits), rest = file.substr(name.size() + 1 + k_n_digits);
  return digits.find_first_not_of(k_digits) == std::string::npos && (rest == ".data" || rest == ".data.tmp");
}

}  // namespace

std::string data_file_name(const std::string& path, std::uint64_t hash) {
  std::string digits(k_n_digits, '0');
  for (std::size_t k = 0; k < digits.size(); ++k) digits[k] = k_digits[hash >> (60 - 4 * k) & 15];
  return fs::path(path).filename().string() + "." + digits + ".data";
}

void write_with_data(Vfs& vfs, const std::string& path, std::span<const std::span<const std::byte>> parts,
                     const DataFile& data) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  if (!data.name.empty()) write_atomically(vfs, (folder / data.name).string(), data.parts);
  write_atomically(vfs, path, parts);
  for (const std::string& file : vfs.list(folder.empty() ? "." : folder.string()))
    if (is_data_of(file, name) && file != data.name) vfs.remove((folder / file).string());
}

}  // namespace unroll
