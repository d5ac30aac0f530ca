// SPDX-License-Identifier: Apache-2.0
// `unroll run`: one forward (and backward) pass of a recurrent stack on tensors from files, for comparisons with other
// programs. Every tensor of the files is named, checked and used.
#include <fmt/format.h>

#include "core/ir/input_range.h"
#include "core/support/files/paths.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/import/run_tensors.h"
#include "frontends/config/run/job.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {
namespace {

void add_options(CLI::App& app, TensorArguments& o) {
  add_operand(app, "config", o.config, "Run folder, config file with a [model] section, or ONNX model FILE.onnx.");
  group(app, "Model");
  add_text(app, "--weights", o.weights, "FILE",
           "Safetensors file with the parameters of a config, under PyTorch's names.");
  add_set(app, o);
  group(app, "Data");
  make_required(add_text(app, "--input", o.input, "FILE",
           "Safetensors file with x [T,B,I], optional h0, c0 and lengths; with --grad also d_y. For a run or an ONNX "
           "model: its inputs by name."));
  group(app, "Output");
  make_required(add_text(app, "--output", o.output, "FILE",
                         "Write y, hn and cn, or the outputs of a run or an ONNX model, to this safetensors file; with "
                         "--grad also d_*."));
  add_flag(app, "--grad", o.grad, "Compute the gradients of <y,d_y> + <hn,d_hn> + <cn,d_cn> too.");
  add_output(app, o);
  add_config_device(app, o);
  add_examples(app,
               "  unroll run lstm.toml --weights w.safetensors --input x.safetensors \\\n"
               "      --output y.safetensors --grad\n"
               "  unroll run runs/co2 --input x.safetensors --output y.safetensors\n"
               "  unroll run model.onnx --input x.safetensors --output y.safetensors");
}

std::string expected_text(const std::map<std::string, Type>& expected) {
  std::vector<std::string> lines;
  for (const auto& [name, type] : expected) lines.push_back(fmt::format("{} {}", name, type.text()));
  return fmt::format("Expected: {}", fmt::join(lines, ", "));
}

void require_tensor(const std::string& file, const TensorMap& tensors, const std::string& name, const Type& wanted,
                    const std::map<std::string, Type>& expected) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw Error(ErrorKind::input_file, file, fmt::format("tensor {} is missing", name), expected_text(expected));
  }
  if (found->second.type() != wanted) {
    throw Error(ErrorKind::input_file, file,
                fmt::format("tensor {} is {}; it must be {}", name, found->second.type().text(), wanted.text()),
                expected_text(expected));
  }
}

void refuse_unknown(const std::string& file, const TensorMap& tensors, const std::map<std::string, Type>& expected) {
  for (const auto& [name, tensor] : tensors) {
    if (!expected.contains(name)) {
      throw Error(ErrorKind::input_file, file, fmt::format("tensor {} {} is not used", name, tensor.type().text()),
                  expected_text(expected));
    }
  }
}

// x determines the sizes: [T,B,I] of f32 or f64.
RecurrentSizes sizes_from(const std::string& file, const TensorMap& input, const Config& config) {
  const std::int64_t width = config.integer("model.input");
  const auto found = input.find("x");
  if (found == input.end()) {
    throw Error(ErrorKind::input_file, file, "tensor x is missing", fmt::format("Give x of f32[T,B,{}]", width));
  }
  const Type& type = found->second.type();
  if (type.shape.rank() != 3 || !is_float(type.dtype) || type.shape[2] != width) {
    throw Error(ErrorKind::input_file, file, fmt::format("tensor x is {}; it must be f32[T,B,{}]", type.text(), width),
                "Its last dimension is model.input");
  }
  return {.steps = type.shape[0],
          .batch = type.shape[1],
          .input = width,
          .dtype = type.dtype,
          .lengths = input.contains("lengths")};
}

struct Pass {
  RecurrentJob job;
  std::map<std::string, Type> weights;  // required tensors of the files
  std::map<std::string, Type> required;
  std::map<std::string, Type> optional;  // zeros when absent
};

