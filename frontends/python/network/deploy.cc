// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/network/deploy.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "frontends/config/config.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/text_file.h"
#include "frontends/python/binding/loaded_model.h"
#include "frontends/python/binding/one_at_a_time.h"
#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"
#include "unroll/tasks/graph.h"

namespace unroll::python {

namespace {

constexpr const char* k_who = "Model.export";
constexpr const char* k_time = "T";

bool is_lengths_of(const TensorSpec& spec, const std::string& sequence) { return spec.name == sequence + "_lengths"; }

// The graph of T steps of one sequence. Its inputs are the sequence and the parameters.
std::shared_ptr<const Graph> graph_of(const Inference& inference, std::int64_t T) {
  const auto graph = std::make_shared<Graph>();
  Scope scope(*graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> inputs;
  for (const TensorSpec& spec : inference.inputs) {
    std::map<std::string, std::int64_t> sizes;
    for (const Axis& axis : spec.axes)
      if (!axis.letter.empty()) sizes[axis.letter] = axis.letter == k_time ? T : 1;
    const Type type{spec.dtype, shape_of(spec, sizes)};
    const Value steps = reduce_max(iota(*graph, {T}, 0), {0}, /*keep=*/true);  // T - 1, without a number in the graph
    const bool is_sequence = &spec == inference.inputs.data();
    inputs.emplace(spec.name, is_sequence ? graph->input(spec.name, type)
                                          : broadcast(steps + scalar_like(steps, 1), type.shape));
  }
  for (const auto& [name, value] : inference.network(scope, Inputs(std::move(inputs))).outputs)
    graph->output(name, value);
  return graph;
}

}  // namespace

Metadata graph_metadata_of(const Inference& inference, std::int64_t delay) {
  const std::vector<TensorSpec>& inputs = inference.inputs;
  const bool has_time = !inputs.empty() && std::ranges::count(inputs[0].axes, k_time, &Axis::letter) == 1;
  const bool is_one = std::ranges::all_of(inputs, [&](const TensorSpec& spec) {
    return &spec == inputs.data() || is_lengths_of(spec, inputs[0].name);
  });
  if (!has_time || !is_one)
    throw Error(ErrorKind::unsupported, k_who, "without Python a network has one input, with an axis T of steps",
                "Make states parts of the function, and write {\"x\": (\"T\", \"B\", 40)}");
  if (graph_of(inference, 8)->nodes().size() != graph_of(inference, 16)->nodes().size())
    throw Error(ErrorKind::unsupported, k_who, "the function loops over the steps in Python",
                "Write the loop as layers.cell, or another layer");
  // Two lengths determine how sizes depend on T. Strides divide them.
  constexpr std::int64_t k_first = 5040, k_second = 2 * k_first;
  const std::string text =
      print_for_lengths(*graph_of(inference, k_first), k_first, *graph_of(inference, k_second), k_second);
  return graph_metadata({text, inputs[0].name, "", delay});
}

TensorFile LoadedModel::as_graph(std::int64_t delay) const {
  return function ? TensorFile{file_.tensors, graph_metadata_of(inference_, delay)} : file_;
}

void LoadedModel::deploy(const std::filesystem::path& path, std::int64_t delay) const {
  const OneAtATime use(*used_, "Model");
  const TensorFile file = as_graph(delay);
  if (path.extension() == ".h") {
    const std::string name = path.stem().string();
    const CxxSource source = stream_source(task_stream(file.metadata), file.tensors, {.title = name});
    cli::write_text_file(path.string(), source.header);
  } else if (path.extension() == ".safetensors") {
    save_safetensors(path.string(), file);
  } else if (path.has_extension()) {
    throw Error(ErrorKind::usage, k_who, "the path ends in " + path.extension().string(),
                "Use NAME.h for a C++ header, NAME.safetensors, or a folder for the command");
  } else {
    cli::prepare_run_folder(path.string(), /*resume=*/false);
    cli::save_config(cli::Config(), (path / "config.toml").string());
    save_safetensors((path / "best.safetensors").string(), file);
  }
}

}  // namespace unroll::python
