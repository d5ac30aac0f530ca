// SPDX-License-Identifier: Apache-2.0
// The file around the statements of one step: constants, functions, and the class with its arrays and states.
#include "unroll/passes/cxx_source.h"

#include <algorithm>
#include <utility>

#include "backends/common/print_parts.h"
#include "backends/cxx/parts.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"
#include "unroll/support/tensor.h"

namespace unroll {

namespace cxx {

namespace {

const char* array_of(DType dtype) {
  return dtype == DType::f32 ? "f_" : dtype == DType::i32 ? "i_" : "b_";
}

}  // namespace

std::string index_text(const std::vector<std::string>& names, const common::Strides& strides, Index offset) {
  std::string text;
  const auto add = [&](const std::string& term) { text += (text.empty() ? "" : " + ") + term; };
  for (std::size_t k = 0; k < names.size(); ++k)
    if (names[k] != "0" && strides[k] != 0)
      add(strides[k] == 1 ? names[k] : names[k] + " * " + std::to_string(strides[k]));
  if (offset != 0) add(std::to_string(offset));
  return text.empty() ? "0" : text;
}

std::string Place::index(const std::string& from_offset) const {
  if (offset == 0) return from_offset;
  return std::to_string(offset) + (from_offset == "0" ? "" : " + " + from_offset);
}

Place Source::make(DType dtype, Index elements) {
  constexpr Index k_line = 16;  // elements of a cache line; vectors do not cross one
  Index& size = sizes_[dtype];
  const Place place{array_of(dtype), size, dtype};
  size += (elements + k_line - 1) / k_line * k_line;
  return place;
}

Index Source::size(DType dtype) const {
  const auto at = sizes_.find(dtype);
  return at == sizes_.end() ? 0 : at->second;
}

const Place& Source::place_of(const ValueId& id) {
  if (const auto at = places_.find(id); at != places_.end()) return at->second;
  const Node& node = graph.node(id.node);
  if (node.op != Op::constant) throw Error(ErrorKind::internal, "cxx_source", "a value is read before it is computed");
  const Tensor& tensor = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
  const auto array = [&] {
    switch (tensor.dtype()) {
      case DType::f32: return constants.add<float>(tensor.values<float>());
      case DType::i32: return constants.add<std::int32_t>(tensor.values<std::int32_t>());
      case DType::b8: return constants.add<std::uint8_t>(tensor.values<std::uint8_t>());
      default:
        throw Error(ErrorKind::unsupported, "cxx_source", "a constant of " + tensor.type().text() + " has no C++ form");
    }
  };
  return places_.emplace(id, Place{array(), 0, tensor.dtype()}).first->second;
}

namespace {

struct Port {
  Place place;
  Index elements;
};

class File {
 public:
  File(const Plan& plan, bool separate_weights) : source_(plan, separate_weights) {}

  CxxSource print(const std::string& name, const std::string& title, const TensorMap& initial) {
    const Graph& graph = source_.graph;
    for (const NamedValue& input : graph.inputs()) {
      const Type& type = graph.type(input.value);
      inputs_.push_back({source_.make(type.dtype, type.shape.elements()), type.shape.elements()});
      source_.place(input.value, inputs_.back().place);
    }
    copy("x", 0, inputs_[0]);
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id) print_node(source_, id);
    finish();
    start_from(initial);
    return {file(name, title), source_.constants.file()};
  }

 private:
  static std::string n(Index i) { return std::to_string(i); }
  // Copies elements of an argument to a port.
  void copy(const std::string& from, Index first, const Port& to) {
    source_.line("for (int e = 0; e < " + n(to.elements) + "; ++e) " + to.place.at("e") + " = " + from + "[" +
                 (first == 0 ? "" : n(first) + " + ") + "e];");
  }
  // y, and the states behind it: all are read before any is written, since one may become another.
  void finish() {
    const Graph& graph = source_.graph;
    const auto outputs = graph.outputs();
    const Place y = source_.place_of(outputs[0].value);
    source_.line("for (int e = 0; e < " + n(graph.type(outputs[0].value).shape.elements()) + "; ++e) y[e] = " +
                 y.at("e") + ";");
    std::vector<Place> next;
    const auto move = [&](const Place& to, const Place& from, Index elements) {
      source_.line("for (int e = 0; e < " + n(elements) + "; ++e) " + to.at("e") + " = " + from.at("e") + ";");
    };
    for (std::size_t k = 1; k < outputs.size(); ++k) {
      next.push_back(source_.make(DType::f32, inputs_[k].elements));
      move(next.back(), source_.place_of(outputs[k].value), inputs_[k].elements);
    }
    for (std::size_t k = 1; k < outputs.size(); ++k) move(inputs_[k].place, next[k - 1], inputs_[k].elements);
  }

