// SPDX-License-Identifier: Apache-2.0
// The constants of a step: arrays in the header, or a file with the layout of a struct in the header.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <type_traits>

#include "backends/common/print_parts.h"
#include "backends/cxx/parts.h"
#include "core/support/fnv.h"

namespace unroll::cxx {

namespace {

static_assert(std::endian::native == std::endian::little, "the file is written as it lies in memory");

// The file: mark, byte order and hash, then the arrays, each at a multiple of k_align.
constexpr std::string_view k_mark = "unrollw1";
constexpr std::uint64_t k_byte_order = 0x0102030405060708;
constexpr std::size_t k_align = 64;

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, float>) return "float";
  else if constexpr (std::is_same_v<T, std::int32_t>) return "int32_t";
  else if constexpr (std::is_same_v<T, std::uint16_t>) return "uint16_t";
  else if constexpr (std::is_same_v<T, std::uint8_t>) return "uint8_t";
  else return "int8_t";
}

template <class T>
std::string number_text(T number) {
  if constexpr (std::is_same_v<T, float>) return common::literal(common::Dialect::cpp, DType::f32, number);
  else if constexpr (std::is_same_v<T, std::int32_t>) return common::literal(common::Dialect::cpp, DType::i32, number);
  else return std::to_string(number);
}

// Comma-separated, some in a line.
template <class T>
std::string listed(std::span<const T> numbers) {
  std::string all;
  int in_line = 0;
  for (const T number : numbers) all += (in_line++ % 16 == 0 ? "\n    " : " ") + number_text(number) + ",";
  return all;
}

std::string hexadecimal(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llxull", static_cast<unsigned long long>(number));
  return text;
}

std::string_view bytes_of(const std::uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

void pad(std::string& bytes) { bytes.resize((bytes.size() + k_align - 1) / k_align * k_align, '\0'); }

// The text with each key in it replaced.
std::string filled_in(std::string text, std::initializer_list<std::pair<std::string_view, std::string>> values) {
  for (const auto& [key, value] : values)
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size())
      text.replace(at, key.size(), value);
  return text;
}

constexpr const char* k_definitions = R"(// The file of weights, as it lies in memory.
struct Weights {
  char mark[8];
  uint64_t byte_order, hash;
$DECLARED};
static_assert(sizeof(Weights) == $SIZE, "this compiler lays out arrays in another way than the file of weights");
// The error in weights in memory, or nullptr. The hash is FNV-1a over the declarations above and the arrays.
inline const char* unroll_wrong(const void* data, std::size_t size) {
  if (!data || size != sizeof(Weights))
    return "the weights must have $SIZE bytes: the file is cut, or was written with another header";
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(Weights) != 0)
    return "the weights must lie at a multiple of 64 bytes: keep them in an object of type Weights";
  const Weights& w = *static_cast<const Weights*>(data);
  if (std::memcmp(w.mark, "$MARK", sizeof w.mark) != 0)
    return "this is no file of weights that unroll export wrote with this version of the format";
  if (w.byte_order != $ORDER) return "the weights are little-endian, and this processor is not";
  if (w.hash != $HASH) return "the weights were written with another header: use those of the same export";
  uint64_t hash = $BASIS;
  const unsigned char* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = $ALIGN; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ull;
  return hash == w.hash ? nullptr : "the weights are damaged: copy the file again";
}
)";

constexpr const char* k_members = R"(  using Weights = unroll_$NAME::Weights;
  // Uses the weights at `data`, which must stay there, and resets the states. Returns nullptr, or what is wrong: then,
  // and before weights are loaded, outputs are NaN.
  const char* load(const void* data, std::size_t size) {
    const char* wrong = unroll_wrong(data, size);
    weights_ = wrong ? nullptr : static_cast<const Weights*>(data);
    reset();
    return wrong;
  }
  // Reads a file into `memory`, which must outlive the model, and uses it.
  const char* load_file(const char* path, Weights& memory) {
    weights_ = nullptr;
    std::FILE* file = std::fopen(path, "rb");
    if (!file) return "the file of weights cannot be opened";
    const std::size_t size = std::fread(&memory, 1, sizeof(Weights), file);
    const bool is_whole = std::fgetc(file) == EOF;
    std::fclose(file);
    return load(&memory, is_whole ? size : size + 1);
  }
)";

}  // namespace

template <class T>
std::string Constants::add(std::span<const T> numbers) {
  const std::string name = "k" + std::to_string(n_arrays_++);
  const std::string declaration =
      type_name<T>() + " " + name + "[" + std::to_string(std::max<std::size_t>(numbers.size(), 1)) + "]";
  if (!are_separate_) {
    declared_ += "alignas(64) static const " + declaration + " = {" + listed(numbers) + "\n};\n";
    return name;
  }
  declared_ += "  alignas(64) " + declaration + ";\n";
  arrays_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  if (numbers.empty()) arrays_.append(sizeof(T), '\0');
  pad(arrays_);
  return "w." + name;
}
template std::string Constants::add(std::span<const float>);
template std::string Constants::add(std::span<const std::int32_t>);
template std::string Constants::add(std::span<const std::uint16_t>);
template std::string Constants::add(std::span<const std::uint8_t>);
template std::string Constants::add(std::span<const std::int8_t>);

std::uint64_t Constants::hash() const { return Fnv().add(declared_).add(arrays_).value(); }

std::string Constants::includes() const { return are_separate_ ? "#include <cstddef>\n#include <cstdio>\n" : ""; }

std::string Constants::definitions() const {
  if (!are_separate_) return declared_;
  return filled_in(k_definitions, {{"$DECLARED", declared_},
                                   {"$SIZE", std::to_string(k_align + arrays_.size())},
                                   {"$MARK", std::string(k_mark)},
                                   {"$ORDER", hexadecimal(k_byte_order)},
                                   {"$HASH", hexadecimal(hash())},
                                   {"$BASIS", hexadecimal(fnv(declared_))},
                                   {"$ALIGN", std::to_string(k_align)}});
}

std::string Constants::members(const std::string& name) const {
  return are_separate_ ? filled_in(k_members, {{"$NAME", name}}) : "";
}

std::string Constants::private_members() const { return are_separate_ ? "  const Weights* weights_ = nullptr;\n" : ""; }

std::string Constants::first_statements(std::int64_t outputs) const {
  if (!are_separate_) return "";
  return "    if (!weights_) {\n      for (int e = 0; e < " + std::to_string(outputs) +
         "; ++e) y[e] = std::numeric_limits<float>::quiet_NaN();\n      return;\n    }\n" +
         (n_arrays_ > 0 ? "    const Weights& w = *weights_;\n" : "");
}

std::string Constants::reset_statements() const {
  return are_separate_ ? "    if (!weights_) return;\n    const Weights& w = *weights_;\n" : "";
}

std::string Constants::file() const {
  if (!are_separate_) return "";
  std::string bytes(k_mark);
  bytes += bytes_of(k_byte_order);
  bytes += bytes_of(hash());
  pad(bytes);
  return bytes + arrays_;
}

}  // namespace unroll::cxx
