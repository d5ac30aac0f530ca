// SPDX-License-Identifier: Apache-2.0
// Reads and writes safetensors: exact conversion of dtypes, and a writer whose bytes depend only on the content.
#include "unroll/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/io/digest.h"
#include "core/io/safetensors_header.h"
#include "core/support/checked_size.h"
#include "core/support/formats.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and copied as it is");

constexpr std::size_t k_data_alignment = 64;

[[noreturn]] void refuse_tensor(const std::string& file, const std::string& name, const std::string& what,
                                std::string_view next) {
  throw Error(ErrorKind::input_file, file, "tensor " + in_quotes(name) + " " + what, next);
}

struct Source {
  const std::byte* data;
  const std::string& file;
  const std::string& name;

  template <class T> T read(std::size_t i) const {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return value;
  }
  [[noreturn]] void refuse(std::size_t i, const std::string& value, const std::string& rule,
                           std::string_view next) const {
    refuse_tensor(file, name, "has " + value + " as element " + std::to_string(i) + "; " + rule, next);
  }
};

void copy(const Source& from, Tensor& to) {
  if (!to.bytes().empty()) std::memcpy(to.bytes().data(), from.data, to.bytes().size());
}
void copy_booleans(const Source& from, Tensor& to) {
  const auto values = to.values<std::uint8_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = from.read<std::uint8_t>(i);
    if (values[i] > 1)
      from.refuse(i, std::to_string(values[i]), "a BOOL must be 0 or 1", "Write it as BOOL of 0 and 1, or as U8");
  }
}
template <class Integer>
void as_i32(const Source& from, Tensor& to) {
  const auto values = to.values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto given = from.read<Integer>(i);
    if (!std::in_range<std::int32_t>(given))
      from.refuse(i, std::to_string(given), "an integer must fit into 32 bits with sign", "Write smaller numbers");
    values[i] = static_cast<std::int32_t>(given);
  }
}
template <class Half>
void widen_float(const Source& from, Tensor& to) {
  const auto values = to.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(from.read<Half>(i));
}

struct ConversionRow {
  std::string_view stored;
  DType dtype;
  void (*convert)(const Source&, Tensor&);
};
constexpr ConversionRow k_conversions[] = {
    {"F64", DType::f64, copy},
    {"F32", DType::f32, copy},
    {"F16", DType::f32, widen_float<F16>},
    {"BF16", DType::f32, widen_float<Bf16>},
    {"I64", DType::i32, as_i32<std::int64_t>},
    {"I32", DType::i32, copy},
    {"I16", DType::i32, as_i32<std::int16_t>},
    {"I8", DType::i32, as_i32<std::int8_t>},
    {"U64", DType::i32, as_i32<std::uint64_t>},
    {"U32", DType::i32, as_i32<std::uint32_t>},
    {"U16", DType::i32, as_i32<std::uint16_t>},
    {"U8", DType::i32, as_i32<std::uint8_t>},
    {"BOOL", DType::b8, copy_booleans},
};

// In the order of DType: f32, f64, i32, b8, bf16, f16. 16-bit floats are read as f32.
constexpr std::array<std::string_view, k_n_dtypes> k_written{"F32", "F64", "I32", "BOOL", "BF16", "F16"};

[[noreturn]] void refuse_to_write(const std::string& path, const std::string& what, std::string_view next) {
  throw Error(ErrorKind::usage, path, what, next);
}

std::string json_string(const std::string& path, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    refuse_to_write(path, "cannot hold the text " + in_quotes(text) + ": it is not UTF-8", "Convert it to UTF-8");
  }
}

void check_writable(const std::string& path, const TensorFile& file) {
  if (file.tensors.contains("__metadata__"))
    refuse_to_write(path, "cannot hold a tensor named '__metadata__': the format keeps that name", "Rename the tensor");
  if (file.tensors.size() + file.metadata.size() >= k_max_entries)
    refuse_to_write(path, "cannot hold more than " + std::to_string(k_max_entries - 1) + " entries", "Split it");
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.dtype() != DType::b8) continue;
    const auto values = tensor.values<std::uint8_t>();
    if (std::any_of(values.begin(), values.end(), [](std::uint8_t v) { return v > 1; }))
      refuse_to_write(path, "cannot hold " + in_quotes(name) + ": a b8 value must be 0 or 1", "Set it to 0 or 1");
  }
}

using Named = std::pair<const std::string, Tensor>;

// Decreasing dtype size keeps every tensor aligned to its element; the name makes the order unique.
std::vector<const Named*> data_order(const TensorMap& tensors) {
  std::vector<const Named*> order;
  for (const auto& named : tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](const Named* a, const Named* b) {
    return dtype_bytes(a->second.dtype()) > dtype_bytes(b->second.dtype());
  });
  return order;
}

