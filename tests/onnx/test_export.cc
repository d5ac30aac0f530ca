// SPDX-License-Identifier: Apache-2.0
// Models that the writer made, read by the importer: the same outputs at sizes that the writer never saw.
#include <doctest/doctest.h>

#include "frontends/onnx/import.h"
#include "tests/onnx/random_models.h"
#include "unroll/error.h"
#include "unroll/run.h"

namespace unroll::onnx {
namespace {

// Two orders of the same f32 sums, fed back over T <= 23 steps and 3 layers: measured 2e-7, at most.
constexpr double k_tolerance = 2e-6;

Bytes no_files(const std::string& location, std::uint64_t, std::int64_t) {
  throw Error(ErrorKind::input_file, location, "no external data here");
}

TEST_CASE("an exported model computes the same at other sizes") {
  const auto backend = make_backend("reference");
  double largest = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomModel model = random_model(seed);
    CAPTURE(model.text);
    const ExportedModel exported = export_model(model.inference, model.parameters, model.with_states);
    const Model read = parse_model(std::as_bytes(std::span(exported.bytes)), "exported", no_files);
    for (const auto& [steps, batch] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 2}, {23, 9}}) {
      const TensorMap inputs = random_inputs(model, steps, batch, seed);
      const TensorMap wanted = expected_outputs(model, inputs);
      const TensorMap outputs = evaluate(*import_graph(read, inputs).graph, *backend, inputs);
      REQUIRE(outputs.size() == (model.with_states ? wanted.size() : 1));
      for (const auto& [name, tensor] : outputs) {
        const Tensor& want = wanted.at(name);
        REQUIRE(tensor.type() == want.type());
        const double difference = relative_l2(tensor, want);
        CHECK(difference <= k_tolerance);
        largest = std::max(largest, difference);
      }
    }
  }
  MESSAGE("largest relative difference: " << largest);
}

}  // namespace
}  // namespace unroll::onnx
