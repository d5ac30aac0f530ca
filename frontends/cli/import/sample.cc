// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/sample.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/cli/bench/stream_job.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/backend.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

// [A,B,...] -> [B,A,...]
Tensor swapped(const Tensor& from) {
  const Shape& s = from.shape();
  std::vector<std::int64_t> dims(s.begin(), s.end());
  std::swap(dims[0], dims[1]);
  Tensor to(from.dtype(), Shape(dims));
  const std::int64_t inner = s[0] * s[1] == 0 ? 0 : s.elements() / (s[0] * s[1]);
  for (std::int64_t a = 0; a < s[0]; ++a)
    for (std::int64_t b = 0; b < s[1]; ++b)
      for (std::int64_t k = 0; k < inner; ++k)
        to.set((b * s[0] + a) * inner + k, from.at((a * s[1] + b) * inner + k));
  return to;
}

Tensor take(const TensorMap& tensors, const std::string& name, const TensorSpec& spec, bool batch_first,
            const std::string& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw Error(ErrorKind::input_file, file, fmt::format("tensor {} is missing", name),
                "A sample has the tensors input and output");
  const Tensor& given = found->second;
  if (given.shape().rank() != static_cast<int>(spec.axes.size()))
    throw Error(ErrorKind::shape, file,
                fmt::format("tensor {} is {}; the model has {} {}", name, given.type().text(), spec.name, spec.text()),
                name == "input" ? "Give a batch of sequences"
                                : "If the model reads the last step only, put last into --layers");
  const Tensor typed = given.dtype() == spec.dtype || !is_float(given.dtype()) ? given : given.cast(spec.dtype);
  const bool has_steps = spec.axes.size() > 1 && spec.axes[0].letter == "T";
  return batch_first && has_steps ? swapped(typed) : typed;
}

// Outputs y of the `reference` backend, and the amplification of rounding: the relative L2 difference of `cpu`.
struct Expected {
  Tensor y;
  double amplified = 0;
};
Expected expected_output(const Inference& inference, const TensorMap& parameters, const TensorMap& inputs) {
  TensorMap all = zero_states(inference, inputs);
  all.insert(inputs.begin(), inputs.end());
  const auto run = [&](const char* name) {
    const auto backend = make_backend(name);
    return std::move(Model(*backend, inference.network, parameters).run(all).at("y"));
  };
  Expected expected{run("reference")};
  if (!expected.y.all_finite())
    throw Error(ErrorKind::numeric, "import", "the model's output is not finite, so nothing can be compared with it",
                "`unroll inspect` shows parameters that are not finite");
  expected.amplified = relative_l2(run("cpu"), expected.y);
  return expected;
}

}  // namespace

Report check_sample(const Inference& inference, const TensorMap& parameters, const std::string& file,
                    bool batch_first) {
  const TensorMap sample = load_safetensors(file).tensors;
  const TensorSpec &in = inference.inputs[0], &out = inference.outputs[0];
  TensorMap inputs;
  inputs.emplace(in.name, take(sample, "input", in, batch_first, file));
  const Tensor wanted = take(sample, "output", out, batch_first, file);
  const Expected ours = expected_output(inference, parameters, inputs);
  if (ours.y.shape() != wanted.shape())
    throw Error(ErrorKind::shape, file,
                fmt::format("tensor output is {}; the model gives {}", wanted.type().text(), ours.y.type().text()),
                batch_first ? "Check --layers" : "Check --layers; if the batch is the first axis, add --batch-first");
  const double difference = relative_l2(ours.y, wanted), tolerance = rounding_tolerance(ours.amplified);
  if (!(difference <= tolerance))
    throw Error(ErrorKind::differ, file,
                fmt::format("the output differs: relative L2 difference {:.2g}, tolerance {:.2g}", difference,
                            tolerance),
                "The state dict does not say everything: check --layers, --nonlinearity and --batch-first");
  Report report;
  report.add("relative_l2_difference", difference).add("tolerance", tolerance).add("agrees", true);
  return report;
}

}  // namespace unroll::cli
