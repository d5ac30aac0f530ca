// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/stream.h"

#include <algorithm>
#include <set>

#include "frontends/onnx/import.h"
#include "frontends/onnx/parameters.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::onnx {
namespace {

using Values = std::map<std::string, double>;

TensorMap filled_with(const Values& values, const std::map<std::string, Type>& types) {
  TensorMap tensors;
  for (const auto& [name, value] : values) tensors.emplace(name, Tensor::filled(types.at(name), value));
  return tensors;
}

// The graph for these sizes, with constants for the inputs that have values. The outputs have the order of the file.
std::shared_ptr<Graph> closed_graph(const Model& model, const FreeSizes& sizes, const Values& values) {
  const std::map<std::string, Type> types = input_types(model, sizes);
  const TensorMap known = filled_with(values, types);
  const ImportedGraph imported = import_graph(model, types, known);
  auto graph = std::make_shared<Graph>();
  std::vector<Value> inputs;
  for (const NamedValue& input : imported.graph->inputs()) {
    const auto at = known.find(input.name);
    inputs.push_back(at == known.end() ? graph->input(input.name, imported.graph->type(input.value))
                                       : constant(*graph, at->second));
  }
  const std::vector<Value> outputs = inline_graph(*graph, *imported.graph, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) graph->output(imported.graph->outputs()[k].name, outputs[k]);
  return graph;
}

// A model that computes one step, as a loop over T steps. The first input that is no state has a value for each step.
// Parameters are constants outside of the loop.
std::shared_ptr<const Graph> loop_of(const OpenGraph& open, const std::map<std::string, std::string>& carried,
                                     std::int64_t T) {
  const Graph& step = *open.graph;
  auto graph = std::make_shared<Graph>();
  std::vector<Value> states, sequences, constants;
  std::vector<std::string> next;  // output names of the states, in the order of the states
  for (const NamedValue& input : step.inputs()) {
    const Type& type = step.type(input.value);
    const auto state = carried.find(input.name);
    const auto parameter = open.parameters.find(input.name);
    if (parameter != open.parameters.end()) {
      constants.push_back(constant(*graph, parameter->second));
    } else if (state == carried.end()) {
      sequences.push_back(graph->input(input.name, {type.dtype, type.shape.inserted(0, T)}));
    } else {
      states.push_back(filled(*graph, type, 0));
      next.push_back(state->second);
    }
  }
  std::vector<std::string> outputs;
  const auto body = [&](const StepValues& v) {
    std::vector<Value> inputs;
    std::size_t n_states = 0, n_sequences = 0, n_constants = 0;
    for (const NamedValue& input : step.inputs())
      inputs.push_back(open.parameters.contains(input.name) ? v.constants[n_constants++]
                       : carried.contains(input.name)       ? v.states[n_states++]
                                                            : v.sequences[n_sequences++]);
    const std::vector<Value> results = inline_graph(inputs[0].graph(), step, inputs);
    StepResult result;
    result.states.resize(next.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      const std::string& name = step.outputs()[k].name;
      const auto at = std::ranges::find(next, name);
      if (at != next.end()) result.states[at - next.begin()] = results[k];
      else outputs.push_back(name), result.outputs.push_back(results[k]);
    }
    return result;
  };
  const ScanResult loop = scan(states, sequences, constants, body);
  for (std::size_t k = 0; k < outputs.size(); ++k) graph->output(outputs[k], loop.outputs[k]);
  return graph;
}

// For each input after the first, in order, the first output of its type that no input has yet.
std::map<std::string, std::string> carried_states(const Graph& graph, const Values& given) {
  std::map<std::string, std::string> carried;
  std::set<std::string> taken;
  for (const NamedValue& input : graph.inputs().subspan(1)) {
    if (given.contains(input.name)) continue;
    for (const NamedValue& output : graph.outputs()) {
      if (taken.contains(output.name) || graph.type(output.value) != graph.type(input.value)) continue;
      carried.emplace(input.name, output.name);
      taken.insert(output.name);
      break;
    }
  }
  return carried;
}

class Search {
 public:
  Search(std::shared_ptr<const Model> model, const StreamChoices& choices)
      : model_(std::move(model)), choices_(choices), inputs_(required_inputs(*model_)) {}

