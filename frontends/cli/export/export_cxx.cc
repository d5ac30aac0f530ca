// SPDX-License-Identifier: Apache-2.0
// `unroll export --format cpp`: exports a model that runs step by step as one C++17 header. --check compares it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <sstream>

#include "core/support/files/paths.h"
#include "core/support/fnv.h"
#include "frontends/cli/bench/scripts.h"
#include "frontends/cli/bench/stream_job.h"
#include "frontends/cli/export/export_model.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/text_file.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"
#include "unroll/tasks/tasks.h"

namespace unroll::cli {
namespace {

constexpr int k_steps = 20;
// Tolerance of the relative L2 difference, by the format of the weights, which both programs round alike. Both compute
// in f32, with functions within 4 ulp: 4e-6 is about a hundred roundings of 2^-24. On processors with VNNI the stream
// rounds the activations of int8 matmuls by 1.5e-5 of the largest one (backends/cpu/gemm/weights.h). The largest is up
// to 6 times the root mean square, and a few steps of a recurrence accumulate: 30 times that. Wrong int8 weights differ
// by 4e-3.
constexpr double tolerance(WeightFormat weights) { return weights == WeightFormat::int8 ? 5e-4 : 4e-6; }
// The first float, or id, of call i: integers, so that both programs read the same.
constexpr const char* k_program = R"(#include "model.h"
#include <cstdio>
#include <vector>
int main(int, char** words) {{
  static {0} model;
  {4}
  std::vector<{1}> x({0}::lanes * {0}::inputs);
  std::vector<float> y({0}::lanes * {0}::outputs);
  for (std::size_t t = 0, n = 0; t < {2}; ++t) {{
    for (auto& v : x) v = {1}({3});
    model.step(x.data(), y.data());
    for (float v : y) std::printf("%a\n", double(v));
  }}
}}
)";
constexpr const char* k_load = R"(static {0}::Weights weights;
  if (const char* wrong = model.load_file(words[1], weights)) return std::fprintf(stderr, "%s\n", wrong), 1;)";

TensorMap drawn_parameters(const StreamModel& model, std::uint64_t seed) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::vector<Value> states;
  for (const Shape& shape : model.state_shapes(1)) states.push_back(filled(graph, {DType::f32, shape}, 0));
  const bool ids = model.input == DType::i32;
  model.build(scope, graph.input("x", {model.input, ids ? Shape{1, 1} : Shape{1, 1, model.inputs}}), states);
  return initialize(scope.parameters(), seed);
}

struct CxxJob {
  StreamModel model;
  TensorMap parameters;
};
CxxJob cxx_job(const ExportArguments& o) {
  const bool is_trained = is_folder(o.config) || !o.weights.empty();
  RunFolder run = is_trained ? open_run(o) : RunFolder{load_config(o, o.config), {}, folder_of(o.config)};
  CxxJob job;
  if (run.config.text("task.kind").empty() && !run.model.metadata.contains("task"))
    job.model = recurrent_stream(model_options(run.config), run.config.integer("model.input"));
  else
    job.model = task_stream(is_trained ? run.model.metadata : make_task(run.config, run.folder)->metadata());
  job.parameters = is_trained ? std::move(run.model.tensors)
                              : drawn_parameters(job.model, trainer_options(run.config).seed);
  return job;
}

