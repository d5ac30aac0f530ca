// SPDX-License-Identifier: Apache-2.0
// Errors about shapes name the layer and the parameter; weights from any file are checked in one way.
#include <doctest/doctest.h>

#include "tests/support/memory_vfs.h"
#include "tests/support/refusal.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/network.h"
#include "unroll/model/stream.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

}  // namespace

TEST_CASE("a layer that cannot take its input names its scope") {
  Graph graph;
  Scope scope(graph);
  const Value vector = graph.input("v", {DType::f32, {4}}), x = graph.input("x", {DType::f32, {5, 2, 4}});
  const Value lengths = graph.input("lengths", {DType::i32, {3}});
  const Scope encoder = scope.child("encoder");
  CHECK(refusal([&] { recurrent_model(encoder.child("l0"), vector, {.cell = "gru"}); })
            .starts_with("[encoder.l0] recurrent_model: x must be [T,B,I]; got [4]"));
  CHECK(refusal([&] { recurrent_model(encoder, vector, {.cell = "mgu"}); })
            .starts_with("[encoder] cell_layer: x must be [T,B,I]; got [4]"));
  CHECK(refusal([&] { recurrent_model(encoder.child("lstm"), x, {.cell = "lstm"}, {}, lengths); })
            .starts_with("[encoder.lstm] lstm: "));
  CHECK(refusal([&] { linear_layer(scope.child("head"), sum(x), 3); }).starts_with("[head] linear_layer: x must be"));
  CHECK(refusal([&] { embedding_layer(scope.child("words"), x, 10, 4); }).starts_with("[words] "));
}

TEST_CASE("a step function that does not fit names the layer and direction") {
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {5, 2, 4}});
  const CellFactory wrong = [](std::int64_t hidden) {
    return Cell{{hidden}, [](Step& s) { return CellStep{{s.x() + s.state(0)}, {}}; }};
  };
  CHECK(refusal([&] { cell_layer(scope.child("encoder"), wrong, x, {.hidden = 3}); })
            .starts_with("[encoder.l0] add: "));
}

TEST_CASE("a parameter that is requested with two shapes is named with its layer") {
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {2, 4}}), wide = graph.input("wide", {DType::f32, {2, 6}});
  linear_layer(scope.child("head"), x, 3);
  CHECK(refusal([&] { linear_layer(scope.child("head"), wide, 3); }) ==
        "[head] weight: was created as [3,4] and is requested as [3,6]");
}

TEST_CASE("weights that do not fit are named with their layers, all at once") {
  const auto backend = make_backend("reference");
  const StreamModel model = recurrent_stream({.cell = "lstm", .hidden = 4}, 3);
  TensorMap weights{{"weight_ih_l0", Tensor(DType::f32, {16, 2})},
                    {"weight_hh_l0", Tensor(DType::f32, {16, 4})},
                    {"bias_ih_l0", Tensor(DType::f32, {16})},
                    {"head.bias", Tensor(DType::f32, {7})}};
  CHECK(refusal([&] { Stream(*backend, model, weights); }) ==
        "[Stream] weight_ih_l0: expected f32[16,3], got f32[16,2]; missing: bias_hh_l0 f32[16]; not in the model: "
        "head.bias f32[7]. The weights belong to a model with other sizes");

  const Network network = [](Scope& scope, const Inputs& in) {
    TaskGraph t;
    const CellLayerResult r = recurrent_model(scope.child("encoder"), in["x"], {.cell = "gru", .hidden = 2});
    t.outputs = {{"y", r.y}};
    t.loss = mean(r.y);
    return t;
  };
  Batch example;
  example.inputs = {{"x", Tensor(DType::f32, {3, 1, 2})}};
  Trainer trainer(make_task(example, network), *backend, {});
  TensorMap parameters = trainer.parameters();
  parameters.at("encoder.weight_hh_l0") = Tensor(DType::f32, {6, 5});
  const std::string wanted = "encoder.weight_hh_l0: expected f32[6,2], got f32[6,5]";
  CHECK(refusal([&] { trainer.set_parameters(parameters); }).find(wanted) != std::string::npos);
  CHECK(refusal([&] { Model(*backend, network, parameters).run(example.inputs); }).find(wanted) != std::string::npos);
}

TEST_CASE("a parameter cannot take a name that checkpoints reserve") {
  const auto backend = make_backend("reference");
  const Network network = [](Scope& scope, const Inputs& in) {
    TaskGraph t;
    t.loss = mean(linear_layer(scope.child("state"), in["x"], 1));
    return t;
  };
  Batch example;
  example.inputs = {{"x", Tensor(DType::f32, {1, 2})}};
  CHECK(refusal([&] { Trainer(make_task(example, network), *backend, {}); })
            .find("parameter 'state.weight' has a name that checkpoints reserve") != std::string::npos);
}

TEST_CASE("last.safetensors is a model wherever one is read") {
  const auto backend = make_backend("reference");
  MemoryVfs vfs;
  TrainerOptions o = small_training(4);
  o.folder = "run";
  o.vfs = &vfs;
  Trainer trainer(small_language_model(), *backend, o);
  trainer.fit();
  const TensorFile last = load_model("run/last.safetensors", vfs);
  CHECK(load_safetensors("run/last.safetensors", vfs).tensors.size() > last.tensors.size());  // optimizer state
  Stream stream(*backend, task_stream(last.metadata), last.tensors);
  std::vector<float> y(static_cast<std::size_t>(stream.outputs()));
  CHECK(stream.step(std::vector<std::int32_t>{1}, y));
  Trainer(small_language_model(), *backend, small_training(4)).set_parameters(last.tensors);
}

TEST_CASE("a PyTorch module may be called state or optimizer") {
  MemoryVfs vfs;
  save_safetensors("m", {{{"state.weight", Tensor(DType::f32, {2})}}, {}}, vfs);
  CHECK(load_model("m", vfs).tensors.contains("state.weight"));
}
