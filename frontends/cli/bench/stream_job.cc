// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/bench/stream_job.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int k_inputs = 64;  // calls until an input repeats

// Inputs of k_inputs calls, of the kind that the model reads.
struct Inputs {
  std::size_t size;
  std::vector<float> numbers;
  std::vector<std::int32_t> ids;

  Inputs(const Stream& stream, const StreamModel& model, std::uint64_t seed)
      : size(stream.chunk() * stream.lanes() * stream.inputs()) {
    const std::int64_t n = k_inputs * static_cast<std::int64_t>(size);
    const std::vector<ParameterSpec> x{{"x", {DType::f32, {n}}, Initializer::uniform(1)}};
    const TensorMap drawn = initialize(x, seed);
    const auto values = drawn.at("x").values<float>();
    numbers.assign(values.begin(), values.end());
    if (model.input != DType::i32) return;
    ids.assign(numbers.size(), 0);  // id 0 always exists
  }
  bool step(Stream& stream, std::size_t call, std::span<float> y) const {
    const std::size_t at = call % k_inputs * size;
    if (!ids.empty()) return stream.step(std::span(ids).subspan(at, size), y);
    return stream.step(std::span(numbers).subspan(at, size), y);
  }
};

std::vector<double> microseconds(Stream& stream, const Inputs& inputs, std::span<float> y, double seconds) {
  constexpr std::size_t k_warm = 100, k_fewest = 1000, k_most = 10'000'000;
  for (std::size_t i = 0; i < k_warm; ++i) static_cast<void>(inputs.step(stream, i, y));
  std::vector<double> times;
  times.reserve(k_most / 10);
  const auto start = Clock::now();
  const auto limit = start + std::chrono::duration<double>(seconds);
  for (auto before = start; times.size() < k_most && (times.size() < k_fewest || before < limit);) {
    if (!inputs.step(stream, times.size(), y)) throw Error(ErrorKind::device, "stream", "a step failed on the device");
    const auto now = Clock::now();
    times.push_back(std::chrono::duration<double, std::micro>(now - before).count());
    before = now;
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

StreamOptions stream_options(const StepArguments& o, std::optional<std::int64_t> threads) {
  return {.lanes = o.lanes,
          .chunk = o.chunk,
          .weights = weight_format_from_name(o.weights_dtype),
          .one_thread = threads.value_or(1) == 1};
}

void Difference::add(std::span<const float> y, std::span<const float> wanted) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double w = wanted[i], d = y[i] - w;
    largest_ = std::max(largest_, std::fabs(d));
    squares_ += d * d;
    wanted_squares_ += w * w;
  }
}
double Difference::relative() const { return squares_ == 0 ? 0 : std::sqrt(squares_ / wanted_squares_); }

double relative_l2(const Tensor& found, const Tensor& wanted) {
  if (found.shape() != wanted.shape()) return HUGE_VAL;
  double difference = 0, norm = 0;
  for (std::int64_t k = 0; k < wanted.elements(); ++k) {
    difference += (found.at(k) - wanted.at(k)) * (found.at(k) - wanted.at(k));
    norm += wanted.at(k) * wanted.at(k);
  }
  return std::isfinite(difference) ? std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30) : HUGE_VAL;
}

double rounding_tolerance(double amplified) { return 1e-5 + 2 * amplified; }

Report time_stream(Backend& backend, const StreamModel& model, const TensorMap& parameters,
                   const StepArguments& options, const ConfigArguments& machine) {
  constexpr std::size_t k_compared = 200;
  StreamOptions how = stream_options(options, machine.threads);
  Stream stream(backend, model, parameters, how);
  const Inputs inputs(stream, model, static_cast<std::uint64_t>(machine.seed.value_or(0)));
  std::vector<float> y(stream.chunk() / stream.block() * stream.rows() * stream.lanes() * stream.outputs());
  Report report;
  report.add("lanes", stream.lanes()).add("chunk", stream.chunk());
  report.add("inputs", stream.inputs()).add("outputs", stream.outputs());
  report.add("weights_dtype", options.weights_dtype);
  report.add("backend", backend.describe().name).add("device", backend.describe().device);
  report.add("threads", how.one_thread ? 1 : backend.describe().threads);
  if (how.weights != WeightFormat::f32) {
    how.weights = WeightFormat::f32;
    Stream exact(backend, model, parameters, how);
    std::vector<float> wanted(y.size());
    Difference difference;
    for (std::size_t i = 0; i < k_compared; ++i)
      if (inputs.step(stream, i, y) && inputs.step(exact, i, wanted)) difference.add(y, wanted);
    report.add("max_abs_difference", difference.largest()).add("relative_l2_difference", difference.relative());
    stream.reset();
  }
  const std::vector<double> times = microseconds(stream, inputs, y, options.seconds);
  double n_weights = 0;
  for (const auto& [name, tensor] : parameters) n_weights += static_cast<double>(tensor.elements());
  report.add("calls", times.size());
  report.add("min_us", times.front()).add("median_us", times[times.size() / 2]);
  report.add("p99_us", times[times.size() * 99 / 100]);
  report.add("weights", n_weights);
  report.add("gweights_per_s", n_weights / times.front() * 1e-3);
  return report;
}

}  // namespace unroll::cli
