// SPDX-License-Identifier: Apache-2.0
// Numbers of ONNX files: what does not fit its type, or ours, is refused by name and never changed.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "frontends/onnx/import.h"
#include "tests/onnx/small_models.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

using protozero::pbf_writer;

template <class Write>
std::string message(const Write& write) {
  std::string data;
  pbf_writer writer(data);
  write(writer);
  return data;
}

// A model whose graph has `node`, a node with the output y, and `tensor`, an initializer; either may be empty.
std::string model_of(const std::string& node, const std::string& tensor, const std::string& output) {
  return message([&](pbf_writer& model) {
    model.add_int64(1, 8);
    model.add_message(8, message([](pbf_writer& set) { set.add_int64(2, 17); }));
    model.add_message(7, message([&](pbf_writer& graph) {
      if (!node.empty()) graph.add_message(1, node);
      if (!tensor.empty()) graph.add_message(5, tensor);
      graph.add_message(12, message([&](pbf_writer& value) { value.add_string(1, output); }));
    }));
  });
}

ImportedGraph import(const std::string& file) {
  return import_graph(parse_model(std::as_bytes(std::span(file)), "test.onnx", no_files), TensorMap{});
}

// The value of the only output, a constant, or the text of the error.
std::string result_of(const std::string& file) {
  try {
    const ImportedGraph imported = import(file);
    const Node& node = imported.graph->node(imported.graph->outputs()[0].value.node);
    const auto tensor = node.attributes.get<std::shared_ptr<const Tensor>>("value");
    std::string text = std::string(dtype_name(tensor->dtype()));
    for (const std::int32_t each : tensor->values<std::int32_t>()) text += " " + std::to_string(each);
    return text;
  } catch (const Error& e) {
    return std::string(error_kind_name(e.kind())) + ": " + e.what();
  }
}

struct Attribute {
  const char* name;
  int type;  // AttributeProto.AttributeType
  std::vector<std::int64_t> ints;
};
std::string constant_node(const Attribute& a) {
  return message([&](pbf_writer& node) {
    node.add_string(2, "y");
    node.add_string(3, "the_node");
    node.add_string(4, "Constant");
    node.add_message(5, message([&](pbf_writer& attribute) {
      attribute.add_string(1, a.name);
      if (a.type == 2) attribute.add_int64(3, a.ints[0]);
      if (a.type == 7) attribute.add_packed_int64(8, a.ints.begin(), a.ints.end());
      attribute.add_int32(20, a.type);
    }));
  });
}

constexpr std::int64_t k_largest = std::numeric_limits<std::int64_t>::max();

TEST_CASE("an integer of Constant that does not fit 32 bits is refused, and the node is named") {
  const auto of = [](const Attribute& a) { return result_of(model_of(constant_node(a), "", "y")); };
  CHECK(of({"value_int", 2, {-7}}) == "i32 -7");
  CHECK(of({"value_ints", 7, {1, 2147483647, -2147483648}}) == "i32 1 2147483647 -2147483648");
  CHECK(of({"value_ints", 7, {0, k_largest}}) == "i32 0 2147483647");  // "to the end" of a slice
  for (const Attribute& a : {Attribute{"value_int", 2, {2147483648}}, Attribute{"value_ints", 7, {5, -2147483649}}}) {
    const std::string text = of(a);
    CAPTURE(text);
    CHECK(text.find("the_node") != std::string::npos);
    CHECK(text.find("does not fit 32 bits") != std::string::npos);
  }
}

TEST_CASE("an attribute of another type than the operator defines is refused") {
  // axis as a list: were it taken for a missing integer, Flatten would use 0.
  const std::string node = message([](pbf_writer& flatten) {
    flatten.add_string(1, "x");
    flatten.add_string(2, "y");
    flatten.add_string(4, "Flatten");
    flatten.add_message(5, message([](pbf_writer& attribute) {
      attribute.add_string(1, "axis");
      const std::vector<std::int64_t> axis{1};
      attribute.add_packed_int64(8, axis.begin(), axis.end());
      attribute.add_int32(20, 7);
    }));
  });
  const std::string tensor = message([](pbf_writer& t) {
    const std::vector<std::int64_t> dims{2, 2}, values{1, 2, 3, 4};
    t.add_packed_int64(1, dims.begin(), dims.end());
    t.add_int32(2, k_int64);
    t.add_packed_int64(7, values.begin(), values.end());
    t.add_string(8, "x");
  });
  CHECK(result_of(model_of(node, tensor, "y")).find("attribute 'axis' has another type") != std::string::npos);
}

struct Listed {
  const char* name;
  int type;   // TensorProto.DataType
  int field;  // the list that the type uses
  std::int64_t value;
  const char* result;
};
const Listed k_listed[] = {
    {"int32 smallest", k_int32, 5, -2147483648, "i32 -2147483648"},
    {"int64 in 32 bits", k_int64, 7, 2147483647, "i32 2147483647"},
    {"int64 too large", k_int64, 7, 2147483648, "2147483648 does not fit 32 bits"},
    {"int64 too small", k_int64, 7, -2147483649, "-2147483649 does not fit 32 bits"},
    {"uint8 largest", 2, 5, 255, "i32 255"},
    {"uint8 too large", 2, 5, 256, "256 is not a value of uint8"},
    {"uint8 negative", 2, 5, -1, "-1 is not a value of uint8"},
    {"int8 smallest", 3, 5, -128, "i32 -128"},
    {"int8 too small", 3, 5, -129, "-129 is not a value of int8"},
    {"int32 too large", k_int32, 5, 2147483648, "2147483648 is not a value of int32"},
    {"uint32 too large for 32 bits with a sign", 12, 11, 4294967295, "4294967295 does not fit 32 bits"},
    {"uint64 from 2^63 on", 13, 11, -1, "is not a value of uint64"},
    {"float16 of more than 16 bits", k_float16, 5, 65536, "65536 is not a value of float16"},
};

TEST_CASE("a listed element outside of its type, or of 32 bits, is refused, and the tensor is named") {
  for (const Listed& each : k_listed) {
    CAPTURE(each.name);
    const std::string tensor = message([&](pbf_writer& t) {
      t.add_int32(2, each.type);
      t.add_packed_int64(static_cast<protozero::pbf_tag_type>(each.field), &each.value, &each.value + 1);
      t.add_string(8, "weight");
    });
    const std::string text = result_of(model_of("", tensor, "weight"));
    CAPTURE(text);
    CHECK(text.find(each.result) != std::string::npos);
    const bool is_refused = std::string_view(each.result).substr(0, 3) != "i32";
    CHECK((text.find("'weight'") != std::string::npos) == is_refused);
  }
}

TEST_CASE("a raw element that does not fit 32 bits is refused") {
  struct Raw {
    std::uint64_t value;
    const char* result;
  };
  for (const Raw& each : {Raw{7, "i32 7"}, Raw{std::uint64_t{1} << 31, "does not fit 32 bits"}}) {
    const std::string tensor = message([&](pbf_writer& t) {
      t.add_int32(2, k_int64);
      t.add_bytes(9, reinterpret_cast<const char*>(&each.value), sizeof each.value);
      t.add_string(8, "weight");
    });
    CHECK(result_of(model_of("", tensor, "weight")).find(each.result) != std::string::npos);
  }
}

}  // namespace
}  // namespace unroll::onnx
