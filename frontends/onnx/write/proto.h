// SPDX-License-Identifier: Apache-2.0
// Serializes messages of onnx.proto.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "unroll/support/tensor.h"
#include "unroll/tasks/inference.h"

namespace unroll::onnx {

struct GraphBytes {
  std::string bytes;               // a serialized GraphProto
  std::vector<std::string> reads;  // names that its nodes read, including names of outer graphs
};
using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                                    std::vector<std::string>, GraphBytes>;
using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

std::int64_t element_code(DType dtype);  // TensorProto.DataType
std::string node_bytes(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const AttributeList& attributes);
std::string tensor_bytes(const std::string& name, const Tensor& tensor);
// The same with the elements at `offset` of the file `location`.
std::string external_tensor_bytes(const std::string& name, const Tensor& tensor, const std::string& location,
                                  std::size_t offset);
std::string tensor_bytes(const std::string& name, const std::vector<std::int64_t>& values);  // int64 [n]
// With axes dim_value or dim_param; without axes only the type.
std::string value_bytes(const std::string& name, DType dtype, const std::vector<Axis>* axes);

// The parts of a GraphProto, each a list of serialized messages.
struct GraphParts {
  std::string name;
  std::vector<std::string> nodes, initializers, inputs, outputs;
};
std::string graph_bytes(const GraphParts& parts);

struct ModelParts {
  std::int64_t ir_version, opset;
  std::string producer_version;
  std::map<std::string, std::string> properties;
};
std::string model_bytes(const std::string& graph, const ModelParts& parts);

}  // namespace unroll::onnx
