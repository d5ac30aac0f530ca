// SPDX-License-Identifier: Apache-2.0
// Small models of every kind, with each loss, on random data: what backends are compared on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unroll/train/trainer.h"

namespace unroll::testing {

struct ComparedModel {
  std::string name;
  std::shared_ptr<const Task> task;
};
// Twelve of them.
std::vector<ComparedModel> compare_models();

}  // namespace unroll::testing