// Returns the outputs of the stream on `cpu` for the inputs of the program.
std::vector<float> wanted_outputs(const CxxJob& job, const StreamOptions& options) {
  const auto backend = make_backend("cpu", {.threads = 1});
  Stream stream(*backend, job.model, job.parameters, options);
  const std::size_t n = stream.lanes() * stream.inputs() * stream.block();
  std::vector<float> x(n), y(stream.lanes() * stream.outputs() * stream.rows()), all;
  std::vector<std::int32_t> ids(n);
  const std::size_t n_ids = n_checked_ids(job.parameters);
  for (std::size_t t = 0, i = 0; t < k_steps; ++t) {
    for (std::size_t k = 0; k < n; ++k, ++i) {
      ids[k] = static_cast<std::int32_t>(i % n_ids);
      x[k] = static_cast<float>((i * 37 + 11) % 101) / 50.0f - 1.0f;
    }
    if (!(job.model.input == DType::i32 ? stream.step(ids, y) : stream.step(x, y)))
      throw Error(ErrorKind::device, "export", "a step of the stream failed");
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

// Compiler options for the header: the usual ones, and reordered sums (fast math), as audio programs use.
struct Build {
  const char *flags, *key;
};
constexpr Build k_builds[] = {{" -O2", "relative_l2_difference"}, {" -O2 -ffast-math", "fast_math_difference"}};

// Returns the output of the program in the folder, compiled by a command. `weights`: a path, or empty.
std::vector<float> outputs_of_build(const std::string& command, const ScratchFolder& folder,
                                    const std::string& weights) {
  const std::string program = shell_word(folder / "program");
  const std::string compile = fmt::format("{} -std=c++17 -o {} {}", command, program, shell_word(folder / "main.cc"));
  if (output_of(compile + " 2>&1 && echo compiled").empty())
    throw Error(ErrorKind::unsupported, "export", fmt::format("--check needs a C++ compiler, and '{}' failed", command),
                "Install one, or name it: CXX=clang++ unroll export ...");
  std::istringstream lines(output_of(program + " " + shell_word(weights)));
  std::vector<float> found;
  for (std::string line; std::getline(lines, line);) found.push_back(std::strtof(line.c_str(), nullptr));
  return found;
}

std::string check_cxx(const ExportArguments& o, const CxxJob& job, const StreamOptions& options,
                      const std::string& weights, Report& report) {
  const char* named = std::getenv("CXX");
  const std::string compiler = named ? named : "c++";
  const ScratchFolder folder("export");
  const bool ids = job.model.input == DType::i32;
  const std::string main = fmt::format(k_program, o.name, ids ? "std::int32_t" : "float", k_steps,
                                       ids ? fmt::format("n++ % {}", n_checked_ids(job.parameters))
                                           : "float((n++ * 37 + 11) % 101) / 50.0f - 1.0f",
                                       weights.empty() ? "(void)words;" : fmt::format(k_load, o.name));
  write_text_file(folder / "main.cc", main);
  write_text_file(folder / "model.h", read_text_file(o.out, std::size_t{1} << 34));
  const std::vector<float> wanted = wanted_outputs(job, options);
  const double most = tolerance(options.weights);
  Report check;
  check.add("compiler", compiler).add("steps", k_steps).add("tolerance", most);
  bool agrees = true;
  for (const auto& [flags, key] : k_builds) {
    const std::vector<float> found = outputs_of_build(compiler + flags, folder, weights);
    Difference difference;
    if (found.size() == wanted.size()) difference.add(found, wanted);
    agrees = agrees && found.size() == wanted.size() && difference.relative() <= most;
    check.add(key, difference.relative());
  }
  report.add("check", check.add("agrees", agrees));
  return agrees ? "" : "the compiled header gives other outputs than the stream";
}

}  // namespace

std::int64_t n_checked_ids(const TensorMap& parameters) {
  std::int64_t n = 16;
  for (const auto& [name, tensor] : parameters)
    if (tensor.shape().rank() == 2) n = std::min(n, tensor.shape()[0]);
  return n;
}

std::string export_cxx(const ExportArguments& o, Report& report) {
  if (o.stream)
    throw Error(ErrorKind::usage, "export", "--stream does not apply to --format cpp",
                "A C++ header keeps its states between steps in any case");
  const StreamOptions options{.lanes = o.lanes, .weights = weight_format_from_name(o.weights_dtype)};
  const CxxJob job = cxx_job(o);
  const CxxSource source = stream_source(
      job.model, job.parameters,
      {o.lanes, options.weights, o.name, "A recurrent model written by unroll " UNROLL_VERSION, o.external_data});
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  DataFile data;
  if (o.external_data) data = {data_file_name(o.out, fnv(source.weights)), {bytes(source.weights)}};
  write_with_data(disk(), o.out, std::array{bytes(source.header)}, data);
  report.add("out", o.out).add("bytes", source.header.size()).add("class", o.name);
  std::string weights_file;
  if (o.external_data) {
    weights_file = (std::filesystem::path(o.out).parent_path() / data.name).string();
    report.add("weights_file", weights_file).add("weights_bytes", source.weights.size());
  }
  report.add("weights_dtype", o.weights_dtype).add("lanes", o.lanes);
  return o.check ? check_cxx(o, job, options, weights_file, report) : "";
}

}  // namespace unroll::cli
