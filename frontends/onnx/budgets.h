// SPDX-License-Identifier: Apache-2.0
// Limits for ONNX files, which are untrusted input. docs/onnx.md lists them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unroll::onnx {

// Limits of the file
inline constexpr std::size_t k_max_file_bytes = std::size_t{2} << 30;      // protobuf cannot describe more
inline constexpr std::size_t k_max_external_bytes = std::size_t{16} << 30;  // of all tensors in other files
inline constexpr std::int64_t k_max_objects = 10'000'000;  // nodes, attributes, tensors, dimensions, names
inline constexpr std::int64_t k_max_listed_elements = std::int64_t{1} << 27;  // elements outside raw_data
inline constexpr int k_max_depth = 32;  // subgraphs within subgraphs, calls of functions within functions

// Limits of the import
inline constexpr std::int64_t k_max_nodes = 1'000'000;  // of the graph, after unrolling loops
inline constexpr std::int64_t k_max_evaluated_elements = std::int64_t{1} << 26;  // of computed shapes and tables
inline constexpr std::int64_t k_max_unrolled_steps = 10'000;  // of a Loop that cannot become a scan
inline constexpr int k_min_opset = 7;
inline constexpr int k_max_opset = 22;

}  // namespace unroll::onnx
