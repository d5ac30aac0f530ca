// SPDX-License-Identifier: Apache-2.0
// `unroll export`: exports a trained model for other programs. Each format is a row.
#include <fmt/format.h>

#include "frontends/cli/commands.h"
#include "frontends/cli/export/export_model.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

std::string export_safetensors(const ExportArguments& o, Report& report) {
  if (o.check || o.stream)
    throw Error(ErrorKind::usage, "export", "--check and --stream do not apply to --format safetensors");
  const RunFolder run = open_run(o);
  save_safetensors(o.out, run.model);
  report.add("out", o.out).add("parameters", run.model.tensors.size());
  return "";
}

struct FormatRow {
  const char* name;
  std::string (*write)(const ExportArguments& options, Report& report);  // returns the differences that --check found
};
constexpr FormatRow k_formats[] = {{"onnx", export_onnx}, {"cpp", export_cxx}, {"safetensors", export_safetensors}};

void refuse_options_of_formats(const ExportArguments& o) {
  const ExportArguments plain;
  if (o.external_data && o.format == "safetensors")
    throw Error(ErrorKind::usage, "export", "--external-data does not apply to --format safetensors",
                "It is an option of --format onnx and cpp");
  const std::pair<const char*, bool> given[] = {{"--name", o.name != plain.name},
                                                {"--lanes", o.lanes != plain.lanes},
                                                {"--weights-dtype", o.weights_dtype != plain.weights_dtype}};
  for (const auto& [name, is_given] : given)
    if (is_given && o.format != "cpp")
      throw Error(ErrorKind::usage, "export", fmt::format("{} does not apply to --format {}", name, o.format),
                  "It is an option of --format cpp");
}

void add_options(CLI::App& app, ExportArguments& o) {
  add_operand(app, "run", o.config, "Run folder, or a config: with --weights, or with parameters drawn from its seed.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
  add_seed(app, o);
  add_flag(app, "--stream", o.stream, "Make the states inputs and outputs, to run a sequence in parts.");
  group(app, "Model in ONNX or C++");
  add_flag(app, "--external-data", o.external_data,
           "Write the weights to a second file beside the model. ONNX models above 2 GiB need it.");
  group(app, "Model in C++");
  add_text(app, "--name", o.name, "NAME", "Name of the class.");
  add_integer(app, "--lanes", o.lanes, "Independent sequences that step together (B).", {1, 1e6, 4});
  add_choice(app, "--weights-dtype", o.weights_dtype, "Type in which the weights are kept.", {"f32", "bf16", "int8"});
  group(app, "Output");
  std::vector<std::string> names;
  for (const FormatRow& format : k_formats) names.push_back(format.name);
  add_choice(app, "--format", o.format, "File format.", names);
  make_required(add_text(app, "--out", o.out, "FILE", "Write the model to this file."));
  add_flag(app, "--check", o.check, "Run the file and compare the outputs; a C++ header is compiled.");
  add_text(app, "--python", o.python, "COMMAND", "Python interpreter whose ONNX Runtime --check uses too.");
  add_json(app, o.json);
  add_examples(app,
               "  unroll export runs/char-lm --out char-lm.onnx --check\n"
               "  unroll export runs/co2 --stream --out co2.onnx\n"
               "  unroll export lstm.toml --weights w.safetensors --out lstm.onnx\n"
               "  unroll export runs/co2 --format cpp --name Co2 --out co2.h --check\n"
               "  unroll export runs/co2 --format cpp --external-data --out co2.h");
}

int execute(const ExportArguments& o) {
  refuse_options_of_formats(o);
  Activity busy("exporting the model");
  Report report;
  report.add("model", o.config).add("format", o.format);
  std::string differs;
  for (const FormatRow& format : k_formats)
    if (o.format == format.name) differs = format.write(o, report);
  busy.finish();
  report.print(o.json);
  if (!differs.empty()) throw Error(ErrorKind::differ, o.out, differs);
  return 0;
}

}  // namespace

const Command export_command = command<ExportArguments>(
    k_deploy, "export", "Write a trained model as an ONNX, C++ or safetensors file.", add_options, execute);

}  // namespace unroll::cli
