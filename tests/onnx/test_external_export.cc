// SPDX-License-Identifier: Apache-2.0
// Models whose weights are in a second file: the same model, and never one file without the other.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "frontends/onnx/export.h"
#include "frontends/onnx/model.h"
#include "tests/support/failing_vfs.h"
#include "tests/support/temp_folder.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

namespace fs = std::filesystem;

// A GRU whose weights have 1.7 KiB and 2.3 KiB, and its biases 288 bytes.
ExportedModel exported(std::uint64_t seed, const std::string& external_data) {
  const Inference inference = stack_inference({.cell = "gru", .hidden = 12}, 12, false);
  const std::vector<ParameterSpec> specs{{"weight_ih_l0", {DType::f32, {36, 12}}, Initializer::normal(1)},
                                         {"weight_hh_l0", {DType::f32, {36, 12}}, Initializer::normal(1)},
                                         {"bias_ih_l0", {DType::f32, {36}}, Initializer::normal(1)},
                                         {"bias_hh_l0", {DType::f32, {36}}, Initializer::normal(1)}};
  return export_model(inference, initialize(specs, seed), false, {}, external_data);
}

std::vector<std::string> files_in(const TempFolder& folder) {
  std::vector<std::string> names = disk().list(folder.path());
  std::ranges::sort(names);
  return names;
}

bool same_weights(const Model& a, const Model& b) {
  return std::ranges::equal(a.graph.initializers, b.graph.initializers, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second->type() == y.second->type() &&
           std::ranges::equal(x.second->bytes(), y.second->bytes());
  });
}

Model inside(std::uint64_t seed) {
  const ExportedModel model = exported(seed, "");
  return parse_model(std::as_bytes(std::span(model.bytes)), "inside", external_data_in("/nowhere"));
}

TEST_CASE("a model with its weights in a second file is the model with its weights inside") {
  const TempFolder folder;
  const ExportedModel model = exported(1, "gru.onnx");
  CHECK(exported(1, "").location.empty());
  CHECK(exported(1, "").external.empty());
  CHECK(model.bytes.size() < 2000);
  CHECK(model.external.size() == 2);  // W and R; biases and integers stay inside
  for (const ExternalTensor& each : model.external) CHECK(each.offset % 4096 == 0);
  write_model_files(disk(), folder / "gru.onnx", model);
  CHECK(files_in(folder) == std::vector<std::string>{"gru.onnx", model.location});
  CHECK(same_weights(load_model_file(folder / "gru.onnx"), inside(1)));
}

TEST_CASE("equal weights have files of one name, others another one") {
  CHECK(exported(1, "gru.onnx").location == exported(1, "gru.onnx").location);
  CHECK(exported(1, "gru.onnx").location != exported(2, "gru.onnx").location);
}

TEST_CASE("a new model replaces both files, also where it has its weights inside") {
  const TempFolder folder;
  write_model_files(disk(), folder / "gru.onnx", exported(1, "gru.onnx"));
  write_model_files(disk(), folder / "other.onnx", exported(1, "other.onnx"));
  const ExportedModel second = exported(2, "gru.onnx");
  write_model_files(disk(), folder / "gru.onnx", second);
  CHECK(files_in(folder).size() == 4);
  CHECK(same_weights(load_model_file(folder / "gru.onnx"), inside(2)));
  CHECK(same_weights(load_model_file(folder / "other.onnx"), inside(1)));
  write_model_files(disk(), folder / "gru.onnx", exported(3, ""));
  CHECK(files_in(folder).size() == 3);
  CHECK(same_weights(load_model_file(folder / "gru.onnx"), inside(3)));
}

// Also where a process ends: what the failing one left is a whole model, and the next write clears the rest away.
TEST_CASE("whatever fails while a model is replaced, the old or the new one is whole") {
  int failures = 0;
  for (const Fault fault : k_faults) {
    bool fired = true;
    for (int k = 0; fired; ++k) {
      const TempFolder folder;
      write_model_files(disk(), folder / "gru.onnx", exported(1, "gru.onnx"));
      FailingVfs failing(disk(), k, fault);
      try {
        write_model_files(failing, folder / "gru.onnx", exported(2, "gru.onnx"));
      } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::storage);
        ++failures;
      }
      fired = failing.fired();
      CAPTURE(failing.failed());
      const Model left = load_model_file(folder / "gru.onnx");
      CHECK((same_weights(left, inside(1)) || same_weights(left, inside(2))));
      write_model_files(disk(), folder / "gru.onnx", exported(3, "gru.onnx"));
      CHECK(same_weights(load_model_file(folder / "gru.onnx"), inside(3)));
      CHECK(files_in(folder).size() == 2);
    }
  }
  CHECK(failures > 40);
}

}  // namespace
}  // namespace unroll::onnx
