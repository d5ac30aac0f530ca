// SPDX-License-Identifier: Apache-2.0
// Text generation with a language model: a stream computes the logits, the host samples.
#include <cmath>

#include "core/data/text/encoding.h"
#include "core/support/interruption.h"
#include "core/support/philox.h"
#include "core/support/text/exact_text.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/language_model/language_model.h"
#include "core/tasks/language_model/sampling.h"
#include "unroll/model/stream.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

namespace {

// "gene": separates these draws from all others.
constexpr std::uint32_t k_domain = 0x67656E65u;

}  // namespace

void generate(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend,
              const GenerateOptions& options, const std::function<void(std::string_view)>& sink) {
  if (get_text(metadata, "task") != "language_model")
    throw Error(ErrorKind::usage, "generate",
                "the model is a '" + get_text(metadata, "task") + "', not a language_model");
  if (options.length < 0 || !(options.temperature >= 0) || !std::isfinite(options.temperature) || options.top_k < 0 ||
      !(options.top_p > 0 && options.top_p <= 1))
    throw Error(ErrorKind::usage, "generate",
                "length, temperature and top_k must not be negative, and top_p must be in (0,1]; got " +
                    std::to_string(options.length) + ", " + exact_text(options.temperature) + ", " +
                    std::to_string(options.top_k) + " and " + exact_text(options.top_p));
  const Tokenizer tokenizer = language_tokenizer(metadata, "model");
  if (tokenizer.size() < 2) throw Error(ErrorKind::input_file, "generate", "the vocabulary is empty");
  Stream stream(backend, task_stream(metadata), parameters);
  std::vector<float> logits(stream.outputs());
  const std::int32_t document_start = document_start_of(metadata);
  const auto read = [&](const std::int32_t id) {
    check_interruption();
    if (id == document_start && !stream.reset())
      throw Error(ErrorKind::device, "generate", "the state could not be set to zero");
    if (!stream.step({&id, 1}, logits)) throw Error(ErrorKind::device, "generate", "a step failed on the device");
  };
  if (tokenizer.kind() != "bytes") require_text(options.prompt, "prompt");
  const std::vector<std::int32_t> prompt = tokenizer.encode(options.prompt, "prompt");
  if (prompt.empty()) throw Error(ErrorKind::usage, "generate", "the prompt needs at least one character");
  const Sampling sampling{options.temperature, options.top_k, options.top_p};
  for (const std::int32_t id : prompt) read(id);
  for (std::int64_t i = 0; i < options.length; ++i) {
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), k_domain, 0},
               {static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)});
    const std::int32_t id =
        choose(logits, sampling, static_cast<double>(philox_uniform(words[0])), tokenizer.unknown());
    sink(tokenizer.text(id));
    if (i + 1 < options.length) read(id);
  }
}

}  // namespace unroll
