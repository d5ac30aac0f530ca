// SPDX-License-Identifier: Apache-2.0
// Layers of a model: their nodes carry the layer's name, and so do errors about shapes and types.
#pragma once

#include <string>
#include <utility>

#include "unroll/nn/scope.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll {

// An error that names a layer already; enclosing layers leave it unchanged.
class LayerError : public Error {
 public:
  LayerError(const Error& e, const std::string& layer)
      : Error(e.kind(), layer, std::string(where_of(e)).append(": ").append(message_of(e)), e.next()) {}
};

// Builds a part of a model. A shape or type error in it becomes "[encoder.l0] linear: ...". At the root of a model,
// where the path is empty, the text stays unchanged.
template <class Build>
auto in_layer(Graph& graph, const std::string& path, const Build& build) {
  const OriginScope of_layer(graph, {path});
  try {
    return build();
  } catch (const LayerError&) {
    throw;
  } catch (const Error& e) {
    if (path.empty() || (e.kind() != ErrorKind::shape && e.kind() != ErrorKind::type)) throw;
    throw LayerError(e, path);
  }
}
template <class Build>
auto in_layer(const Scope& scope, const Build& build) {
  return in_layer(scope.graph(), scope.path(), build);
}

}  // namespace unroll
