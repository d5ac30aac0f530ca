// SPDX-License-Identifier: Apache-2.0
// The messages of onnx.proto, read with protozero. Unknown fields are skipped, as protobuf requires; fields that change
// the meaning of a model, such as sparse tensors, are refused.
#include <protozero/exception.hpp>

#include "frontends/onnx/tensor_fields.h"

namespace unroll::onnx {
namespace {

using protozero::pbf_reader;

GraphDef read_graph(Reading& reading, pbf_reader message, int depth);

template <class T, class Get>
void append_numbers(Reading& reading, std::vector<T>& to, const Get& packed) {
  reading.count(static_cast<std::int64_t>(packed.size()));
  to.insert(to.end(), packed.begin(), packed.end());
}

AttributeDef read_attribute(Reading& reading, pbf_reader message, int depth) {
  reading.count();
  AttributeDef a;
  std::string tensor_name;
  bool is_refused = false;
  std::int64_t type = 0;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): a.name = message.get_string(); break;
      case field(2, k_fixed32): a.f = message.get_float(); break;
      case field(3, k_varint): a.i = message.get_int64(); break;
      case field(4, k_bytes): a.s = message.get_string(); break;
      case field(5, k_bytes): a.t = read_tensor(reading, message.get_message(), tensor_name); break;
      case field(6, k_bytes):
        a.g = std::make_shared<const GraphDef>(read_graph(reading, message.get_message(), depth + 1));
        break;
      case field(7, k_fixed32): reading.count(), a.floats.push_back(message.get_float()); break;
      case field(7, k_bytes): append_numbers(reading, a.floats, message.get_packed_float()); break;
      case field(8, k_varint): reading.count(), a.ints.push_back(message.get_int64()); break;
      case field(8, k_bytes): append_numbers(reading, a.ints, message.get_packed_int64()); break;
      case field(9, k_bytes): reading.count(), a.strings.push_back(message.get_string()); break;
      case field(20, k_varint): type = message.get_int64(); break;
      case field(21, k_bytes): a.ref = message.get_string(); break;
      case field(10, k_bytes):
      case field(11, k_bytes):
      case field(14, k_bytes):
      case field(15, k_bytes):
      case field(22, k_bytes):
      case field(23, k_bytes): is_refused = true, message.skip(); break;
      default: message.skip();
    }
  }
  if (is_refused) {
    throw Error(ErrorKind::unsupported, reading.file,
                "attribute '" + a.name + "' holds types, sparse tensors, or lists of tensors or graphs");
  }
  if (type >= 0 && type <= static_cast<int>(AttributeType::texts)) a.type = static_cast<AttributeType>(type);
  return a;
}

NodeDef read_node(Reading& reading, pbf_reader message, int depth) {
  reading.count();
  NodeDef node;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): reading.count(), node.inputs.push_back(message.get_string()); break;
      case field(2, k_bytes): reading.count(), node.outputs.push_back(message.get_string()); break;
      case field(3, k_bytes): node.name = message.get_string(); break;
      case field(4, k_bytes): node.op = message.get_string(); break;
      case field(5, k_bytes): node.attributes.push_back(read_attribute(reading, message.get_message(), depth)); break;
      case field(7, k_bytes): node.domain = message.get_string(); break;
      default: message.skip();
    }
  }
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

Dimension read_dimension(pbf_reader message) {
  Dimension d;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_varint): d.size = message.get_int64(); break;
      case field(2, k_bytes): d.symbol = message.get_string(); break;
      default: message.skip();
    }
  }
  return d;
}

void read_tensor_type(Reading& reading, pbf_reader message, ValueDef& value) {
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_varint): reading.note_type(value.element_type = message.get_int64()); break;
      case field(2, k_bytes): {
        value.shape.emplace();
        pbf_reader shape = message.get_message();
        while (shape.next(1, k_bytes)) reading.count(), value.shape->push_back(read_dimension(shape.get_message()));
        break;
      }
      default: message.skip();
    }
  }
}

ValueDef read_value(Reading& reading, pbf_reader message) {
  reading.count();
  ValueDef value;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): value.name = message.get_string(); break;
      case field(2, k_bytes): {
        pbf_reader type = message.get_message();
        while (type.next()) {
          if (type.tag_and_type() == field(1, k_bytes)) {
            read_tensor_type(reading, type.get_message(), value);
          } else {
            value.is_tensor = value.is_tensor && type.tag() == 6;  // 6: denotation
            type.skip();
          }
        }
        break;
      }
      default: message.skip();
    }
  }
  return value;
}

