// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/row_predictor.h"

#include <cmath>

#include "core/support/text/counted.h"
#include "unroll/ir/ops.h"

namespace unroll {

RowPredictor::RowPredictor(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend,
                           std::string_view who, std::int64_t n, Value (*finish)(Value answers))
    : backend_(backend), who_(who), network_(TableNetwork::of(metadata)), n_(n), finish_(finish),
      constants_(constants_of(parameters)) {
  program(1);  // checks early that metadata and parameters match
}

// x f32 [T,B,I] -> outputs [B,n]
std::shared_ptr<Program> RowPredictor::program(std::int64_t rows) {
  return programs_.get(rows, [&] {
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value x = graph.input("x", {DType::f32, {features().steps, rows, features().width()}});
    graph.output("outputs", finish_(network_.answers(scope, x, n_)));
    return std::make_shared<Program>(*with_constants(graph, 1, constants_, who_), backend_);
  });
}

void RowPredictor::check(const std::vector<double>& row, std::size_t index) const {
  const Features& f = features();
  if (std::ssize(row) != f.steps * f.width())
    refuse_input(who_, index, "expected " + counted(f.steps, "step") + " of " + counted(f.width(), "value") +
                                  "; got " + counted(row.size(), "value"));
  for (const double value : row) {
    if (std::isnan(value) && f.missing == "error")
      refuse_input(who_, index, "a value is missing; the model was trained with data.missing = \"error\"");
    if (std::isinf(value)) refuse_input(who_, index, "a value is not finite");
  }
}

void RowPredictor::predict(std::span<const std::vector<double>> rows,
                           const std::function<void(std::size_t row, std::span<const float> outputs)>& take) {
  const std::int64_t T = features().steps, I = features().width();
  std::vector<std::size_t> all(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check(rows[i], i);
    all[i] = i;
  }
  const std::size_t n = n_;
  for_each_batch(all, prediction_rows(T * I, std::int64_t{1} << 20),
                 [&](std::span<const std::size_t> part, std::int64_t B) {
                   Tensor x(DType::f32, {T, B, I});
                   for (std::size_t b = 0; b < part.size(); ++b) {
                     std::vector<double> row = rows[part[b]];
                     features().apply(row);
                     put_sequence(row, x.values<float>(), static_cast<std::int64_t>(b), B, I);
                   }
                   const TensorMap outputs = program(B)->run({{"x", std::move(x)}});
                   const auto values = outputs.at("outputs").values<float>();
                   for (std::size_t b = 0; b < part.size(); ++b) {
                     require_finite(who_, part[b], values.subspan(b * n, n));
                     take(part[b], values.subspan(b * n, n));
                   }
                 });
}

}  // namespace unroll
