// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/modules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "unroll/support/error.h"

namespace unroll::checkpoint {

namespace {

// A tensor of a recurrent layer: "weight_ih_l1_reverse", of a cell "weight_ih".
struct RecurrentName {
  std::string_view kind;
  int layer = 0;
  bool reverse = false;
};
constexpr std::array<std::string_view, 5> k_recurrent_kinds{"weight_ih", "weight_hh", "bias_ih", "bias_hh",
                                                            "weight_hr"};
constexpr int k_most_layers = 256;

std::optional<RecurrentName> recurrent_name(std::string_view leaf) {
  for (const std::string_view kind : k_recurrent_kinds) {
    if (!leaf.starts_with(kind)) continue;
    std::string_view rest = leaf.substr(kind.size());
    RecurrentName name{kind};
    if (rest.empty()) return name;
    if (!rest.starts_with("_l")) return std::nullopt;
    rest.remove_prefix(2);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), name.layer);
    if (error != std::errc() || name.layer < 0 || name.layer >= k_most_layers) return std::nullopt;
    rest.remove_prefix(end - rest.data());
    name.reverse = rest == "_reverse";
    if (!rest.empty() && !name.reverse) return std::nullopt;
    return name;
  }
  return std::nullopt;
}

std::string our_name(const RecurrentName& name) {
  return std::string(name.kind) + "_l" + std::to_string(name.layer) + (name.reverse ? "_reverse" : "");
}

const NamedTensor* find(const Module& module, std::string_view own) {
  const auto at = std::ranges::find(module.tensors, own, &ModuleTensor::own);
  return at == module.tensors.end() ? nullptr : at->tensor;
}

[[noreturn]] void refuse(const std::string& file, const Module& module, const std::string& what) {
  throw Error(ErrorKind::input_file, file, "module '" + module.path + "' " + what,
              "Save the state dict of a model with nn.RNN, nn.GRU or nn.LSTM");
}

void describe_recurrent(Module& m, const std::string& nonlinearity, const std::string& file) {
  m.is_recurrent = true;
  const NamedTensor* const ih = find(m, "weight_ih_l0");
  const NamedTensor* const hh = find(m, "weight_hh_l0");
  const NamedTensor* const hr = find(m, "weight_hr_l0");
  if (!ih || !hh) refuse(file, m, std::string("has no ") + (ih ? "weight_hh_l0" : "weight_ih_l0"));
  for (const NamedTensor* matrix : {ih, hh, hr})
    if (matrix && (matrix->shape.rank() != 2 || matrix->shape.elements() == 0))
      refuse(file, m, "has a weight that is no matrix: " + matrix->stored);
  RecurrentModelOptions& o = m.model;
  o.hidden = hr ? hr->shape[1] : hh->shape[1];
  o.projection = hr ? hr->shape[0] : 0;
  constexpr std::pair<std::int64_t, const char*> k_gates[] = {{1, "rnn"}, {3, "gru"}, {4, "lstm"}};
  o.cell.clear();
  for (const auto& [gates, cell] : k_gates)
    if (hh->shape[0] == gates * o.hidden) o.cell = cell;
  if (o.cell.empty())
    refuse(file, m, "has weight_hh_l0 " + hh->stored + "; its rows must be 1, 3 or 4 times " +
                        std::to_string(o.hidden));
  if (o.cell == "rnn") o.nonlinearity = from_word<Nonlinearity>(nonlinearity, "nonlinearity");
  o.bias = false;
  for (const ModuleTensor& each : m.tensors) {
    const RecurrentName name = *recurrent_name(each.own);
    o.layers = std::max(o.layers, name.layer + 1);
    o.bidirectional |= name.reverse;
    o.bias |= name.kind.starts_with("bias");
  }
  m.inputs = ih->shape[1];
}

}  // namespace

std::int64_t Module::outputs() const {
  if (!is_recurrent) return rows;
  return (model.projection > 0 ? model.projection : model.hidden) * (model.bidirectional ? 2 : 1);
}

std::string Module::text() const {
  const std::string name = path.empty() ? "." : path;
  const auto widths = [](std::int64_t from, std::int64_t to) {
    return std::to_string(from) + " -> " + std::to_string(to) + ")";
  };
  if (is_recurrent) return name + " (" + model.cell + ", " + widths(inputs, outputs());
  if (bias) return name + " (linear, " + widths(columns, rows);
  return name + " (matrix [" + std::to_string(rows) + "," + std::to_string(columns) + "])";
}

std::vector<Module> find_modules(const std::vector<const NamedTensor*>& tensors, std::string_view prefix,
                                 const std::string& nonlinearity, const std::string& file) {
  std::vector<Module> modules;
  for (const NamedTensor* each : tensors) {
    const std::string_view name = std::string_view(each->name).substr(prefix.size());
    const std::size_t dot = name.rfind('.');
    const std::string path(name.substr(0, dot == std::string_view::npos ? 0 : dot));
    const std::string_view leaf = dot == std::string_view::npos ? name : name.substr(dot + 1);
    const auto recurrent = recurrent_name(leaf);
    const int rank = each->shape.rank();
    if (!recurrent && !(leaf == "weight" && rank == 2) && !(leaf == "bias" && rank == 1)) continue;
    auto at = std::ranges::find(modules, path, &Module::path);
    if (at == modules.end()) at = modules.insert(modules.end(), Module{.path = path, .tensors = {}, .model = {}});
    const std::string own = recurrent ? our_name(*recurrent) : std::string(leaf);
    if (find(*at, own)) refuse(file, *at, "has two tensors for " + own);
    at->tensors.push_back({each, own});
  }
  // A bias alone belongs to an unsupported module, such as a normalization.
  std::erase_if(modules, [](const Module& m) {
    return std::ranges::none_of(m.tensors, [](const ModuleTensor& t) { return t.own.starts_with("weight"); });
  });
  for (Module& m : modules) {
    if (const NamedTensor* const weight = find(m, "weight")) {
      if (m.tensors.size() > (find(m, "bias") ? 2 : 1))
        refuse(file, m, "has weights of a linear and a recurrent layer");
      m.rows = weight->shape[0];
      m.columns = weight->shape[1];
      m.bias = find(m, "bias") != nullptr;
    } else {
      describe_recurrent(m, nonlinearity, file);
    }
  }
  return modules;
}

}  // namespace unroll::checkpoint