GraphDef read_graph(Reading& reading, pbf_reader message, int depth) {
  reading.count();
  if (depth > k_max_depth) reading.refuse("graphs are nested more than " + std::to_string(k_max_depth) + " deep");
  GraphDef graph;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): graph.nodes.push_back(read_node(reading, message.get_message(), depth)); break;
      case field(2, k_bytes): graph.name = message.get_string(); break;
      case field(5, k_bytes): {
        std::string name;
        auto tensor = read_tensor(reading, message.get_message(), name);
        if (!graph.initializers.emplace(name, std::move(tensor)).second)
          reading.refuse("two initializers have the name '" + name + "'");
        break;
      }
      case field(11, k_bytes): graph.inputs.push_back(read_value(reading, message.get_message())); break;
      case field(12, k_bytes): graph.outputs.push_back(read_value(reading, message.get_message())); break;
      case field(15, k_bytes):
        throw Error(ErrorKind::unsupported, reading.file, "graph '" + graph.name + "' has sparse initializers");
      default: message.skip();
    }
  }
  return graph;
}

// Returns the version if the operator set is the standard one.
std::optional<std::int64_t> standard_version(pbf_reader message) {
  std::string domain;
  std::int64_t version = 0;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): domain = message.get_string(); break;
      case field(2, k_varint): version = message.get_int64(); break;
      default: message.skip();
    }
  }
  if (domain.empty() || domain == "ai.onnx") return version;
  return std::nullopt;
}

FunctionDef read_function(Reading& reading, pbf_reader message) {
  reading.count();
  FunctionDef f;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_bytes): f.name = message.get_string(); break;
      case field(4, k_bytes): reading.count(), f.inputs.push_back(message.get_string()); break;
      case field(5, k_bytes): reading.count(), f.outputs.push_back(message.get_string()); break;
      case field(6, k_bytes): reading.count(), f.attributes.push_back(message.get_string()); break;
      case field(7, k_bytes): f.nodes.push_back(read_node(reading, message.get_message(), 0)); break;
      case field(10, k_bytes): f.domain = message.get_string(); break;
      case field(11, k_bytes): f.defaults.push_back(read_attribute(reading, message.get_message(), 0)); break;
      default: message.skip();
    }
  }
  return f;
}

void read_model(Reading& reading, pbf_reader message, Model& model) {
  bool has_graph = false;
  while (message.next()) {
    switch (message.tag_and_type()) {
      case field(1, k_varint): model.ir_version = message.get_int64(); break;
      case field(2, k_bytes): model.producer = message.get_string(); break;
      case field(7, k_bytes):
        if (has_graph) reading.refuse("the file has two graphs");
        has_graph = true;
        model.graph = read_graph(reading, message.get_message(), 0);
        break;
      case field(8, k_bytes):
        if (const auto version = standard_version(message.get_message())) model.opset = *version;
        break;
      case field(14, k_bytes): reading.count(), model.metadata.insert(read_entry(message.get_message())); break;
      case field(25, k_bytes): model.functions.push_back(read_function(reading, message.get_message())); break;
      default: message.skip();
    }
  }
  model.has_halves = reading.has_halves;
  model.narrow_types = std::move(reading.narrow_types);
  if (!has_graph) reading.refuse("is not an ONNX model: it has no graph");
  if (model.opset < k_min_opset || model.opset > k_max_opset) {
    throw Error(ErrorKind::unsupported, reading.file, "uses opset " + std::to_string(model.opset),
                "Supported: opset " + std::to_string(k_min_opset) + " to " + std::to_string(k_max_opset));
  }
}

}  // namespace

Model parse_model(std::span<const std::byte> file, const std::string& name, const ExternalData& external) {
  Model model;
  model.file = name;
  Reading reading{.file = name, .external = external};
  if (file.size() >= k_max_file_bytes) reading.refuse("is larger than 2 GiB");
  try {
    read_model(reading, pbf_reader(reinterpret_cast<const char*>(file.data()), file.size()), model);
  } catch (const protozero::exception& e) {
    reading.refuse(std::string("is not an ONNX model: ") + e.what());
  }
  return model;
}

Model load_model_file(const std::string& path, Vfs& vfs) {
  const Bytes file = vfs.read(path, k_max_file_bytes);
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return parse_model({file.data(), file.size()}, path, external_data_in(folder));
}

}  // namespace unroll::onnx
