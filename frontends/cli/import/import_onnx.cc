// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/import_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/support/tensor_role.h"
#include "core/support/text/shell_word.h"
#include "frontends/cli/bench/stream_job.h"
#include "frontends/onnx/free_sizes.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/layers/import_layers.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {
namespace {

// Sizes of free dimensions in the order of their names: one for the import, two for the comparisons.
const std::vector<std::int64_t> k_found{5, 3}, k_checked[] = {{7, 2}, {2, 4}};

// Returns the file's tensor, gathered from unroll's tensors. Returns nullopt if they lack it, as a model that reads the
// future has no states.
std::optional<Tensor> gathered(const onnx::PlacedTensor& placed, const TensorMap& ours) {
  std::vector<const Tensor*> from;
  for (const std::string& name : placed.names) {
    const auto found = ours.find(name);
    if (found == ours.end()) return std::nullopt;
    from.push_back(&found->second);
  }
  Tensor tensor(placed.type);
  for (std::size_t k = 0; k < placed.elements.size(); ++k)
    tensor.set(static_cast<std::int64_t>(k), from[placed.ours[k]]->at(placed.elements[k]));
  return tensor;
}

void scatter(const onnx::PlacedTensor& placed, const Tensor& given, TensorMap& ours) {
  for (std::size_t k = 0; k < placed.elements.size(); ++k)
    ours.at(placed.names[placed.ours[k]])
        .set(placed.elements[k], given.at(static_cast<std::int64_t>(k)));
}

struct Case {
  const onnx::LayerImport& layers;
  Inference inference;
  TensorMap inputs;  // unroll's inputs, all zeros
};
Case case_of(const onnx::LayerImport& layers) {
  Case c{layers, task_inference(sequential_metadata(layers.imported.model)), {}};
  for (const TensorSpec& spec : c.inference.inputs)
    c.inputs.emplace(spec.name, Tensor(spec.dtype, shape_of(spec, layers.sizes)));
  return c;
}

TensorMap run_ours(const Case& c, const char* backend_name) {
  const auto backend = make_backend(backend_name);
  return Model(*backend, c.inference.network, c.layers.imported.parameters).run(c.inputs);
}

double largest_difference(const Case& c, const TensorMap& ours, const TensorMap& wanted) {
  double largest = 0;
  for (const onnx::PlacedTensor& placed : c.layers.outputs) {
    const auto at = wanted.find(placed.name);
    const std::optional<Tensor> found = gathered(placed, ours);
    if (found && at != wanted.end()) largest = std::max(largest, relative_l2(*found, at->second));
  }
  return largest;
}

// Compares with the expected outputs, and throws if they differ.
Report compared(const Case& c, const TensorMap& wanted, const std::string& file, const std::string& what) {
  const TensorMap ours = run_ours(c, "reference");
  TensorMap by_file;  // outputs with the file's rounding, in the file's layout
  for (const onnx::PlacedTensor& placed : c.layers.outputs)
    if (auto tensor = gathered(placed, ours)) by_file.emplace(placed.name, std::move(*tensor));
  const double amplified = largest_difference(c, run_ours(c, "cpu"), by_file);
  const double difference = largest_difference(c, ours, wanted), tolerance = rounding_tolerance(amplified);
  if (!(difference <= tolerance) || !std::isfinite(tolerance))
    throw Error(ErrorKind::differ, file,
                fmt::format("{}: relative L2 difference {:.2g}, tolerance {:.2g}", what, difference, tolerance),
                fmt::format("`unroll run {}` runs the model without importing it", shell_word(file)));
  std::vector<std::string> sizes;
  for (const onnx::PlacedTensor& placed : c.layers.inputs) sizes.push_back(placed.name + " " + placed.type.text());
  Report report;
  report.add("inputs", fmt::format("{}", fmt::join(sizes, ", "))).add("relative_l2_difference", difference);
  return std::move(report.add("tolerance", tolerance).add("agrees", true));
}

// Fills inputs with numbers in [-1,1), or tokens of the embedding. States that the file does not read are zeros in it.
void fill(Case& c) {
  const std::int64_t tokens = c.layers.imported.model.layers[0].tokens;
  for (auto& [name, tensor] : c.inputs) {
    const bool is_read = std::ranges::any_of(c.layers.inputs, [&, &name = name](const onnx::PlacedTensor& placed) {
      return std::ranges::count(placed.names, name) > 0;
    });
    if (!is_read) continue;
    const ParameterSpec drawn{name, {DType::f32, tensor.shape()}, Initializer::uniform(1)};
    const Tensor random = std::move(initialize(std::span(&drawn, 1), 1).at(name));
    const bool is_ids = tensor.dtype() == DType::i32;
    for (std::int64_t k = 0; k < tensor.elements(); ++k)
      tensor.set(k, is_ids ? std::floor(0.5 * (random.at(k) + 1) * static_cast<double>(tokens)) : random.at(k));
  }
}

Report check_random(const onnx::Model& model, const onnx::FreeSizes& sizes, const onnx::LayerImport& found) {
  const onnx::LayerImport layers = onnx::import_layers(model, onnx::input_types(model, sizes));
  if (sequential_metadata(layers.imported.model) != sequential_metadata(found.imported.model))
    throw Error(ErrorKind::unsupported, model.file, "the model has other layers for another number of steps",
                "Export it with free axes, without unrolling its loops");
  Case c = case_of(layers);
  fill(c);
  TensorMap inputs;
  for (const onnx::PlacedTensor& placed : layers.inputs) {
    std::optional<Tensor> tensor = gathered(placed, c.inputs);
    if (!tensor)
      throw Error(ErrorKind::unsupported, model.file,
                  fmt::format("input '{}': the initial states of a model that reads the future are no inputs of a "
                              "folder", placed.name),
                  fmt::format("`unroll run {}` runs the model without importing it", shell_word(model.file)));
    inputs.emplace(placed.name, std::move(*tensor));
  }
  const auto backend = make_backend("cpu");
  const TensorMap wanted = evaluate(*onnx::import_graph(model, inputs).graph, *backend, inputs);
  return compared(c, wanted, model.file, "the layers compute something else than the file");
}

// `input` and `output` are the input of the first layer and the output of the last one.
Report check_sample(const onnx::Model& model, const std::string& sample, const onnx::LayerImport& found) {
  TensorMap tensors = load_safetensors(sample).tensors;
  const auto rename = [&](const char* from, const std::string& to) {
    if (tensors.contains(to)) return;
    auto entry = tensors.extract(from);
    if (!entry) return;
    entry.key() = to;
    tensors.insert(std::move(entry));
  };
  const auto& x = *std::ranges::find_if(found.inputs, [](const onnx::PlacedTensor& placed) {
    return std::ranges::none_of(placed.names, [](const std::string& n) { return role_of(n) == TensorRole::state; });
  });
  rename("input", x.name);
  rename("output", found.outputs[0].name);
  std::map<std::string, Type> types;
  for (const onnx::PlacedTensor& placed : found.inputs) {
    const auto at = tensors.find(placed.name);
    if (at == tensors.end())
      throw Error(ErrorKind::input_file, sample, fmt::format("tensor {} is missing", placed.name),
                  "A sample has the inputs of the ONNX model, or input, and its outputs, or output");
    if (is_float(at->second.dtype()) && is_float(placed.type.dtype)) at->second = at->second.cast(placed.type.dtype);
    types.emplace(placed.name, at->second.type());
  }
  if (!tensors.contains(found.outputs[0].name))
    throw Error(ErrorKind::input_file, sample, fmt::format("tensor {} is missing", found.outputs[0].name),
                "A sample has the inputs of the ONNX model, or input, and its outputs, or output");
  const onnx::LayerImport layers = onnx::import_layers(model, types);
  Case c = case_of(layers);
  for (const onnx::PlacedTensor& placed : layers.inputs) scatter(placed, tensors.at(placed.name), c.inputs);
  return compared(c, tensors, sample, "the output differs; the file may not hold the model that the sample is of");
}

ReportList tensors_of(const onnx::LayerImport& layers, const Inference& inference) {
  ReportList rows;
  const auto add = [&](const char* kind, const onnx::PlacedTensor& placed, const std::vector<TensorSpec>& specs) {
    std::vector<std::string> ours;
    for (const std::string& name : placed.names) {
      const auto spec = std::ranges::find(specs, name, &TensorSpec::name);
      if (spec != specs.end()) ours.push_back(name + " " + spec->text());
    }
    const std::string text = ours.empty() ? "left out" : fmt::format("{}", fmt::join(ours, ", "));
    rows.push_back(std::move(Report().add("kind", kind).add("in_the_file", placed.name).add("in_the_folder", text)));
  };
  for (const auto& placed : layers.inputs) add("input", placed, inference.inputs);
  for (const auto& placed : layers.outputs) add("output", placed, inference.outputs);
  return rows;
}

}  // namespace

OnnxImport import_onnx(const std::string& file, const std::string& sample) {
  const onnx::Model model = onnx::load_model_file(file);
  // Dimensions that the weights determine have that size, others are free.
  const onnx::FreeSizes by_weights = onnx::sizes_of_parameters(model, onnx::sizes_in_order(model, k_found));
  const auto sizes_of = [&](const std::vector<std::int64_t>& free) {
    onnx::FreeSizes sizes = by_weights;
    sizes.merge(onnx::sizes_in_order(model, free));
    return sizes;
  };
  onnx::LayerImport layers = onnx::import_layers(model, onnx::input_types(model, sizes_of(k_found)));
  OnnxImport result;
  result.tensors = tensors_of(layers, task_inference(sequential_metadata(layers.imported.model)));
  for (const auto& sizes : k_checked) result.check.push_back(check_random(model, sizes_of(sizes), layers));
  if (!sample.empty()) result.sample = check_sample(model, sample, layers);
  result.imported = std::move(layers.imported);
  return result;
}

}  // namespace unroll::cli
