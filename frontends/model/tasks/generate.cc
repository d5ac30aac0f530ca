// SPDX-License-Identifier: Apache-2.0
// Text from a trained language model: a stream says what may follow; the choice is the host's.
#include <algorithm>
#include <cmath>

#include "core/support/philox.h"
#include "frontends/data/text.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/stream.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

// "gene": keeps these draws apart from all others.
constexpr std::uint32_t k_domain = 0x67656E65u;

// An id with probability proportional to e^(logit / temperature); the likeliest one at temperature 0. The last id
// stands for unknown characters and is never chosen.
std::int32_t choose(std::span<const float> logits, double temperature, double uniform) {
  logits = logits.first(logits.size() - 1);
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(*largest)) throw Error(ErrorKind::numeric, "generate", "the model's output is not finite");
  if (temperature == 0) return static_cast<std::int32_t>(largest - logits.begin());
  std::vector<double> weight;
  double total = 0;
  for (const float l : logits) weight.push_back(total += std::exp(static_cast<double>(l - *largest) / temperature));
  const auto at = std::upper_bound(weight.begin(), weight.end(), uniform * total);
  return static_cast<std::int32_t>(std::min(at - weight.begin(), static_cast<std::ptrdiff_t>(weight.size()) - 1));
}

}  // namespace

void generate(const Metadata& metadata, const TensorMap& parameters, Backend& backend, const GenerateOptions& options,
              const std::function<void(std::string_view)>& sink) {
  if (get_text(metadata, "task") != "language_model")
    throw Error(ErrorKind::usage, "generate",
                "the model is a '" + get_text(metadata, "task") + "', not a language_model");
  if (options.length < 0 || !(options.temperature >= 0) || !std::isfinite(options.temperature))
    throw Error(ErrorKind::usage, "generate",
                "length and temperature must not be negative; got " + std::to_string(options.length) + " and " +
                    std::to_string(options.temperature));
  const Vocabulary vocabulary = Vocabulary::from_characters(get_text(metadata, "vocabulary"), "model");
  if (vocabulary.size() < 2) throw Error(ErrorKind::input_file, "generate", "the vocabulary is empty");
  Stream stream(backend, task_stream(metadata), parameters);
  std::vector<float> logits(static_cast<std::size_t>(stream.outputs()));
  const auto read = [&](const std::int32_t id) {
    if (!stream.step({&id, 1}, logits)) throw Error(ErrorKind::device, "generate", "a step failed on the device");
  };
  const std::vector<std::int32_t> prompt = vocabulary.encode(decode_utf8(options.prompt, "prompt"));
  if (prompt.empty()) throw Error(ErrorKind::usage, "generate", "the prompt needs at least one character");
  for (const std::int32_t id : prompt) read(id);
  for (std::int64_t i = 0; i < options.length; ++i) {
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), k_domain, 0},
               {static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)});
    const std::int32_t id = choose(logits, options.temperature, static_cast<double>(philox_uniform(words[0])));
    sink(vocabulary.text(id));
    if (i + 1 < options.length) read(id);
  }
}

}  // namespace unroll