Pass build_pass(const Config& config, const RecurrentSizes& sizes, bool grad) {
  Pass pass{build_recurrent(model_options(config), sizes), {}, {}, {}};
  RecurrentJob& job = pass.job;
  Graph& graph = *job.graph;
  for (const ParameterSpec& parameter : job.parameters) pass.weights.emplace(parameter.name, parameter.type);
  pass.required.emplace("x", job.x.type());
  if (sizes.lengths) pass.required.emplace("lengths", Type{DType::i32, {sizes.batch}});
  std::vector<Value> outputs{job.y}, cotangents, wrt{job.x};
  std::vector<std::string> wrt_names{"x"};
  graph.output("y", job.y);
  for (std::size_t i = 0; i < job.final.size(); ++i) {
    graph.output(job.state_names[i] + "n", job.final[i]);
    pass.optional.emplace(job.state_names[i] + "0", job.initial[i].type());
    outputs.push_back(job.final[i]);
    wrt.push_back(job.initial[i]);
    wrt_names.push_back(job.state_names[i] + "0");
  }
  if (!grad) return pass;
  pass.required.emplace("d_y", job.y.type());
  cotangents.push_back(graph.input("d_y", job.y.type()));
  for (std::size_t i = 0; i < job.final.size(); ++i) {
    const std::string name = "d_" + job.state_names[i] + "n";
    pass.optional.emplace(name, job.final[i].type());
    cotangents.push_back(graph.input(name, job.final[i].type()));
  }
  for (const ParameterSpec& parameter : job.parameters) {
    wrt.push_back(graph.find_input(parameter.name));
    wrt_names.push_back(parameter.name);
  }
  const std::vector<Value> gradients = differentiate(outputs, cotangents, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) graph.output("d_" + wrt_names[i], gradients[i]);
  return pass;
}

// Drops the gradients of a file made for --grad, and prints that, so that the file also works without --grad.
void drop_gradients(TensorMap& input) {
  for (auto at = input.begin(); at != input.end();) {
    if (at->first.starts_with("d_")) {
      print_line(fmt::format("unroll: {} is ignored without --grad", at->first));
      at = input.erase(at);
    } else {
      ++at;
    }
  }
}

TensorMap gather_inputs(const TensorArguments& options, const Pass& pass, TensorMap input, TensorMap weights) {
  std::map<std::string, Type> expected = pass.required;
  for (const auto& [name, type] : pass.required) require_tensor(options.input, input, name, type, expected);
  expected.insert(pass.optional.begin(), pass.optional.end());
  refuse_unknown(options.input, input, expected);
  for (const auto& [name, type] : pass.optional) {
    if (!input.contains(name)) input.emplace(name, Tensor(type));
    require_tensor(options.input, input, name, type, expected);
  }
  for (const auto& [name, type] : pass.weights) require_tensor(options.weights, weights, name, type, pass.weights);
  refuse_unknown(options.weights, weights, pass.weights);
  input.merge(weights);
  return input;
}

// Refuses options of a config that do not apply to a complete model.
void refuse_options_of_config(const TensorArguments& options, const char* what) {
  const std::pair<const char*, bool> refused[] = {
      {"--weights", !options.weights.empty()}, {"--set", !options.settings.empty()}, {"--grad", options.grad}};
  for (const auto& [name, is_given] : refused) {
    if (!is_given) continue;
    throw Error(ErrorKind::usage, "run", fmt::format("{} does not apply to {}", name, what),
                "It has its own parameters, and runs forward only");
  }
}

int execute(const TensorArguments& options) {
  if (options.config.ends_with(".onnx")) {
    refuse_options_of_config(options, "an ONNX model");
    return run_onnx(options);
  }
  if (is_folder(options.config)) {
    refuse_options_of_config(options, "a run");
    return run_model(options);
  }
  if (kind_of_path(options.config) == PathKind::none)
    throw Error(ErrorKind::input_file, options.config, "there is no such file or folder",
                "Name a run folder, a config (.toml) or an ONNX model (.onnx)");
  if (options.weights.empty())
    throw Error(ErrorKind::usage, "run", "--weights is missing", "`unroll run --help` describes --weights");
  Activity busy("running the model");
  const Config config = load_config(options, options.config);
  TensorMap input = load_safetensors(options.input).tensors;
  if (!options.grad) drop_gradients(input);
  const RecurrentSizes sizes = sizes_from(options.input, input, config);
  if (sizes.lengths) {
    const Type lengths{DType::i32, {sizes.batch}};
    require_tensor(options.input, input, "lengths", lengths, {{"lengths", lengths}});
  }
  const Pass pass = build_pass(config, sizes, options.grad);
  check_ranges(*pass.job.graph, input, ErrorKind::input_file, options.input);
  const TensorMap bound = gather_inputs(options, pass, std::move(input), load_model(options.weights).tensors);
  const ExplainedBackend backend(options.explain, open_backend(config, options.explain));
  return finish_run(options, evaluate(*pass.job.graph, *backend, bound), backend, busy);
}

}  // namespace

const Command run_command =
    command<TensorArguments>(k_deploy, "run",
            "Run one forward pass, or forward and backward, on tensors from files.",
            add_options, execute);

}  // namespace unroll::cli