  ModelStream run() {
    check_names();
    if (inputs_.empty()) throw Error(ErrorKind::unsupported, model_->file, "the model has no input to stream");
    std::vector<ModelStream> with_states, others;
    std::string reasons;
    sequences_.clear();
    for (const FreeDimension& d : free_dimensions(*model_)) {
      if (choices_.time.empty() ? choices_.sizes.contains(d.name) : choices_.time != d.name) continue;
      const Result<void> tried = attempt([&] {
        ModelStream found = along(d.name);
        if (found.time.empty()) return;  // the size of the dimension is fixed
        if (found.whole(k_tried_steps)->inputs().size() == 1) sequences_.push_back(found);
        BlockStreamOptions any = choices_.blocks;
        any.look_ahead = Shape::k_max_dimension;
        const BlockStream stream = block_stream(found.whole, any);
        (stream.initial->outputs().empty() ? others : with_states).push_back(std::move(found));
      });
      if (!tried.ok()) reasons += "\n  " + d.name + ": " + tried.error().what();
    }
    if (with_states.size() > 1) refuse_several(with_states);
    if (with_states.size() == 1) return with_states[0];
    if (choices_.time.empty() && sequences_.empty())
      if (std::optional<ModelStream> step = one_step(reasons)) return *step;
    if (others.size() == 1) return others[0];
    if (others.size() > 1) refuse_several(others);
    throw Error(ErrorKind::unsupported, model_->file, "no dimension of the inputs can be streamed:" + reasons,
                "Give the sizes of other free dimensions with --size, or run whole sequences with `unroll run`");
  }

  ModelStream run_whole() {
    Result<ModelStream> stream = attempt([&] { return run(); });
    if (stream.ok()) return std::move(stream).value();
    if (sequences_.size() == 1) return sequences_[0];
    if (sequences_.size() > 1) refuse_several(sequences_);
    if (inputs_.empty() || !free_dimensions(*model_).empty()) throw stream.error();
    const std::map<std::string, Type> types = input_types(*model_, {});
    std::map<std::string, Type> others = types;
    others.at(inputs_.at(0).name).shape = types.at(inputs_[0].name).shape.inserted(0, 1);
    const Values values = values_of(types, others);
    return {[model = model_, values](std::int64_t) { return closed_graph(*model, {}, values); }, "", {}, values, {}};
  }

 private:
  void check_names() const {
    std::set<std::string> dimensions, inputs;
    std::string text;
    for (const FreeDimension& d : free_dimensions(*model_)) {
      dimensions.insert(d.name);
      text += (text.empty() ? "" : ", ") + d.name;
    }
    const auto require = [&](const std::string& name) {
      if (!dimensions.contains(name))
        throw Error(ErrorKind::usage, model_->file, "the inputs have no free dimension '" + name + "'",
                    "Free dimensions: " + (text.empty() ? "none" : text));
    };
    if (!choices_.time.empty()) require(choices_.time);
    for (const auto& [name, size] : choices_.sizes) require(name);
    for (const auto& [name, value] : choices_.values)
      if (!std::ranges::count(inputs_, name, &ValueDef::name))
        throw Error(ErrorKind::usage, model_->file, "there is no input '" + name + "'");
  }

  [[noreturn]] void refuse_several(const std::vector<ModelStream>& found) const {
    std::string names;
    for (const ModelStream& stream : found) names += (names.empty() ? "" : ", ") + stream.time;
    throw Error(ErrorKind::usage, model_->file, "several dimensions can be time: " + names, "Choose one with --time");
  }

