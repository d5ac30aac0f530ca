// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/proto.h"

#include <protozero/pbf_writer.hpp>

#include "frontends/onnx/model.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

using protozero::pbf_writer;

constexpr std::int32_t k_external_location = 1;  // TensorProto.DataLocation

template <class Write>
std::string message(const Write& write) {
  std::string data;
  pbf_writer writer(data);
  write(writer);
  return data;
}

// AttributeProto: the field of a value, and its type.
struct AttributeWriter {
  pbf_writer& to;
  void operator()(std::int64_t i) const { to.add_int64(3, i), type(AttributeType::integer); }
  void operator()(double f) const { to.add_float(2, static_cast<float>(f)), type(AttributeType::number); }
  void operator()(const std::string& s) const { to.add_bytes(4, s), type(AttributeType::text); }
  void operator()(const std::vector<std::int64_t>& list) const {
    to.add_packed_int64(8, list.begin(), list.end()), type(AttributeType::integers);
  }
  void operator()(const std::vector<std::string>& list) const {
    for (const std::string& s : list) to.add_bytes(9, s);
    type(AttributeType::texts);
  }
  void operator()(const GraphBytes& g) const { to.add_message(6, g.bytes), type(AttributeType::graph); }
  void type(AttributeType t) const { to.add_int32(20, static_cast<std::int32_t>(t)); }
};

std::string entry_bytes(const std::string& key, const std::string& value) {
  return message([&](pbf_writer& entry) { entry.add_string(1, key), entry.add_string(2, value); });
}

void add_tensor_head(pbf_writer& t, const std::string& name, const Tensor& tensor) {
  const auto dims = tensor.shape().dims();
  t.add_packed_int64(1, dims.begin(), dims.end());
  t.add_int32(2, static_cast<std::int32_t>(element_code(tensor.dtype())));
  t.add_string(8, name);
}

}  // namespace

std::int64_t element_code(DType dtype) {
  switch (dtype) {
    case DType::f32: return k_float;
    case DType::f64: return k_double;
    case DType::i32: return k_int32;
    case DType::b8: return k_bool;
    case DType::bf16: return k_bfloat16;
    case DType::f16: return k_float16;
  }
  throw Error(ErrorKind::internal, "export", "unknown dtype");
}

std::string node_bytes(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const AttributeList& attributes) {
  return message([&](pbf_writer& node) {
    for (const std::string& input : inputs) node.add_string(1, input);
    for (const std::string& output : outputs) node.add_string(2, output);
    node.add_string(3, name);
    node.add_string(4, op);
    for (const auto& [key, value] : attributes) {
      node.add_message(5, message([&, &key_text = key, &alternatives = value](pbf_writer& attribute) {
        attribute.add_string(1, key_text);
        std::visit(AttributeWriter{attribute}, alternatives);
      }));
    }
  });
}

std::string tensor_bytes(const std::string& name, const Tensor& tensor) {
  return message([&](pbf_writer& t) {
    add_tensor_head(t, name, tensor);
    t.add_bytes(9, reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  });
}

std::string external_tensor_bytes(const std::string& name, const Tensor& tensor, const std::string& location,
                                  std::size_t offset) {
  return message([&](pbf_writer& t) {
    add_tensor_head(t, name, tensor);
    t.add_message(13, entry_bytes("location", location));
    t.add_message(13, entry_bytes("offset", std::to_string(offset)));
    t.add_message(13, entry_bytes("length", std::to_string(tensor.bytes().size())));
    t.add_int32(14, k_external_location);
  });
}

std::string tensor_bytes(const std::string& name, const std::vector<std::int64_t>& values) {
  return message([&](pbf_writer& t) {
    const std::int64_t n = static_cast<std::int64_t>(values.size());
    t.add_packed_int64(1, &n, &n + 1);
    t.add_int32(2, k_int64);
    t.add_string(8, name);
    t.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof n);
  });
}

std::string value_bytes(const std::string& name, DType dtype, const std::vector<Axis>* axes) {
  const std::string tensor_type = message([&](pbf_writer& type) {
    type.add_int32(1, static_cast<std::int32_t>(element_code(dtype)));
    if (!axes) return;
    type.add_message(2, message([&](pbf_writer& shape) {
      for (const Axis& axis : *axes) {
        shape.add_message(1, message([&](pbf_writer& dimension) {
          if (axis.letter.empty()) dimension.add_int64(1, axis.size);
          else dimension.add_string(2, axis.letter);
        }));
      }
    }));
  });
  return message([&](pbf_writer& value) {
    value.add_string(1, name);
    value.add_message(2, message([&](pbf_writer& type) { type.add_message(1, tensor_type); }));
  });
}

std::string graph_bytes(const GraphParts& parts) {
  return message([&](pbf_writer& graph) {
    for (const std::string& node : parts.nodes) graph.add_message(1, node);
    graph.add_string(2, parts.name);
    for (const std::string& tensor : parts.initializers) graph.add_message(5, tensor);
    for (const std::string& value : parts.inputs) graph.add_message(11, value);
    for (const std::string& value : parts.outputs) graph.add_message(12, value);
  });
}

std::string model_bytes(const std::string& graph, const ModelParts& parts) {
  return message([&](pbf_writer& model) {
    model.add_int64(1, parts.ir_version);
    model.add_string(2, "unroll");
    model.add_string(3, parts.producer_version);
    model.add_message(7, graph);
    model.add_message(8, message([&](pbf_writer& set) { set.add_string(1, ""), set.add_int64(2, parts.opset); }));
    for (const auto& [key, value] : parts.properties) model.add_message(14, entry_bytes(key, value));
  });
}

}  // namespace unroll::onnx
