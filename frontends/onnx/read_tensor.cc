// SPDX-License-Identifier: Apache-2.0
// Converts TensorProto to Tensor. The elements are in raw_data, in a typed list, or in another file; their number must
// be the product of the dimensions.
#include <cstring>
#include <limits>

#include "core/support/checked_size.h"
#include "frontends/onnx/tensor_fields.h"

namespace unroll::onnx {
namespace {

constexpr ElementType k_element_types[] = {
    {k_float, "float", 4, DType::f32},        {k_uint8, "uint8", 1, DType::i32},
    {k_int8, "int8", 1, DType::i32},          {k_uint16, "uint16", 2, DType::i32},
    {k_int16, "int16", 2, DType::i32},        {k_int32, "int32", 4, DType::i32},
    {k_int64, "int64", 8, DType::i32},        {k_bool, "bool", 1, DType::b8},
    {k_float16, "float16", 2, DType::f32},    {k_double, "double", 8, DType::f64},
    {k_uint32, "uint32", 4, DType::i32},      {k_uint64, "uint64", 8, DType::i32},
    {k_bfloat16, "bfloat16", 2, DType::f32},
};

struct Proto {
  std::vector<std::int64_t> dims;
  std::int64_t type = 0;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;
  std::optional<protozero::data_view> raw;
  std::map<std::string, std::string> external;
  bool is_external = false, has_segment = false, has_strings = false;
};

void count_elements(Reading& reading, std::size_t n) {
  reading.listed_elements += static_cast<std::int64_t>(n);
  if (reading.listed_elements > k_max_listed_elements) reading.refuse("too many elements outside raw_data");
}

void append_varints(Reading& reading, protozero::pbf_reader& message, std::vector<std::int64_t>& to) {
  if (message.wire_type() == k_varint) return to.push_back(message.get_int64()), count_elements(reading, 1);
  const auto packed = message.get_packed_int64();
  count_elements(reading, packed.size());
  to.insert(to.end(), packed.begin(), packed.end());
}

Proto read_proto(Reading& reading, protozero::pbf_reader& message, std::string& name) {
  Proto t;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_varint):
      case field(1, k_bytes): append_varints(reading, message, t.dims); break;
      case field(2, k_varint): t.type = message.get_int64(); break;
      case field(3, k_bytes): t.has_segment = true, message.skip(); break;
      case field(4, k_fixed32): t.floats.push_back(message.get_float()), count_elements(reading, 1); break;
      case field(4, k_bytes): {
        const auto packed = message.get_packed_float();
        count_elements(reading, packed.size());
        t.floats.insert(t.floats.end(), packed.begin(), packed.end());
        break;
      }
      case field(10, k_fixed64): t.doubles.push_back(message.get_double()), count_elements(reading, 1); break;
      case field(10, k_bytes): {
        const auto packed = message.get_packed_double();
        count_elements(reading, packed.size());
        t.doubles.insert(t.doubles.end(), packed.begin(), packed.end());
        break;
      }
      case field(5, k_varint):
      case field(5, k_bytes):
      case field(7, k_varint):
      case field(7, k_bytes):
      case field(11, k_varint):
      case field(11, k_bytes): append_varints(reading, message, t.integers); break;
      case field(6, k_bytes): t.has_strings = true, message.skip(); break;
      case field(8, k_bytes): name = message.get_string(); break;
      case field(9, k_bytes): t.raw = message.get_view(); break;
      case field(13, k_bytes): reading.count(), t.external.insert(read_entry(message.get_message())); break;
      case field(14, k_varint): t.is_external = message.get_int64() == 1; break;
      default: message.skip();
    }
  }
  return t;
}

std::uint64_t number_of(const Reading& reading, const std::string& who, const std::string& key,
                        const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    reading.refuse(who + ": external data has " + key + " \"" + text + "\", which is not a number");
  return std::stoull(text);
}

