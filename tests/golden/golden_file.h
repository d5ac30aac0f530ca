// SPDX-License-Identifier: Apache-2.0
// The files that make_goldens.py writes: tensors named <case>/<tensor>, settings of each case as JSON in the metadata.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/each_backend.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/backend.h"

namespace unroll {

struct GoldenCase {
  std::string name;
  nlohmann::json settings;
  TensorMap tensors;

  bool has(const std::string& tensor) const { return tensors.contains(tensor); }
};

inline std::vector<GoldenCase> load_goldens(const std::string& file_name) {
  const TensorFile file = load_safetensors(std::string(GOLDEN_FOLDER) + "/" + file_name);
  std::vector<GoldenCase> cases;
  const nlohmann::json all_settings = nlohmann::json::parse(file.metadata.at("cases"));
  for (const auto& [name, settings] : all_settings.items()) {
    GoldenCase c{name, settings, {}};
    const std::string prefix = name + "/";
    for (auto it = file.tensors.lower_bound(prefix); it != file.tensors.end() && it->first.starts_with(prefix); ++it)
      c.tensors.emplace(it->first.substr(prefix.size()), it->second);
    REQUIRE_FALSE(c.tensors.empty());
    cases.push_back(std::move(c));
  }
  REQUIRE_FALSE(cases.empty());
  return cases;
}

// |got - want| / |want|; |got| where want is all zeros.
inline double relative_l2(const Tensor& got, const Tensor& want) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    difference += (got.at(i) - want.at(i)) * (got.at(i) - want.at(i));
    norm += want.at(i) * want.at(i);
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

// Compares with the expected tensor of that name and remembers the largest error of all.
struct Comparison {
  const GoldenCase& golden;
  std::string backend;
  double& worst;

  void operator()(const std::string& name, const Tensor& got, double tolerance) const {
    INFO(backend << " " << golden.name << "/" << name);
    REQUIRE(golden.has(name));
    const Tensor& want = golden.tensors.at(name);
    REQUIRE(got.shape() == want.shape());
    const double error = relative_l2(got, want);
    CHECK(error <= tolerance);  // false for NaN
    worst = std::max(worst, error);
  }
};

// Relative L2 in f32 against exact values.
inline constexpr double k_forward_tolerance = 4e-6;
inline constexpr double k_gradient_tolerance = 1e-5;
inline constexpr double k_update_tolerance = 1e-5;  // parameters and losses after up to ten updates

// Every backend of this build that computes anything.
inline std::vector<std::string> golden_backends() {
  const std::vector<std::string> names = testing::computing_backends();
  REQUIRE(std::count(names.begin(), names.end(), "reference") == 1);
  return names;
}

}  // namespace unroll
