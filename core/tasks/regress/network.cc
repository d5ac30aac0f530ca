// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/table_network.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// Converts standardized targets y [...,K] to the units of the data.
Value in_units(const Metadata& metadata, std::size_t n, Value y) {
  const auto row = [&](const std::string& key) {
    Tensor numbers(DType::f32, {static_cast<std::int64_t>(n)});
    const std::vector<double> values = get_numbers(metadata, key, n);
    for (std::size_t k = 0; k < n; ++k) numbers.set(static_cast<std::int64_t>(k), values[k]);
    return constant(y.graph(), std::move(numbers));
  };
  return y * row("target_deviation") + row("target_mean");
}

Inference regress_inference(const Metadata& metadata) {
  const std::size_t n = get_targets(metadata).size();
  return TableNetwork::of(metadata).inference("values", static_cast<std::int64_t>(n),
                                              [metadata, n](Value y) { return in_units(metadata, n, y); });
}

StreamModel regress_stream(const Metadata& metadata) {
  const std::size_t n = get_targets(metadata).size();
  StreamModel stream = TableNetwork::of(metadata).stream(static_cast<std::int64_t>(n));
  stream.build = [metadata, n, standardized = stream.build](Scope& scope, Value x, std::span<const Value> states) {
    CellLayerResult result = standardized(scope, x, states);
    result.y = in_units(metadata, n, result.y);
    return result;
  };
  return stream;
}

}  // namespace

const NetworkRow regress_network_row{regress_inference, regress_stream};

}  // namespace unroll