Bytes external_bytes(Reading& reading, const std::string& who, const Proto& t, std::size_t bytes) {
  const auto at = [&](const char* key) {
    const auto found = t.external.find(key);
    return found == t.external.end() ? std::string() : found->second;
  };
  if (at("location").empty()) reading.refuse(who + ": external data without a location");
  const std::uint64_t offset = at("offset").empty() ? 0 : number_of(reading, who, "offset", at("offset"));
  if (!at("length").empty() && number_of(reading, who, "length", at("length")) != bytes)
    reading.refuse(who + ": external data has length " + at("length") + ", the dimensions need " +
                   std::to_string(bytes) + " bytes");
  reading.external_bytes += bytes;
  if (reading.external_bytes > k_max_external_bytes) reading.refuse("more than 16 GiB of external data");
  return reading.external(at("location"), offset, static_cast<std::int64_t>(bytes));
}

std::int32_t narrow(const Reading& reading, const std::string& who, std::int64_t value) {
  if (const auto narrow = narrowed(value)) return *narrow;
  reading.refuse(who + ": " + std::to_string(value) + " does not fit 32 bits", "Integers are computed in 32 bits");
}

template <class T>
std::int64_t integer_at(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>)
    if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max() - 1))
      return std::numeric_limits<std::int64_t>::max() - 1;  // refused by narrowed()
  return static_cast<std::int64_t>(value);
}
std::int64_t integer_of(int code, const std::byte* from, std::size_t index) {
  switch (code) {
    case 2: return integer_at<std::uint8_t>(from, index);
    case 3: return integer_at<std::int8_t>(from, index);
    case 4: return integer_at<std::uint16_t>(from, index);
    case 5: return integer_at<std::int16_t>(from, index);
    case k_int32: return integer_at<std::int32_t>(from, index);
    case 12: return integer_at<std::uint32_t>(from, index);
    case 13: return integer_at<std::uint64_t>(from, index);
    default: return integer_at<std::int64_t>(from, index);
  }
}

Tensor from_raw(const Reading& reading, const std::string& who, const ElementType& type, Shape shape,
                const std::byte* raw) {
  const bool is_half = type.code == k_float16 || type.code == k_bfloat16;
  const DType stored = type.code == k_float16 ? DType::f16 : is_half ? DType::bf16 : type.dtype;
  Tensor tensor(stored, shape);
  const std::size_t n = tensor.elements();
  if (type.dtype == DType::i32) {
    const std::span<std::int32_t> to = tensor.values<std::int32_t>();
    for (std::size_t i = 0; i < n; ++i) to[i] = narrow(reading, who, integer_of(type.code, raw, i));
  } else if (n > 0) {
    std::memcpy(tensor.bytes().data(), raw, n * type.bytes);
  }
  if (type.dtype == DType::b8)
    for (std::uint8_t& value : tensor.values<std::uint8_t>()) value = value != 0;
  return is_half ? tensor.cast(DType::f32) : std::move(tensor);
}

// The lists hold 64 bits per element; uint64 values from 2^63 on appear negative.
void require_in_range(const Reading& reading, const std::string& who, const ElementType& type, std::int64_t value) {
  const bool is_signed = type.code == 3 || type.code == 5 || type.code == k_int32 || type.code == k_int64;
  const auto bits = static_cast<int>(type.bytes) * 8 - (is_signed ? 1 : 0);
  const bool fits = bits >= 63 || (value >> bits) == 0 || (is_signed && (value >> bits) == -1);
  if (!fits || (!is_signed && value < 0))
    reading.refuse(who + ": " + std::to_string(value) + " is not a value of " + std::string(type.name));
}

