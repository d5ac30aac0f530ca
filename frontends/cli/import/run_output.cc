// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/run_output.h"

#include <fmt/format.h>

#include <cmath>

#include "frontends/cli/terminal/activity.h"

namespace unroll::cli {
namespace {

std::int64_t count_not_finite(const Tensor& tensor) {
  std::int64_t n = 0;
  if (tensor.all_finite()) return 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) n += !std::isfinite(tensor.at(i));
  return n;
}

}  // namespace

void print_run(const TensorFiles& options, const TensorMap& tensors, Report report,
               const ExplainingBackend* explaining) {
  Report types, not_finite;
  for (const auto& [name, tensor] : tensors) {
    types.add(name, tensor.type().text());
    const std::int64_t n = count_not_finite(tensor);
    if (n == 0) continue;
    not_finite.add(name, n);
    print_line(fmt::format("unroll: {} of {} elements of {} are not finite", n, tensor.elements(), name));
  }
  if (options.json) {
    report.add("tensors", types);
    if (!not_finite.items().empty()) report.add("not_finite", not_finite);
    return print_explained(std::move(report), explaining, true);
  }
  print_progress(fmt::format("unroll: wrote {} tensors to {}", tensors.size(), options.output));
  if (explaining) print_explained({}, explaining, false);
}

}  // namespace unroll::cli