  // The states that do not start at zero.
  void start_from(const TensorMap& initial) {
    const auto inputs = source_.graph.inputs();
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      const auto at = initial.find(inputs[k].name);
      if (at == initial.end()) continue;
      const auto values = at->second.values<float>();
      if (std::ranges::all_of(values, [](float value) { return value == 0; })) continue;
      const std::string array = source_.constants.add<float>(values);
      first_states_ += "    for (int e = 0; e < " + n(inputs_[k].elements) + "; ++e) " + inputs_[k].place.at("e") +
                       " = " + array + "[e];\n";
    }
  }

  std::string reset_text(const std::string& name) const {
    const std::string zero = "std::memset(state(), 0, sizeof(float) * state_size);";
    if (first_states_.empty()) return "  void reset() { " + zero + " }\n";
    return "  " + name + "() { reset(); }\n  void reset() {\n    " + zero + "\n" +
           source_.constants.reset_statements() + first_states_ + "  }\n";
  }

  // The states lie one behind the other, with gaps up to whole cache lines.
  std::pair<Index, Index> states() const {
    if (inputs_.size() < 2) return {0, 0};
    const Index first = inputs_[1].place.offset, end = inputs_.back().place.offset + inputs_.back().elements;
    return {first, end - first};
  }

  std::string file(const std::string& name, const std::string& title) const {
    const Graph& graph = source_.graph;
    const Type &x = graph.type(graph.inputs()[0].value), &y = graph.type(graph.outputs()[0].value);
    const Index lanes = x.shape[1], inputs = x.dtype == DType::i32 ? 1 : x.shape[2], outputs = y.shape[2];
    const std::string type = x.dtype == DType::i32 ? "std::int32_t" : "float";
    const auto& w = common::words(common::Dialect::cpp);
    const auto [first, size] = states();
    std::string text = "// " + title + "\n#pragma once\n\n" + std::string(w.includes) + source_.constants.includes() +
                       "\nnamespace unroll_" + name + " {\n\n" + std::string(w.prelude).append(k_math_functions) +
                       product_functions() + "\n" + source_.constants.definitions() + "\n";
    text += "class " + name + " {\n public:\n  static constexpr int lanes = " + n(lanes) + ", inputs = " + n(inputs) +
            ", outputs = " + n(outputs) + ", state_size = " + n(size) + ";\n" + source_.constants.members(name);
    text += reset_text(name);
    text += "  float* state() { return f_ + " + n(first) + "; }\n";
    text += "  void run(const " + type + "* x, float* y, int steps) {\n    for (int t = 0; t < steps; ++t) " +
            "step(x + t * " + n(lanes * inputs) + ", y + t * " + n(lanes * outputs) + ");\n  }\n";
    text += "  void step(const " + type + "* x, float* y) {\n" +
            source_.constants.first_statements(lanes * outputs) + source_.body + "  }\n\n private:\n" +
            source_.constants.private_members();
    for (const DType dtype : {DType::f32, DType::i32, DType::b8})
      if (const Index size_of = source_.size(dtype); size_of > 0)
        text += "  alignas(64) " + common::memory_type(dtype) + " " + array_of(dtype) + "[" + n(size_of) + "] = {};\n";
    return text + "};\n\n}  // namespace unroll_" + name + "\n\nusing unroll_" + name + "::" + name + ";\n";
  }

  Source source_;
  std::vector<Port> inputs_;
  std::string first_states_;  // statements of reset()
};

bool is_name(const std::string& text) {
  constexpr const char* k_digits = "0123456789";
  constexpr const char* k_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  const bool begins = !text.empty() && text.find_first_of(k_letters) == 0;
  return begins && text.find_first_not_of(std::string(k_letters) + k_digits) == std::string::npos;
}

}  // namespace

}  // namespace cxx

CxxSource cxx_source(const Plan& plan, const std::string& name, const std::string& title, bool separate_weights,
                     const TensorMap& initial) {
  if (!cxx::is_name(name))
    throw Error(ErrorKind::usage, "cxx_source", in_quotes(name) + " is no name of a C++ class");
  const auto inputs = plan.graph->inputs(), outputs = plan.graph->outputs();
  const auto type = [&](const NamedValue& value) { return plan.graph->type(value.value); };
  if (inputs.empty() || inputs.size() != outputs.size() || type(inputs[0]).shape.rank() < 2 ||
      type(outputs[0]).shape.rank() != 3 || type(inputs[0]).shape[0] != 1)
    throw Error(ErrorKind::usage, "cxx_source", "expected the plan of one step: x, states -> y, states");
  return cxx::File(plan, separate_weights).print(name, title, initial);
}

}  // namespace unroll
