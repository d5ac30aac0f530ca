// SPDX-License-Identifier: Apache-2.0
// The records of a split as the data file has them, for examples of what a model does.
#pragma once

#include <functional>
#include <string_view>

#include "unroll/trainer.h"

namespace unroll {

// Implemented by the tasks whose data are rows of text, sentences or rows of a table.
class SplitRecords {
 public:
  virtual ~SplitRecords() = default;
  virtual void for_each_record(Split split, const std::function<void(std::string_view record)>& take) const = 0;
};

}  // namespace unroll
