// SPDX-License-Identifier: Apache-2.0
// Shared by `stream` and `bench --mode stream`: a stream in the requested format, its accuracy loss, and the call time.
#pragma once

#include "frontends/cli/options/command_options.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/model/stream.h"

namespace unroll::cli {

// --lanes, --chunk, --weights-dtype; more than one thread only with --threads.
StreamOptions stream_options(const StepArguments& options, std::optional<std::int64_t> threads);

// Differences between the outputs of two streams, accumulated over calls.
class Difference {
 public:
  void add(std::span<const float> y, std::span<const float> wanted);
  double largest() const { return largest_; }
  double relative() const;  // sqrt(sum (y - wanted)^2 / sum wanted^2)

 private:
  double largest_ = 0, squares_ = 0, wanted_squares_ = 0;
};

// ||found - wanted|| / ||wanted||, infinity if shapes differ.
double relative_l2(const Tensor& found, const Tensor& wanted);
// Returns the tolerance of relative_l2 for f32: 84 roundings of 6e-8, as sums in another order cause, and twice the
// difference between two backends, because a model may amplify rounding.
double rounding_tolerance(double amplified);

// Runs calls with x uniform in [-1, 1) for options.seconds. Reports times in microseconds and, with weights in fewer
// bits, the difference from f32 over 200 calls.
Report time_stream(Backend& backend, const StreamModel& model, const TensorMap& parameters,
                   const StepArguments& options, const ConfigArguments& machine);

}  // namespace unroll::cli
