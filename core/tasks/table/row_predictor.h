// SPDX-License-Identifier: Apache-2.0
// Predictions of a trained model for table rows.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/model/constants.h"
#include "core/tasks/common/prediction_batches.h"
#include "core/tasks/table/table_network.h"

namespace unroll {

class RowPredictor {
 public:
  // `who` appears in messages. The network has n answers per row; `finish` converts them to the outputs [B,n].
  RowPredictor(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend, std::string_view who,
               std::int64_t n, Value (*finish)(Value answers));

  const Features& features() const { return network_.features; }
  // Predicts rows of T * I values as in the data, NaN where missing, and calls `take` with the outputs of each row.
  // Throws Error(usage) on a wrong number of values and on infinite ones.
  void predict(std::span<const std::vector<double>> rows,
               const std::function<void(std::size_t row, std::span<const float> outputs)>& take);

 private:
  std::shared_ptr<Program> program(std::int64_t rows);
  void check(const std::vector<double>& row, std::size_t index) const;

  BackendHandle backend_;
  std::string_view who_;
  TableNetwork network_;
  std::int64_t n_;
  Value (*finish_)(Value answers);
  Constants constants_;
  ProgramCache<std::int64_t> programs_;  // by B
};

}  // namespace unroll
