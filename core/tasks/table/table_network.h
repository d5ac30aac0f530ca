// SPDX-License-Identifier: Apache-2.0
// The network of the tasks on table rows: one answer per sequence. Trained models also run it.
#pragma once

#include <functional>
#include <string>

#include "core/tasks/common/task_rows.h"
#include "core/tasks/table/features.h"

namespace unroll {

struct TableNetwork {
  Features features;
  RecurrentModelOptions model;
  std::string pooling;  // of the outputs over time

  // Reads the task's metadata.
  static TableNetwork of(const Metadata& metadata);
  // x f32 [T,B,I] as sequences of `features` -> [B,n].
  Value answers(Scope& scope, Value x, std::int64_t n) const;
  // x as in the data, without missing values -> the output `name` [B,n]: `finish` applied to the answers.
  Inference inference(const std::string& name, std::int64_t n, const std::function<Value(Value)>& finish) const;
  // Returns the answers after each step. Throws Error(unsupported) if they need the whole sequence.
  StreamModel stream(std::int64_t n) const;
};

}  // namespace unroll
