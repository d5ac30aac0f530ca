// SPDX-License-Identifier: Apache-2.0
// Any bytes are an ONNX model or are refused with Error; a model builds a graph for small inputs or is refused, has a
// stream or is refused, and has layers in a row or is refused. No file is opened, and nothing runs but the computation
// of shapes and parameters.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "frontends/onnx/import.h"
#include "frontends/onnx/layers/import_layers.h"
#include "frontends/onnx/stream.h"
#include "tests/fuzz/target.h"
#include "tests/onnx/small_models.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace {

using namespace unroll;

// Symbolic dimensions become 2. False when an input has no type that fits.
bool small_type(const onnx::ValueDef& input, Type& type) {
  const onnx::ElementType* element = onnx::find_element_type(input.element_type);
  std::vector<std::int64_t> dims;
  for (const onnx::Dimension& d : input.shape.value_or(std::vector<onnx::Dimension>{}))
    dims.push_back(d.size < 0 ? 2 : d.size);
  std::int64_t elements = 1;
  for (const std::int64_t d : dims)
    if (d > 64 || __builtin_mul_overflow(elements, d, &elements)) return false;
  if (dims.size() > 6 || elements > 4096) return false;
  type = {element ? element->dtype : DType::f32, Shape(dims)};
  return true;
}

}  // namespace

FUZZ_TARGET(onnx) {
  try {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const onnx::Model model = onnx::parse_model(bytes, "fuzz", onnx::no_files);
    std::map<std::string, Type> types;
    TensorMap known;
    for (const onnx::ValueDef& input : onnx::required_inputs(model)) {
      Type type;
      if (!small_type(input, type)) return 0;
      types.emplace(input.name, type);
      known.emplace(input.name, Tensor(type));
    }
    verify(*onnx::import_graph(model, types, known).graph);
    const auto stream = attempt([&] { return onnx::stream_of(std::make_shared<onnx::Model>(model), {}); });
    if (stream.ok()) verify(*block_stream(stream->whole, {.look_ahead = 1000}).graph);
    else if (stream.error().kind() == ErrorKind::internal) std::abort();
    onnx::import_layers(model, types);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) std::abort();
  }
  return 0;
}