std::string header_text(const std::string& path, const TensorFile& file, std::span<const Named* const> order) {
  std::string text = "{";
  const auto comma = [&text] {
    if (text.back() != '{') text += ',';
  };
  if (!file.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : file.metadata) {
      comma();
      // The value may be an old digest, such as that of the file these tensors came from.
      const bool is_digest = key == k_digest && value.starts_with(k_digest_form);
      text += json_string(path, key) + ":" +
              json_string(path, is_digest ? digest_of(file.tensors, file.metadata) : value);
    }
    text += '}';
  }
  CheckedSize at = 0;
  for (const Named* named : order) {
    const auto& [name, tensor] = *named;
    comma();
    text += json_string(path, name) + ":{\"dtype\":\"";
    text += k_written[static_cast<std::size_t>(tensor.dtype())];
    text += "\",\"shape\":" + tensor.shape().text() + ",\"data_offsets\":[";
    text += std::to_string(at.require(ErrorKind::memory, path, "data size overflows")) + ",";
    at += tensor.bytes().size();
    text += std::to_string(at.require(ErrorKind::memory, path, "data size overflows")) + "]}";
  }
  text += '}';
  while ((8 + text.size()) % k_data_alignment != 0) text += ' ';
  if (text.size() > k_max_header_bytes)
    refuse_to_write(path,
                    "would need a header of " + std::to_string(text.size()) + " bytes; at most 100000000 are allowed",
                    "Split it or use shorter names and metadata");
  return text;
}

}  // namespace

Tensor read_entry(std::span<const std::byte> file, const FileHeader& header, const std::string& entry,
                  const std::string& file_name) {
  const FileEntry& e = header.entries.at(entry);
  const auto row = std::ranges::find(k_conversions, e.dtype, &ConversionRow::stored);
  if (row == std::end(k_conversions))
    refuse_tensor(file_name, entry, "has the type " + in_quotes(e.dtype) + ", which unroll cannot use",
                  "Convert it to F32, or leave it out of the file");
  if (e.shape.size() > std::size_t{Shape::k_max_rank})
    refuse_tensor(file_name, entry, "has " + std::to_string(e.shape.size()) + " dimensions; unroll reads at most 6",
                  "Reshape it, or leave it out of the file");
  for (const std::uint64_t d : e.shape)
    if (d > static_cast<std::uint64_t>(Shape::k_max_dimension))
      refuse_tensor(file_name, entry, "has the dimension " + std::to_string(d) + ", which is too large",
                    "Leave it out of the file");
  Tensor tensor(row->dtype, Shape(std::vector<std::int64_t>(e.shape.begin(), e.shape.end())));
  row->convert({file.data() + header.data_offset + e.begin, file_name, entry}, tensor);
  return tensor;
}

TensorFile parse_safetensors(std::span<const std::byte> file, const std::string& name) {
  FileHeader header = parse_safetensors_header(file, name);
  TensorFile result;
  result.metadata = std::move(header.metadata);
  for (const auto& [entry, where] : header.entries)
    result.tensors.emplace_hint(result.tensors.end(), entry, read_entry(file, header, entry, name));
  return result;
}

TensorFile load_safetensors(const std::string& path, Vfs& vfs) {
  const Bytes file = vfs.read(path, k_max_tensor_file_bytes);
  return parse_safetensors({file.data(), file.size()}, path);
}

namespace {

// Calls take(parts) with the parts of the file: header size, header, and each tensor.
template <class Take>
void with_parts(const std::string& path, const TensorFile& file, const Take& take) {
  check_writable(path, file);
  const auto order = data_order(file.tensors);
  const std::string text = header_text(path, file, order);
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(text.size() >> (8 * i) & 255u);
  std::vector<std::span<const std::byte>> parts{length, std::as_bytes(std::span(text))};
  for (const Named* named : order) parts.push_back(named->second.bytes());
  take(parts);
}

}  // namespace

void save_safetensors(const std::string& path, const TensorFile& file, Vfs& vfs) {
  with_parts(path, file, [&](const auto& parts) { write_atomically(vfs, path, parts); });
}

std::vector<std::byte> safetensors_bytes(const TensorFile& file) {
  std::vector<std::byte> bytes;
  with_parts("safetensors", file, [&](const auto& parts) {
    for (const auto part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
  });
  return bytes;
}

Result<TensorFile> try_load_safetensors(const std::string& path, Vfs& vfs) noexcept {
  return attempt([&] { return load_safetensors(path, vfs); });
}

}  // namespace unroll
