// SPDX-License-Identifier: Apache-2.0
#include "core/io/npy_header.h"

#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "unroll/support/error.h"

namespace unroll {

namespace {

// The header is a literal of a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class NpyDict {
 public:
  NpyDict(std::string_view text, const std::string& file_name) : rest_(text), file_name_(file_name) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    need('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      need(':');
      if (key == "descr" && !std::exchange(has_descr, true)) {
        header.descr = std::string(type());
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        header.fortran_order = truth();
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        header.shape = shape();
      } else {
        refuse("has a key '" + std::string(key.substr(0, 100)) + "', unknown or for the second time");
      }
      if (!take(',')) {
        need('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) refuse("has not the keys descr, fortran_order and shape");
    return header;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input_file, file_name_, "the header of the NumPy array " + what, "Save it again");
  }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
  bool take(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!take(c)) refuse(std::string("lacks a '") + c + "'");
  }
  bool take(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string_view quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') need('"');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) refuse("has a text without an end");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    if (take("True")) return true;
    if (!take("False")) refuse("has a fortran_order that is neither True nor False");
    return false;
  }
  std::vector<std::int64_t> shape() {
    constexpr std::size_t k_most = 64;
    std::vector<std::int64_t> sizes;
    need('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0 || sizes.size() == k_most) refuse("has a shape that is none");
      rest_.remove_prefix(end - rest_.data());
      take('L');  // of Python 2
      sizes.push_back(size);
      if (!take(',') && !rest_.starts_with(')')) refuse("has a shape that is none");
    }
    return sizes;
  }
  // A text, or the list of a structured type up to its bracket.
  std::string_view type() {
    skip_spaces();
    if (!rest_.starts_with('[')) return quoted();
    const std::string_view all = rest_;
    int depth = 0;
    do {
      if (rest_.empty()) refuse("has a type without an end");
      if (rest_[0] == '\'' || rest_[0] == '"') {
        quoted();
        continue;
      }
      depth += rest_[0] == '[' ? 1 : rest_[0] == ']' ? -1 : 0;
      rest_.remove_prefix(1);
    } while (depth > 0);
    return all.substr(0, all.size() - rest_.size());
  }

  std::string_view rest_;
  const std::string& file_name_;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& file_name) {
  constexpr std::string_view k_magic = "\x93NUMPY";
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  const NpyDict none("", file_name);
  if (!bytes.starts_with(k_magic) || bytes.size() < 12) none.refuse("is missing");
  const int version = static_cast<unsigned char>(bytes[k_magic.size()]);
  if (version < 1 || version > 3) none.refuse("has version " + std::to_string(version) + "; 1 to 3 are read");
  const std::size_t begin = version == 1 ? 10 : 12;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, version == 1 ? 2 : 4);
  if (length > k_max_npy_header_bytes || length > bytes.size() - begin) none.refuse("ends too early");
  NpyHeader header = NpyDict(bytes.substr(begin, length), file_name).parse();
  header.data_offset = begin + length;
  return header;
}

}  // namespace unroll
