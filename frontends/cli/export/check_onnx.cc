// SPDX-License-Identifier: Apache-2.0
// `unroll export --check`: checks that the exported file computes the same as the network, also at sizes other than
// those of the export.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/cli/bench/scripts.h"
#include "frontends/cli/bench/stream_job.h"
#include "frontends/cli/export/export_model.h"
#include "frontends/config/run/job.h"
#include "frontends/onnx/export.h"
#include "frontends/onnx/import.h"
#include "unroll/io/safetensors.h"
#include "unroll/model/model.h"
#include "unroll/model/network.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

// Sizes by letter: B is the batch; the others are the steps plus their position among the letters.
struct CheckSizes {
  std::int64_t batch, steps;
};
constexpr CheckSizes k_sizes[] = {{1, 2}, {3, 9}, {5, 17}};

double largest_difference(const TensorMap& found, const TensorMap& wanted) {
  double largest = 0;
  for (const auto& [name, tensor] : wanted) {
    const auto at = found.find(name);
    largest = std::max(largest, at == found.end() ? HUGE_VAL : relative_l2(at->second, tensor));
  }
  return largest;
}

std::map<std::string, std::int64_t> sizes_of(const Inference& inference, const CheckSizes& sizes) {
  std::map<std::string, std::int64_t> by_letter{{"B", sizes.batch}};
  std::vector<std::string> products;
  for (const TensorSpec& spec : inference.inputs)
    for (const Axis& axis : spec.axes) {
      if (axis.letter.find('*') != std::string::npos) products.push_back(axis.letter);
      else if (!axis.letter.empty())
        by_letter.emplace(axis.letter, sizes.steps + static_cast<std::int64_t>(by_letter.size()) - 1);
    }
  for (const std::string& product : products) {  // of two letters
    const std::size_t star = product.find('*');
    const auto size = [&](const std::string& letter) {
      return by_letter.emplace(letter, sizes.steps + static_cast<std::int64_t>(by_letter.size()) - 1).first->second;
    };
    by_letter[product] = size(product.substr(0, star)) * size(product.substr(star + 1));
  }
  return by_letter;
}

// Inputs with step counts, by the letter that bounds them.
constexpr std::pair<const char*, const char*> k_counts[] = {
    {"lengths", "T"}, {"source_lengths", "S"}, {"words", "W"}, {"sentences", "S"}};

TensorMap random_inputs(const ExportJob& job, const std::map<std::string, std::int64_t>& sizes, bool stream) {
  const Inference& inference = job.inference;
  TensorMap inputs;
  for (const TensorSpec& spec : inference.inputs) {
    const bool is_state = std::ranges::count(inference.states, spec.name) > 0;
    if (is_state && !stream) continue;
    const ParameterSpec drawn{spec.name, {DType::f32, shape_of(spec, sizes)}, Initializer::uniform(1)};
    Tensor tensor = std::move(initialize(std::span(&drawn, 1), 1).at(spec.name));
    if (spec.dtype == DType::i32) {
      std::int64_t most = n_checked_ids(job.parameters), least = 0;
      for (const auto& [name, letter] : k_counts)
        if (spec.name == name) most = sizes.at(letter), least = 1;
      Tensor ids(DType::i32, tensor.shape());
      for (std::int64_t k = 0; k < ids.elements(); ++k) {
        const double share = 0.5 * (tensor.at(k) + 1);  // [0, 1)
        ids.set(k, std::floor(static_cast<double>(least) + share * static_cast<double>(most + (least ? 0 : -1))));
      }
      tensor = std::move(ids);
    }
    inputs.emplace(spec.name, std::move(tensor));
  }
  return inputs;
}

TensorMap run_network(const ExportJob& job, const std::string& backend_name, TensorMap inputs,
                      const std::map<std::string, std::int64_t>& sizes, bool stream) {
  for (const TensorSpec& spec : job.inference.inputs)
    if (!inputs.contains(spec.name)) inputs.emplace(spec.name, Tensor(spec.dtype, shape_of(spec, sizes)));
  const auto backend = make_backend(backend_name);
  TensorMap outputs = Model(*backend, job.inference.network, job.parameters).run(inputs);
  for (const std::string& state : job.inference.states) {
    auto entry = outputs.extract(state);
    entry.key() += ".next";
    if (stream) outputs.insert(std::move(entry));
  }
  return outputs;
}

