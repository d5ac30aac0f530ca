// SPDX-License-Identifier: Apache-2.0
// usage: write_random_models COUNT FOLDER [FIRST_SEED]. Writes FOLDER/SEED.onnx and, for each of four pairs of steps
// and batch, FOLDER/SEED-K.safetensors with the inputs ("in.NAME"), the outputs ("out.NAME") and those of f64
// arithmetic ("exact.NAME").
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/onnx/random_models.h"
#include "unroll/io/safetensors.h"

int main(int argc, char** argv) try {
  using namespace unroll;
  if (argc < 3) return std::fprintf(stderr, "usage: %s COUNT FOLDER [FIRST_SEED]\n", argv[0]), 2;
  const std::string folder = argv[2];
  const std::uint64_t first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1000;
  for (std::uint64_t seed = first; seed < first + std::strtoull(argv[1], nullptr, 10); ++seed) {
    const onnx::RandomModel model = onnx::random_model(seed);
    const std::string stem = folder + "/" + std::to_string(seed);
    const onnx::ExportedModel exported = onnx::export_model(model.inference, model.parameters, model.with_states);
    std::ofstream(stem + ".onnx", std::ios::binary) << exported.bytes;
    int k = 0;
    for (const std::int64_t batch : {1, 7})
      for (const std::int64_t steps : {2, 19}) {
        const TensorMap inputs = onnx::random_inputs(model, steps, batch, seed);
        const TensorMap outputs = onnx::expected_outputs(model, inputs);
        const TensorMap exact = onnx::exact_outputs(model, inputs);
        TensorFile file{.tensors = {}, .metadata = {{"model", model.text}}};
        for (const auto& [name, tensor] : inputs) file.tensors.emplace("in." + name, tensor);
        for (const auto& [name, tensor] : outputs) file.tensors.emplace("out." + name, tensor);
        for (const auto& [name, tensor] : exact) file.tensors.emplace("exact." + name, tensor);
        save_safetensors(stem + "-" + std::to_string(k++) + ".safetensors", file);
      }
  }
  return 0;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
