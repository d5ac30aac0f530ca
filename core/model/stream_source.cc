// SPDX-License-Identifier: Apache-2.0
// A model that runs step by step as C++.
#include <string>

#include "core/model/step_graph.h"
#include "unroll/model/stream.h"
#include "unroll/passes/cxx_source.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll {

CxxSource stream_source(const StreamModel& model, const TensorMap& parameters, const SourceOptions& options) {
  constexpr std::string_view who = "stream_source";
  if (options.lanes < 1)
    throw Error(ErrorKind::usage, std::string(who), "lanes must be at least 1; got " + std::to_string(options.lanes));
  if (options.title.find('\n') != std::string::npos)
    throw Error(ErrorKind::usage, std::string(who), "the title must be one line");
  const BlockStream step = step_graph(model, 1, options.lanes, constants_of(parameters), who);
  if (step.initial)
    throw Error(ErrorKind::unsupported, who, "the stream of a graph of whole sequences has no C++ form yet");
  const auto printer = make_backend("cxx:17");
  return cxx_source(*plan(*step.graph, *printer, {.weights = options.weights, .one_thread = true}), options.name,
                    options.title, options.separate_weights);
}

}  // namespace unroll
