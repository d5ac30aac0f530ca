// SPDX-License-Identifier: Apache-2.0
// The contents of an ONNX file, and its reader. Field names follow onnx.proto; tensors are converted: f16 and bf16
// become f32, all integers become i32.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/tensor.h"
#include "unroll/support/vfs.h"

namespace unroll::onnx {

// One row per supported TensorProto.DataType.
struct ElementType {
  int code;               // TensorProto.DataType
  std::string_view name;  // as in onnx.proto, lower case
  std::size_t bytes;      // of an element in raw_data
  DType dtype;            // of the converted tensor
};
const ElementType* find_element_type(std::int64_t code);  // null if unknown
constexpr bool is_narrow_type(std::int64_t code) { return code >= 2 && code <= 5; }  // integers of 8 and 16 bits
std::string element_type_text(std::int64_t code);         // "int64", or "type 8"
// Returns an integer in 32 bits; nullopt if it does not fit. The largest int64 means "to the end" in slices, and the
// smallest "from the start"; they become the limits of 32 bits, which no dimension reaches.
std::optional<std::int32_t> narrowed(std::int64_t value);
inline constexpr int k_uint8 = 2, k_int8 = 3, k_uint16 = 4, k_int16 = 5;
inline constexpr int k_float = 1, k_int32 = 6, k_int64 = 7, k_bool = 9, k_float16 = 10, k_double = 11;
inline constexpr int k_uint32 = 12, k_uint64 = 13, k_bfloat16 = 16;

struct GraphDef;

// AttributeProto.AttributeType
enum class AttributeType { none, number, integer, text, tensor, graph, numbers, integers, texts };

struct AttributeDef {
  std::string name;
  AttributeType type = AttributeType::none;  // none: absent
  std::string ref;  // in a function: the attribute of the call that supplies the value
  std::optional<float> f;
  std::optional<std::int64_t> i;
  std::optional<std::string> s;
  std::shared_ptr<const Tensor> t;
  std::shared_ptr<const GraphDef> g;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
};

struct NodeDef {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  // an empty name means omitted
  std::vector<AttributeDef> attributes;
};

struct Dimension {
  std::int64_t size = -1;  // -1: symbolic or unknown
  std::string symbol;
};
struct ValueDef {
  std::string name;
  std::int64_t element_type = 0;  // 0: absent
  bool is_tensor = true;
  std::optional<std::vector<Dimension>> shape;
};

struct GraphDef {
  std::string name;
  std::vector<NodeDef> nodes;
  std::map<std::string, std::shared_ptr<const Tensor>> initializers;
  std::vector<ValueDef> inputs, outputs;
};

struct FunctionDef {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;    // required ones
  std::vector<AttributeDef> defaults;     // optional ones
  std::vector<NodeDef> nodes;
};

struct Model {
  std::string file;  // for messages
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  // of the standard domain
  std::string producer;
  std::map<const Tensor*, int> narrow_types = {};  // of tensors with integers of 8 and 16 bits, which became i32
  bool has_halves = false;  // some tensor or input is float16 or bfloat16, which the converted tensor no longer shows
  GraphDef graph;
  std::vector<FunctionDef> functions;
  std::map<std::string, std::string> metadata;
};

// Returns bytes [offset, offset + size) of an external data file; size -1: to its end. Throws Error(input_file).
using ExternalData = std::function<Bytes(const std::string& location, std::uint64_t offset, std::int64_t size)>;
// Reads files of one folder only: no absolute path, no "..", no symbolic or hard links.
ExternalData external_data_in(const std::string& folder);

// Throws Error(input_file) for a malformed file, and Error(unsupported) for unsupported data types, sparse tensors and
// opsets. Both name the tensor or node.
Model parse_model(std::span<const std::byte> file, const std::string& name, const ExternalData& external);
Model load_model_file(const std::string& path, Vfs& vfs = disk());

}  // namespace unroll::onnx