// Converts elements of the typed lists to bytes of the type.
Tensor from_lists(const Reading& reading, const std::string& who, const ElementType& type, Shape shape,
                  const Proto& t) {
  const std::size_t listed = type.code == k_float    ? t.floats.size()
                             : type.code == k_double ? t.doubles.size()
                                                     : t.integers.size();
  if (static_cast<std::int64_t>(listed) != shape.elements())
    reading.refuse(who + ": has " + std::to_string(listed) + " elements, its dimensions " + shape.text() + " need " +
                   std::to_string(shape.elements()));
  if (type.code == k_float) return Tensor::from(shape, t.floats);
  if (type.code == k_double) return Tensor::from(shape, t.doubles);
  Tensor tensor(type.dtype == DType::f32 ? (type.code == k_float16 ? DType::f16 : DType::bf16) : type.dtype, shape);
  for (std::size_t i = 0; i < listed; ++i) {
    require_in_range(reading, who, type, t.integers[i]);
    if (type.dtype == DType::i32) {
      tensor.values<std::int32_t>()[i] = narrow(reading, who, t.integers[i]);
    } else if (type.dtype == DType::b8) {
      tensor.values<std::uint8_t>()[i] = t.integers[i] != 0;
    } else {  // the bits of a 16-bit float
      const auto bits = static_cast<std::uint16_t>(t.integers[i]);
      std::memcpy(tensor.bytes().data() + i * sizeof bits, &bits, sizeof bits);
    }
  }
  return type.dtype == DType::f32 ? tensor.cast(DType::f32) : std::move(tensor);
}

Tensor read_elements(Reading& reading, const std::string& who, const ElementType& type, const Proto& t,
                     std::size_t n_bytes) {
  const Shape shape(t.dims);
  if (t.is_external) return from_raw(reading, who, type, shape, external_bytes(reading, who, t, n_bytes).data());
  if (!t.raw) return from_lists(reading, who, type, shape, t);
  if (t.raw->size() != n_bytes)
    reading.refuse(who + ": raw_data has " + std::to_string(t.raw->size()) + " bytes, its dimensions need " +
                   std::to_string(n_bytes));
  return from_raw(reading, who, type, shape, reinterpret_cast<const std::byte*>(t.raw->data()));
}

}  // namespace

const ElementType* find_element_type(std::int64_t code) {
  for (const ElementType& type : k_element_types)
    if (type.code == code) return &type;
  return nullptr;
}

std::optional<std::int32_t> narrowed(std::int64_t value) {
  using Narrow = std::numeric_limits<std::int32_t>;
  if (value >= Narrow::min() && value <= Narrow::max()) return static_cast<std::int32_t>(value);
  if (value == std::numeric_limits<std::int64_t>::max()) return Narrow::max();
  if (value <= -std::numeric_limits<std::int64_t>::max()) return Narrow::min();
  return std::nullopt;
}

std::string element_type_text(std::int64_t code) {
  if (const ElementType* type = find_element_type(code)) return std::string(type->name);
  return code == 8 ? "string" : "type " + std::to_string(code);
}

std::pair<std::string, std::string> read_entry(protozero::pbf_reader message) {
  std::pair<std::string, std::string> entry;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): entry.first = message.get_string(); break;
      case field(2, k_bytes): entry.second = message.get_string(); break;
      default: message.skip();
    }
  }
  return entry;
}

std::shared_ptr<const Tensor> read_tensor(Reading& reading, protozero::pbf_reader message, std::string& name) {
  reading.count();
  const Proto t = read_proto(reading, message, name);
  const std::string who = "tensor '" + name + "'";
  const ElementType* type = find_element_type(t.type);
  reading.note_type(t.type);
  if (!type || t.has_strings)
    throw Error(ErrorKind::unsupported, reading.file, who + " has elements of " + element_type_text(t.type),
                "Supported: float, double, float16, bfloat16, bool and integers");
  if (t.has_segment) reading.refuse(who + " is stored in segments, which is not supported");
  if (t.dims.size() > Shape::k_max_rank) reading.refuse(who + " has more than 6 dimensions");
  CheckedSize bytes = type->bytes;
  for (const std::int64_t d : t.dims) {
    if (d < 0 || d > Shape::k_max_dimension) reading.refuse(who + " has dimension " + std::to_string(d));
    bytes *= static_cast<std::uint64_t>(d);
  }
  const std::size_t n_bytes = bytes.require(ErrorKind::input_file, reading.file, who + " is too large");
  auto tensor = std::make_shared<const Tensor>(read_elements(reading, who, *type, t, n_bytes));
  if (is_narrow_type(t.type)) reading.narrow_types.emplace(tensor.get(), static_cast<int>(t.type));
  return tensor;
}

}  // namespace unroll::onnx