  // Values of the inputs whose type does not depend on T. Integers have no value that is likely.
  Values values_of(const std::map<std::string, Type>& one, const std::map<std::string, Type>& two) const {
    Values values = choices_.values;
    for (const ValueDef& input : inputs_) {
      const Type& type = one.at(input.name);
      if (type != two.at(input.name) || values.contains(input.name)) continue;
      if (!is_float(type.dtype))
        throw Error(ErrorKind::usage, model_->file, "input '" + input.name + "' " + type.text() + " needs a value",
                    "Give it with --value " + input.name + "=NUMBER");
      values.emplace(input.name, 0);
    }
    return values;
  }

  // Free dimensions with their sizes, except `time`.
  FreeSizes sizes_beside(const std::string& time, const TensorMap& known) const {
    FreeSizes sizes;
    for (const FreeDimension& d : free_dimensions(*model_))
      if (d.name != time) sizes.emplace(d.name, 1);
    for (const auto& [name, size] : choices_.sizes) sizes.insert_or_assign(name, size);
    FreeSizes tried = sizes;
    if (!time.empty()) tried[time] = k_tried_steps;
    for (const auto& [name, size] : sizes_of_parameters(*model_, tried, known)) sizes.insert_or_assign(name, size);
    return sizes;
  }

  ModelStream along(const std::string& time) const {
    const auto types_at = [&](std::int64_t T) {
      FreeSizes sizes = choices_.sizes;
      sizes[time] = T;
      return input_types(*model_, sizes);
    };
    const Values values = values_of(types_at(2), types_at(3));
    const FreeSizes sizes = sizes_beside(time, filled_with(values, types_at(k_tried_steps)));
    if (sizes.contains(time)) return {};
    ModelStream stream{{}, time, sizes, values, {}};
    stream.whole = [model = model_, sizes, values, time](std::int64_t T) {
      FreeSizes all = sizes;
      all[time] = T;
      return closed_graph(*model, all, values);
    };
    return stream;
  }

  // Nothing if no input can be a state, or the model does not run with these sizes; then `reasons` says why.
  std::optional<ModelStream> one_step(std::string& reasons) const {
    std::optional<ModelStream> found;
    const Result<void> tried = attempt([&] {
      const FreeSizes sizes = sizes_beside("", filled_with(choices_.values, input_types(*model_, choices_.sizes)));
      const auto open = closed_graph(*model_, sizes, choices_.values);
      const std::map<std::string, std::string> carried = carried_states(*open, choices_.values);
      if (carried.empty()) return;
      const Values values = values_of_step(carried);
      const OpenGraph step = with_parameters(*closed_graph(*model_, sizes, values), *model_);
      found = ModelStream{[step, carried](std::int64_t T) { return loop_of(step, carried, T); }, "", sizes, values,
                          carried};
    });
    if (!tried.ok()) reasons += std::string("\n  one step with states: ") + tried.error().what();
    return found;
  }

  Values values_of_step(const std::map<std::string, std::string>& carried) const {
    const std::map<std::string, Type> types = input_types(*model_, choices_.sizes);
    std::map<std::string, Type> other = types;
    for (auto& [name, type] : other)
      if (name == inputs_[0].name || carried.contains(name)) type.shape = type.shape.inserted(0, 1);
    return values_of(types, other);
  }

  static constexpr std::int64_t k_tried_steps = 960;
  std::shared_ptr<const Model> model_;
  const StreamChoices& choices_;
  std::vector<ValueDef> inputs_;
  // Dimensions on which one input alone depends. A file that has some does not compute single steps.
  std::vector<ModelStream> sequences_;
};

}  // namespace

ModelStream stream_of(std::shared_ptr<const Model> model, const StreamChoices& choices) {
  return Search(std::move(model), choices).run();
}

ModelStream sequence_of(std::shared_ptr<const Model> model, const StreamChoices& choices) {
  return Search(std::move(model), choices).run_whole();
}

}  // namespace unroll::onnx
