// SPDX-License-Identifier: Apache-2.0
// Finds the order of the modules of a state dict.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>

#include "frontends/checkpoint/modules.h"
#include "unroll/support/error.h"

namespace unroll::checkpoint {

namespace {

constexpr std::size_t k_most_tried = 8;  // maximum number of modules for which orders are tried

SequentialLayer layer_of(const Module& m, bool is_embedding) {
  if (m.is_recurrent) return {.kind = "recurrent", .name = m.path, .model = m.model};
  if (is_embedding) return {.kind = "embedding", .name = m.path, .size = m.columns, .tokens = m.rows};
  return {.kind = "linear", .name = m.path, .size = m.rows, .bias = m.bias};
}

bool may_embed(const Module& m) { return !m.is_recurrent && !m.bias; }
std::int64_t inputs_of(const Module& m) { return m.is_recurrent ? m.inputs : m.columns; }

std::string list_of(const std::vector<Module>& modules) {
  std::string text;
  for (const Module& m : modules) text += (text.empty() ? "" : ", ") + m.text();
  return text;
}

[[noreturn]] void ask(const std::string& file, const std::vector<Module>& modules, const std::string& why) {
  std::string example;
  for (const Module& m : modules) example += (example.empty() ? "" : ",") + (m.path.empty() ? "." : m.path);
  throw Error(ErrorKind::input_file, file, why + ": " + list_of(modules),
              "Name the layers in their order, with what is between them: --layers " + example +
                  "; for example rnn,last,fc1,relu,fc2");
}

struct Order {
  std::vector<std::size_t> modules;
  bool begins_with_embedding = false;
};

// Finds the orders in which each module reads the output of the previous one, two at most.
class Orders {
 public:
  explicit Orders(const std::vector<Module>& modules) : modules_(modules), is_used_(modules.size(), false) {}

  // Returns all orders, or with `only_this` the order of the list.
  std::vector<Order> find(bool only_this) {
    only_this_ = only_this;
    extend(0);
    return found_;
  }

 private:
  void extend(std::int64_t width) {
    const std::size_t n = order_.modules.size();
    if (found_.size() > 1) return;
    if (n == modules_.size()) return found_.push_back(order_);
    for (std::size_t k = only_this_ ? n : 0; k < (only_this_ ? n + 1 : modules_.size()); ++k) {
      if (is_used_[k]) continue;
      const Module& m = modules_[k];
      if (n == 0 && may_embed(m)) place(k, m.columns, true);
      if (n == 0 || inputs_of(m) == width) place(k, m.outputs(), order_.begins_with_embedding);
    }
  }
  void place(std::size_t k, std::int64_t width, bool begins_with_embedding) {
    const bool before = order_.begins_with_embedding;
    is_used_[k] = true;
    order_.modules.push_back(k);
    order_.begins_with_embedding = begins_with_embedding;
    extend(width);
    order_.begins_with_embedding = before;
    order_.modules.pop_back();
    is_used_[k] = false;
  }

  const std::vector<Module>& modules_;
  std::vector<bool> is_used_;
  bool only_this_ = false;
  Order order_;
  std::vector<Order> found_;
};

Sequential by_widths(const std::vector<Module>& modules, bool in_order, const std::string& file) {
  std::vector<Order> orders;
  if (in_order) orders = Orders(modules).find(/*only_this=*/true);
  if (orders.empty() && modules.size() <= k_most_tried) orders = Orders(modules).find(/*only_this=*/false);
  if (orders.size() > 1) ask(file, modules, "the layers fit in several ways");
  if (orders.empty()) ask(file, modules, "the widths of the layers do not tell their order");
  const Order& order = orders[0];
  Sequential model;
  for (std::size_t n = 0; n < order.modules.size(); ++n) {
    const Module& m = modules[order.modules[n]];
    model.layers.push_back(layer_of(m, n == 0 && order.begins_with_embedding));
    if (n == 0) model.inputs = inputs_of(m);
    if (n > 0 && model.layers[n].kind == "linear" && model.layers[n - 1].kind == "linear")
      ask(file, modules, "a state dict does not say what is between two linear layers");
  }
  return model;
}

constexpr std::array<std::string_view, 9> k_without_parameters{"tanh", "relu", "sigmoid", "softmax", "log_softmax",
                                                               "last", "final", "mean", "max"};

Sequential by_names(const std::vector<Module>& modules, const std::vector<std::string>& layers,
                    const std::string& file) {
  Sequential model;
  std::optional<std::int64_t> width;
  for (const std::string& entry : layers) {
    const std::size_t equals = entry.rfind('=');
    std::string path = entry.substr(0, equals), kind = equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (path == ".") path.clear();
    const auto at = std::ranges::find(modules, path, &Module::path);
    if (at == modules.end() && std::ranges::count(k_without_parameters, entry) > 0) {
      model.layers.push_back({.kind = entry});
      continue;
    }
    if (at == modules.end()) ask(file, modules, "--layers names '" + entry + "', which the file does not have");
    const bool is_first = !width.has_value();
    if (kind.empty() && is_first && may_embed(*at))
      ask(file, modules, "'" + entry + "' is a matrix: write " + entry + "=embedding or " + entry + "=linear");
    if (kind.empty()) kind = at->is_recurrent ? "recurrent" : "linear";
    const std::string_view own = at->is_recurrent ? "recurrent" : "linear";
    const bool is_known = kind == own || (kind == "embedding" && may_embed(*at));
    if (!is_known) ask(file, modules, "'" + at->path + "' is no " + kind + " layer");
    const bool is_embedding = kind == "embedding";
    if (is_embedding && !is_first) ask(file, modules, "the embedding '" + at->path + "' is not the first layer");
    if (!is_embedding && width.value_or(inputs_of(*at)) != inputs_of(*at))
      ask(file, modules, "'" + at->path + "' reads " + std::to_string(inputs_of(*at)) + " values; the layer before it "
                             "gives " + std::to_string(*width));
    if (is_first) model.inputs = inputs_of(*at);
    width = is_embedding ? at->columns : at->outputs();
    model.layers.push_back(layer_of(*at, is_embedding));
  }
  return model;
}

}  // namespace

Sequential in_a_row(const std::vector<Module>& modules, bool in_order, const std::vector<std::string>& layers,
                    const std::string& file) {
  return layers.empty() ? by_widths(modules, in_order, file) : by_names(modules, layers, file);
}

}  // namespace unroll::checkpoint
