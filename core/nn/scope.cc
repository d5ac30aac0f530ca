// SPDX-License-Identifier: Apache-2.0
// The registry of a Scope: parameters in order of creation, the random key and its RNG streams.
#include <map>

#include "core/nn/in_layer.h"
#include "unroll/scope.h"

namespace unroll {

struct Scope::Registry {
  Graph& graph;
  bool training;
  DType dtype;
  std::vector<ParameterSpec> parameters;
  std::map<std::string, Value, std::less<>> values;
  Value key;
  std::int64_t n_sites = 0;
  std::vector<Value> penalties;
};

Scope::Scope(Graph& graph, bool training, DType dtype)
    : registry_(std::make_shared<Registry>(Registry{graph, training, dtype, {}, {}, {}, 0, {}})) {
  if (!is_float(dtype))
    throw Error(ErrorKind::type, "Scope", "parameters must be f32 or f64; got " + std::string(dtype_name(dtype)));
}

Graph& Scope::graph() const { return registry_->graph; }
bool Scope::training() const { return registry_->training; }
DType Scope::dtype() const { return registry_->dtype; }
const std::vector<ParameterSpec>& Scope::parameters() const { return registry_->parameters; }
std::int64_t Scope::next_site() const { return registry_->n_sites++; }

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

void Scope::add_penalty(Value penalty) {
  if (penalty.rank() != 0 || !is_float(penalty.dtype()))
    throw Error(ErrorKind::usage, "Scope::add_penalty", "must be a float scalar; got " + penalty.type().text());
  registry_->penalties.push_back(penalty);
}
const std::vector<Value>& Scope::penalties() const { return registry_->penalties; }

}  // namespace unroll