struct OnnxCase {
  TensorMap inputs, wanted;
  double tolerance = 0;
};
std::vector<OnnxCase> cases_of(const ExportArguments& o, const ExportJob& job) {
  std::vector<OnnxCase> cases;
  const std::int64_t factor = onnx::shortest_steps(job.inference);
  for (const CheckSizes& each : k_sizes) {
    const auto sizes = sizes_of(job.inference, {each.batch, each.steps * factor});
    OnnxCase c{.inputs = random_inputs(job, sizes, o.stream), .wanted = {}};
    c.wanted = run_network(job, "reference", c.inputs, sizes, o.stream);
    const double amplified = largest_difference(run_network(job, "cpu", c.inputs, sizes, o.stream), c.wanted);
    c.tolerance = rounding_tolerance(amplified);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<TensorMap> by_importer(const std::string& file, const std::vector<OnnxCase>& cases) {
  const onnx::Model model = onnx::load_model_file(file);
  const auto backend = make_backend("cpu");
  std::vector<TensorMap> outputs;
  for (const OnnxCase& c : cases)
    outputs.push_back(evaluate(*onnx::import_graph(model, c.inputs).graph, *backend, c.inputs));
  return outputs;
}

// Returns an empty result if the script fails, which prints the reason. Sets `version` to that of ONNX Runtime.
std::vector<TensorMap> by_onnxruntime(const std::string& python, const std::string& file,
                                      const std::vector<OnnxCase>& cases, std::string& version) {
  const ScratchFolder folder("export");
  std::string command = fmt::format("{} {} {}", shell_word(python),
                                    shell_word((folder_of_scripts("export") / "run_onnx_model.py").string()),
                                    shell_word(file));
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const std::string in = folder / fmt::format("in-{}", k), out = folder / fmt::format("out-{}", k);
    save_safetensors(in, {.tensors = cases[k].inputs, .metadata = {}});
    command += fmt::format(" {} {}", shell_word(in), shell_word(out));
  }
  version = output_of(command);
  while (!version.empty() && version.back() == '\n') version.pop_back();
  std::vector<TensorMap> outputs;
  for (std::size_t k = 0; k < cases.size() && !version.empty(); ++k)
    outputs.push_back(load_safetensors(folder / fmt::format("out-{}", k)).tensors);
  return outputs;
}

}  // namespace

std::string check_onnx(const ExportArguments& o, const ExportJob& job, const std::string& file, Report& report) {
  const std::vector<OnnxCase> cases = cases_of(o, job);
  std::string differs;
  ReportList rows;
  const auto compare = [&](const std::string& who, const std::vector<TensorMap>& outputs) {
    for (std::size_t k = 0; k < cases.size(); ++k) {
      const double found = k < outputs.size() ? largest_difference(outputs[k], cases[k].wanted) : HUGE_VAL;
      std::vector<std::string> sizes;
      for (const auto& [name, tensor] : cases[k].inputs) sizes.push_back(name + " " + tensor.type().text());
      const bool agrees = std::isfinite(found) && found <= cases[k].tolerance;
      rows.push_back(std::move(Report().add("by", who).add("inputs", fmt::format("{}", fmt::join(sizes, ", ")))
                                   .add("relative_l2_difference", found).add("tolerance", cases[k].tolerance)
                                   .add("agrees", agrees)));
      if (!agrees && differs.empty())
        differs = fmt::format("{} computes something else: relative difference {:.2g}, tolerance {:.2g}", who, found,
                              cases[k].tolerance);
    }
  };
  compare("unroll", by_importer(file, cases));
  if (can_import(o.python, "onnxruntime, numpy")) {
    std::string version;
    const std::vector<TensorMap> outputs = by_onnxruntime(o.python, file, cases, version);
    compare("ONNX Runtime " + version, outputs);
  } else {
    report.add("onnxruntime", fmt::format("not checked: {} cannot import onnxruntime and numpy", o.python));
  }
  report.add("check", rows);
  return differs;
}

}  // namespace unroll::cli
