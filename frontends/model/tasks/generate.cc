// SPDX-License-Identifier: Apache-2.0
// Text from a trained language model: one step with carried states, run again and again; the choice is the host's.
#include <algorithm>
#include <cmath>

#include "core/support/philox.h"
#include "core/train/device_tensors.h"
#include "frontends/data/text.h"
#include "frontends/model/tasks/language_model.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

// "gene": keeps these draws apart from all others.
constexpr std::uint32_t k_domain = 0x67656E65u;

class Sampler {
 public:
  Sampler(const Metadata& metadata, const TensorMap& parameters, Backend& backend, std::int64_t vocabulary)
      : resident_(backend), ids_(DType::i32, {1, 1}), logits_(DType::f32, {1, 1, vocabulary}) {
    Graph graph;
    Scope scope(graph, false);
    const Value ids = graph.input("ids", ids_.type());
    const LanguageNetwork network =
        language_network(scope, ids, get_model_options(metadata), get_integer(metadata, "embedding"), vocabulary);
    for (const CarriedState& s : network.states) {
      resident_.add("state." + s.name, s.type);
      graph.output("state." + s.name, s.out);
    }
    graph.output("logits", network.logits);
    for (const ParameterSpec& p : scope.parameters()) add_parameter(p, parameters);
    DeviceTensors* const sets[] = {&resident_};
    program_ = std::make_unique<BoundProgram>(graph, sets, backend);
  }

  // Reads one character; what follows it as unnormalised log probabilities.
  std::span<const float> step(std::int32_t id) {
    ids_.values<std::int32_t>()[0] = id;
    program_->set("ids", ids_);
    program_->run();
    program_->download_into("logits", logits_);
    return logits_.values<float>();
  }

 private:
  void add_parameter(const ParameterSpec& p, const TensorMap& parameters) {
    const auto at = parameters.find(p.name);
    if (at == parameters.end())
      throw Error(ErrorKind::input_file, "generate", "the model has no parameter '" + p.name + "'");
    if (at->second.type() != p.type)
      throw Error(ErrorKind::input_file, "generate",
                  "'" + p.name + "' must be " + p.type.text() + "; got " + at->second.type().text());
    resident_.add(p.name, p.type);
    resident_.upload(p.name, at->second);
  }

  DeviceTensors resident_;
  Tensor ids_, logits_;
  std::unique_ptr<BoundProgram> program_;
};

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
  Sampler sampler(metadata, parameters, backend, vocabulary.size());
  const std::vector<std::int32_t> prompt = vocabulary.encode(decode_utf8(options.prompt, "prompt"));
  if (prompt.empty()) throw Error(ErrorKind::usage, "generate", "the prompt needs at least one character");
  std::span<const float> logits;
  for (const std::int32_t id : prompt) logits = sampler.step(id);
  for (std::int64_t i = 0; i < options.length; ++i) {
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), k_domain, 0},
               {static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)});
    const std::int32_t id = choose(logits, options.temperature, static_cast<double>(philox_uniform(words[0])));
    sink(vocabulary.text(id));
    if (i + 1 < options.length) logits = sampler.step(id);
  }
}

}  // namespace unroll
