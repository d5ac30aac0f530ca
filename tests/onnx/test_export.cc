// SPDX-License-Identifier: Apache-2.0
// Models that the writer made, read by the importer: the same outputs at sizes that the writer never saw.
#include <doctest/doctest.h>

#include "frontends/onnx/import.h"
#include "tests/onnx/random_models.h"
#include "tests/onnx/small_models.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

// Two orders of the same f32 sums, fed back over T <= 23 steps and 3 layers: measured 2e-7, at most.
constexpr double k_tolerance = 2e-6;

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

// x [T,B,3] -> y, without parameters.
Inference plain(const std::function<Value(Value x)>& f) {
  const std::vector<Axis> axes{{"T", 0}, {"B", 0}, {"", 3}};
  return {.inputs = {{"x", DType::f32, axes}}, .outputs = {{"y", DType::f32, axes}}, .states = {},
          .network = [f](Scope&, const Inputs& in) {
            TaskGraph graph;
            graph.outputs.emplace_back("y", f(in["x"]));
            return graph;
          }};
}
std::string refusal(const Inference& inference, const TensorMap& parameters = {}, bool with_states = false) {
  try {
    static_cast<void>(export_model(inference, parameters, with_states));
    return "";
  } catch (const Error& e) {
    return std::string(error_kind_name(e.kind())) + ": " + e.what();
  }
}

TEST_CASE("what has no ONNX form is refused with the op and the input before it") {
  const std::string text = refusal(plain([](Value x) {
    return scatter_add(iota(x.graph(), {x.shape()[0]}, 0), x, x.shape()[0]);
  }));
  CHECK(text.starts_with("unsupported: "));
  CHECK(text.find("scatter_add") != std::string::npos);
  CHECK(text.find("'x'") != std::string::npos);
}

TEST_CASE("a network that is another one for other sizes is refused") {
  const std::string by_structure = refusal(plain([](Value x) { return x.shape()[0] % 2 == 0 ? exp(x) : x; }));
  CHECK(by_structure.find("structure of the network depends") != std::string::npos);
  const std::string by_constant = refusal(plain([](Value x) {
    return x * (1.0 / static_cast<double>(x.shape()[0]));
  }));
  CHECK(by_constant.find("constant depends on the sizes") != std::string::npos);
  const std::string by_dimension = refusal(plain([](Value x) {
    const std::int64_t steps = x.shape()[0];
    return slice(pad(x, 0, 0, steps * steps), 0, 0, steps);
  }));
  CHECK(by_dimension.find("no sum of products of the free sizes") != std::string::npos);
}

TEST_CASE("parameters must be those of the network") {
  RandomModel model = random_model(3);
  auto parameter = model.parameters.extract(model.parameters.begin());
  CHECK(refusal(model.inference, model.parameters).find("'" + parameter.key() + "'") != std::string::npos);
  model.parameters.emplace(parameter.key(), Tensor(DType::f32, {1}));
  CHECK(refusal(model.inference, model.parameters).find("got f32[1]") != std::string::npos);
  model.parameters.at(parameter.key()) = parameter.mapped();
  model.parameters.emplace("other", Tensor(DType::f32, {1}));
  CHECK(refusal(model.inference, model.parameters).find("'other'") != std::string::npos);
  CHECK(refusal(plain([](Value x) { return x; }), {}, /*with_states=*/true).find("no states") != std::string::npos);
}

}  // namespace
}  // namespace unroll::onnx
