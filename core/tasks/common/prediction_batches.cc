// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/prediction_batches.h"

#include <cmath>
#include <numeric>

#include "core/support/text/exact_text.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/common/task_parts.h"

namespace unroll {

void require_task(const Metadata& metadata, std::string_view task, std::string_view who) {
  const std::string& found = get_text(metadata, "task");
  if (found != task)
    throw Error(ErrorKind::usage, who,
                "the model was trained for the task " + in_quotes(found) + "; expected '" + std::string(task) +
                    "'");
}

void refuse_input(std::string_view who, std::size_t index, const std::string& what) {
  throw Error(ErrorKind::usage, who, "input " + std::to_string(index) + ": " + what);
}

void require_finite(std::string_view who, std::size_t index, std::span<const float> outputs) {
  const auto bad = std::ranges::find_if_not(outputs, [](float value) { return std::isfinite(value); });
  if (bad == outputs.end()) return;
  throw Error(ErrorKind::numeric, who,
              "input " + std::to_string(index) + ": the model's output is not finite: element " +
                  std::to_string(bad - outputs.begin()) + " is " + exact_text(*bad),
              "The parameters or the input may be too large: `unroll inspect` shows tensors that are not finite");
}

std::vector<ScoredLabel> ranked(std::span<const float> probabilities, const std::vector<std::string>& labels,
                                std::int64_t top_k) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t count = top_k > 0 ? std::min<std::size_t>(top_k, order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
                    });
  std::vector<ScoredLabel> list;
  for (std::size_t i = 0; i < count; ++i)
    list.push_back({labels[order[i]], static_cast<double>(probabilities[order[i]])});
  return list;
}

}  // namespace unroll
