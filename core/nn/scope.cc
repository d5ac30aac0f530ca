// SPDX-License-Identifier: Apache-2.0
// The registry of a Scope: parameters in order of creation, the random key and its RNG streams.
#include <map>

#include "core/nn/in_layer.h"
#include "unroll/nn/scope.h"

namespace unroll {

namespace {

// Returns the position of "_l0" in "weight_hh_l0" or "weight_hh_l0_reverse", or npos.
std::size_t stack_suffix(std::string_view name) {
  const std::size_t at = name.rfind("_l");
  if (at == std::string_view::npos || at + 2 == name.size()) return std::string_view::npos;
  const std::size_t end = name.find_first_not_of("0123456789", at + 2);
  const bool is_suffix = end == std::string_view::npos || (end > at + 2 && name.substr(end) == "_reverse");
  return is_suffix ? at : std::string_view::npos;
}

// Returns "recurrent.l0" for "weight_ih_l0_reverse" at "recurrent": both directions are one layer. At the root of a
// model the first part of the name is the layer.
std::string layer_of_parameter(const std::string& path, std::string_view name) {
  const std::size_t suffix = stack_suffix(name);
  if (suffix == std::string_view::npos) return path.empty() ? std::string(name.substr(0, name.find('.'))) : path;
  const std::size_t start = suffix + 1, end = name.find("_reverse", start);
  const std::string_view layer = name.substr(start, end == std::string_view::npos ? end : end - start);
  return path.empty() ? std::string(layer) : path + "." + std::string(layer);
}

}  // namespace

struct Scope::Registry {
  Graph& graph;
  bool training;
  DType dtype;
  std::vector<ParameterSpec> parameters;
  std::map<std::string, Value, std::less<>> values;
  Value key;
  std::int64_t n_rng_streams = 0;
  std::vector<Value> penalties, penalty_weights;
};

Scope::Scope(Graph& graph, bool training, DType dtype)
    : registry_(std::make_shared<Registry>(Registry{graph, training, dtype, {}, {}, {}, 0, {}, {}})) {
  if (!is_float(dtype))
    throw Error(ErrorKind::type, "Scope", "parameters must be f32 or f64; got " + std::string(dtype_name(dtype)));
}

Graph& Scope::graph() const { return registry_->graph; }
bool Scope::training() const { return registry_->training; }
DType Scope::dtype() const { return registry_->dtype; }
const std::vector<ParameterSpec>& Scope::parameters() const { return registry_->parameters; }
std::int64_t Scope::next_rng_stream() const { return registry_->n_rng_streams++; }

Scope Scope::child(std::string_view prefix) const {
  Scope inner = *this;
  inner.prefix_ = prefix_ + std::string(prefix) + ".";
  return inner;
}

std::string Scope::path() const { return prefix_.substr(0, prefix_.empty() ? 0 : prefix_.size() - 1); }

Value Scope::parameter(std::string_view name, Shape shape, Initializer initializer) {
  const std::string full = prefix_ + std::string(name);
  const auto at = registry_->values.find(full);
  if (at != registry_->values.end()) {
    if (at->second.shape() != shape)
      throw LayerError({ErrorKind::shape, std::string(name),
                        "was created as " + at->second.shape().text() + " and is requested as " + shape.text()},
                       prefix_.empty() ? "model" : path());
    return at->second;
  }
  const Type type{registry_->dtype, shape};
  const OriginScope of_layer(registry_->graph, {layer_of_parameter(path(), name)});
  const Value value = registry_->graph.input(full, type);
  registry_->values.emplace(full, value);
  registry_->parameters.push_back({full, type, initializer});
  return value;
}

Value Scope::key() const {
  if (!registry_->key) registry_->key = registry_->graph.input("key", {DType::i32, Shape{3}});
  return registry_->key;
}
void Scope::use_key(Value key) { registry_->key = key; }

void Scope::add_penalty(Value penalty, Value weight) {
  for (const Value& v : {penalty, weight})
    if (v && (v.rank() != 0 || !is_float(v.dtype())))
      throw Error(ErrorKind::usage, "Scope::add_penalty", "must be a float scalar; got " + v.type().text());
  registry_->penalties.push_back(penalty);
  registry_->penalty_weights.push_back(weight);
}
const std::vector<Value>& Scope::penalties() const { return registry_->penalties; }
const std::vector<Value>& Scope::penalty_weights() const { return registry_->penalty_weights; }

}  // namespace unroll
