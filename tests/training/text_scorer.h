// SPDX-License-Identifier: Apache-2.0
// What a model with a pointer gives any text, computed without a search.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/tasks/decode/pair_text.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/network.h"
#include "unroll/tasks/inference.h"

namespace unroll::testing {

// A trained model and what scores any text with it: the network of task_inference, run over the whole text.
struct Scorer {
  using Tokens = std::vector<std::int32_t>;
  Trained trained;
  PairCoder coder;
  SourceTokens source;
  Model model;
  Scorer(Trained model_of_text, const std::string& line)
      : trained(std::move(model_of_text)), coder(PairCoder::of(trained.metadata)),
        source(coder.source(line, "test")),
        model(*trained.backend, task_inference(trained.metadata).network, trained.parameters) {}

  struct Score {
    double log_probability = 0;
    std::vector<float> coverage;  // by source token, of all steps up to the end
  };
  // log P of the words alone, without the end.
  double prefix(const Tokens& text) { return score(text, /*ends=*/false).log_probability; }
  Score score(const Tokens& text, bool ends = true) {
    const auto S = static_cast<std::int64_t>(source.ids.size()), T = static_cast<std::int64_t>(text.size()) + 1;
    Tokens read{coder.end()}, labels = text;
    for (const std::int32_t id : text) read.push_back(coder.known(id));
    labels.push_back(coder.end());
    const auto lengths = Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(S)});
    const TensorMap out = model.run({{"source", Tensor::from<std::int32_t>({S, 1}, source.ids)},
                                     {"source_lengths", lengths},
                                     {"target", Tensor::from<std::int32_t>({T, 1}, read)}});
    Score result{0, std::vector<float>(static_cast<std::size_t>(S))};
    for (std::int64_t t = 0; t < (ends ? T : T - 1); ++t) {
      const std::int32_t label = labels[static_cast<std::size_t>(t)];
      double p = label < coder.tokens() ? out.at("probabilities").at(t * coder.tokens() + label) : 0;
      for (std::int64_t s = 0; s < S; ++s) {
        const double a = out.at("attention").at(t * S + s);
        result.coverage[static_cast<std::size_t>(s)] += static_cast<float>(a);
        if (source.copies[static_cast<std::size_t>(s)] == label) p += (1 - out.at("p_gen").at(t)) * a;
      }
      result.log_probability += std::log(p);
    }
    return result;
  }
};

}  // namespace unroll::testing
