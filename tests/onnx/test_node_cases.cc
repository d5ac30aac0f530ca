// SPDX-License-Identifier: Apache-2.0
// The ONNX project's own node tests. Each case passes, fails, or is unsupported for a reason that is printed; the
// numbers are compared with those below, so that no case is lost silently.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "frontends/onnx/import.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

struct Case {
  std::string name;
  TensorMap inputs, outputs;
  std::vector<std::byte> model;
};

std::vector<Case> load_cases(const TensorFile& file) {
  std::map<std::string, Case> cases;
  for (const auto& [key, tensor] : file.tensors) {
    const std::size_t slash = key.find('/');
    Case& c = cases[key.substr(0, slash)];
    c.name = key.substr(0, slash);
    const std::string rest = key.substr(slash + 1);
    if (rest == "model") {
      for (const std::int32_t byte : tensor.values<std::int32_t>()) c.model.push_back(static_cast<std::byte>(byte));
    } else {
      (rest.starts_with("input/") ? c.inputs : c.outputs).emplace(rest.substr(rest.find('/') + 1), tensor);
    }
  }
  std::vector<Case> list;
  for (auto& [name, c] : cases) list.push_back(std::move(c));
  return list;
}

// The tolerances of the ONNX project's own runner.
constexpr double k_relative = 1e-3, k_absolute = 1e-7;

// Empty when equal, else the first difference. Sums round in proportion to their largest terms; integers are exact.
std::string difference(const Tensor& got, const Tensor& want) {
  if (got.shape() != want.shape()) return "shape " + got.shape().text() + " instead of " + want.shape().text();
  double largest = 1;
  for (std::int64_t i = 0; i < want.elements(); ++i)
    if (std::isfinite(want.at(i))) largest = std::max(largest, std::abs(want.at(i)));
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double a = got.at(i), b = want.at(i);
    const double tolerance = want.dtype() == DType::i32 ? 0 : k_absolute * largest + k_relative * std::abs(b);
    const bool is_near = std::abs(a - b) <= tolerance;
    const bool same = (std::isnan(a) && std::isnan(b)) || a == b || is_near;
    if (!same) return "element " + std::to_string(i) + " is " + std::to_string(a) + " instead of " + std::to_string(b);
  }
  return "";
}

// ONNX Runtime differs from these as the library does. The first two cut bits off instead of rounding to nearest. The
// products wrap instead of saturating. The last one uses a fraction as the length of an axis.
constexpr std::string_view k_other_results[] = {
    "test_cast_FLOAT_to_BFLOAT16", "test_castlike_FLOAT_to_BFLOAT16_expanded",
    "test_qlinearmatmul_2D_int8_float16", "test_qlinearmatmul_2D_int8_float32",
    "test_qlinearmatmul_3D_int8_float16", "test_qlinearmatmul_3D_int8_float32",
    "test_resize_downsample_scales_linear_align_corners"};

enum class Verdict { passed, failed, unsupported, differs };
struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string reason;
};

Outcome run_case(const Case& c, Backend& backend) {
  const auto no_files = [](const std::string& location, std::uint64_t, std::int64_t) -> Bytes {
    throw Error(ErrorKind::input_file, location, "no external data here");
  };
  try {
    const onnx::Model model = onnx::parse_model(c.model, c.name, no_files);
    const onnx::ImportedGraph imported = onnx::import_graph(model, c.inputs);
    const TensorMap outputs = evaluate(*imported.graph, backend, c.inputs);
    for (const auto& [name, want] : c.outputs)
      if (std::string text = difference(outputs.at(name), want); !text.empty()) {
        const bool is_known = std::ranges::count(k_other_results, c.name) > 0;
        return {is_known ? Verdict::differs : Verdict::failed, name + ": " + text};
      }
  } catch (const Error& e) {
    return {e.kind() == ErrorKind::unsupported ? Verdict::unsupported : Verdict::failed, e.what()};
  } catch (const std::exception& e) {
    return {Verdict::failed, e.what()};
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return std::fprintf(stderr, "usage: %s FILE BACKEND [passed unsupported]\n", argv[0]), 2;
  const TensorFile file = load_safetensors(argv[1]);
  const auto backend = make_backend(argv[2]);
  int counts[4] = {0, 0, 0, 0};
  for (const Case& c : load_cases(file)) {
    const Outcome outcome = run_case(c, *backend);
    const char* word[] = {"passed", "FAILED", "unsupported", "differs"};
    const auto index = static_cast<std::size_t>(outcome.verdict);
    ++counts[index];
    const char* colon = outcome.reason.empty() ? "" : ": ";
    std::printf("%-11s %s%s%s\n", word[index], c.name.c_str(), colon, outcome.reason.c_str());
  }
  const nlohmann::json left_out = nlohmann::json::parse(file.metadata.at("left_out"));
  for (const auto& [name, reason] : left_out.items())
    std::printf("left out    %s: %s\n", name.c_str(), reason.get<std::string>().c_str());
  std::printf("onnx %s on %s: passed=%d failed=%d unsupported=%d differs=%d left_out=%zu\n",
              file.metadata.at("onnx").c_str(), argv[2], counts[0], counts[1], counts[2], counts[3], left_out.size());
  const bool as_expected = argc < 5 || (counts[0] == std::atoi(argv[3]) && counts[2] == std::atoi(argv[4]));
  if (!as_expected) std::printf("expected: passed=%s unsupported=%s\n", argv[3], argv[4]);
  return counts[1] == 0 && as_expected ? 0 : 1;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
