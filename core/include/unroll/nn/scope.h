// SPDX-License-Identifier: Apache-2.0
// Parameters of a model: a Scope creates them by name while layers append nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/support/tensor.h"

namespace unroll {

// Initialization of a parameter. fan_in is the last dimension of its shape, fan_out the first.
struct Initializer {
  enum class Kind : std::uint8_t { constant, uniform, normal, xavier_uniform, xavier_normal, orthogonal, given };
  Kind kind = Kind::constant;
  double scale = 0;  // constant: value; uniform: [-scale, scale); normal: standard deviation; others: gain
  // The first dimension consists of this many equal blocks (the gates). Each is drawn separately with its own fan_out.
  int blocks = 1;
  int shifted_block = -1;  // `shift` is added to this block, such as the forget bias of an lstm
  double shift = 0;
  std::shared_ptr<const Tensor> values = {};  // given: of the parameter's shape, converted to its type

  static Initializer zeros() { return {}; }
  static Initializer constant(double value) { return {.kind = Kind::constant, .scale = value}; }
  static Initializer uniform(double bound) { return {.kind = Kind::uniform, .scale = bound}; }
  static Initializer normal(double deviation) { return {.kind = Kind::normal, .scale = deviation}; }
  static Initializer xavier_uniform(double gain = 1) { return {.kind = Kind::xavier_uniform, .scale = gain}; }
  static Initializer xavier_normal(double gain = 1) { return {.kind = Kind::xavier_normal, .scale = gain}; }
  static Initializer orthogonal(double gain = 1) { return {.kind = Kind::orthogonal, .scale = gain}; }
  static Initializer given(Tensor values) {
    return {.kind = Kind::given, .values = std::make_shared<const Tensor>(std::move(values))};
  }
};

struct ParameterSpec {
  std::string name;
  Type type;
  Initializer initializer;
};

// Initializes all parameters in host memory. A parameter depends on (seed, name) only, or is given: the bits are the
// same on every machine and backend, in any order.
UNROLL_API TensorMap initialize(std::span<const ParameterSpec> parameters, std::uint64_t seed);

// Origin::layer of the nodes after a task's last layer: the loss and the metrics.
inline constexpr const char* k_loss_layer = "loss";

// The place in a model where layers add parameters. Scopes made by child() share one registry and prefix the names.
class UNROLL_API Scope {
 public:
  explicit Scope(Graph& graph, bool training = true, DType dtype = DType::f32);

  Graph& graph() const;
  bool training() const;  // dropout is active only if true
  DType dtype() const;
  Scope child(std::string_view prefix) const;  // child names become "prefix.name"
  std::string path() const;                    // "encoder.l0"; empty at the root

  // Returns the parameter as a graph input. Later calls with the same name return the same value. Throws Error(shape)
  // when the shape differs from the first call.
  Value parameter(std::string_view name, Shape shape, Initializer initializer);
  Value key() const;  // i32 [3]: seed low, seed high, update. By default the graph input "key"
  void use_key(Value key);           // call before anything is drawn
  std::int64_t next_rng_stream() const;    // reserves an RNG stream
  const std::vector<ParameterSpec>& parameters() const;
  // Adds a float scalar to the task's loss, in training only. If the penalty is a mean, `weight` is its count as a
  // float scalar, such as the number of steps. Accumulated batches average their penalties by this weight. Empty: use
  // the weight of the loss.
  void add_penalty(Value penalty, Value weight = {});
  const std::vector<Value>& penalties() const;
  const std::vector<Value>& penalty_weights() const;  // of each penalty; null: the weight of the loss

 private:
  struct Registry;
  std::shared_ptr<Registry> registry_;
  std::string prefix_;
};

}  // namespace unroll
