// SPDX-License-Identifier: Apache-2.0
// `unroll inspect`: shows the contents of a safetensors file, run folder, config or graph text.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "core/io/safetensors_header.h"
#include "core/support/files/paths.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/run/job.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct InspectArguments : ConfigArguments {
  bool print_graph = false;
  bool print_dot = false;
  bool json = false;
};

void add_options(CLI::App& app, InspectArguments& o) {
  add_operand(app, "path", o.config, "Safetensors file, run folder, config (.toml) or graph text.");
  group(app, "Model");
  add_set(app, o);
  group(app, "Output");
  add_flag(app, "--graph", o.print_graph, "Print the graph of a config or graph text.");
  add_flag(app, "--dot", o.print_dot, "Print the graph for Graphviz.");
  add_json(app, o.json);
  add_examples(app,
               "  unroll inspect runs/char-lm\n"
               "  unroll inspect lstm.toml --dot | dot -Tsvg > lstm.svg");
}

constexpr std::size_t k_longest_metadata = 200;  // characters shown without --json

std::int64_t elements_of(const FileEntry& entry) {
  std::int64_t n = 1;
  for (const std::uint64_t size : entry.shape) n *= static_cast<std::int64_t>(size);
  return n;
}

Report row_of(const std::string& name, const FileEntry& entry, const Result<Tensor>& tensor, bool json) {
  Report row;
  row.add("name", name).add("type", entry.text());
  if (!json) {
    row.add("", !tensor ? "CANNOT BE USED" : tensor->all_finite() ? "" : "NOT FINITE");
    return row;
  }
  row.add("elements", elements_of(entry));
  if (tensor) row.add("finite", tensor->all_finite());
  else row.add("unusable", std::string(message_of(tensor.error())));
  return row;
}

// Also lists tensors that unroll cannot use.
void add_tensor_file(Report& report, const std::string& path, bool json) {
  const Bytes bytes = disk().read(path, k_max_tensor_file_bytes);
  const std::span<const std::byte> content(bytes.data(), bytes.size());
  const FileHeader file = parse_safetensors_header(content, path);
  ReportList rows;
  std::int64_t elements = 0;
  for (const auto& [name, entry] : file.entries) {
    const Result<Tensor> tensor = attempt([&, &key = name] { return read_entry(content, file, key, path); });
    if (!tensor && tensor.error().kind() != ErrorKind::input_file) throw_error(tensor.error());
    rows.push_back(row_of(name, entry, tensor, json));
    elements += elements_of(entry);
  }
  Report metadata;
  for (const auto& [key, value] : file.metadata) {
    const bool cut = !json && value.size() > k_longest_metadata;
    metadata.add(key, cut ? fmt::format("({} bytes)", value.size()) : value);
  }
  report.add("elements", elements).add("tensors", rows).add("metadata", metadata);
}

Report inspect_graph(const Graph& graph) {
  Report report;
  std::map<std::string, std::int64_t> counts;
  for (const Node& node : graph.nodes()) ++counts[std::string(op_info(node.op).name)];
  Report inputs, outputs, ops;
  for (const NamedValue& v : graph.inputs()) inputs.add(v.name, graph.type(v.value).text());
  for (const NamedValue& v : graph.outputs()) outputs.add(v.name, graph.type(v.value).text());
  for (const auto& [op, n] : counts) ops.add(op, n);
  report.add("nodes", graph.nodes().size());
  report.add("inputs", inputs).add("outputs", outputs).add("ops", ops);
  return report;
}

// Returns the recurrent stack of [model] at the config's batch and steps.
std::shared_ptr<Graph> graph_of_config(const Config& config) {
  RecurrentJob job = build_recurrent(model_options(config), recurrent_sizes(config));
  job.graph->output("y", job.y);
  for (std::size_t i = 0; i < job.final.size(); ++i) job.graph->output(job.state_names[i] + "n", job.final[i]);
  return job.graph;
}

int print_graph_of(const InspectArguments& options, const Graph& graph) {
  if (options.print_dot)
    std::fputs(graph_to_dot(graph).c_str(), stdout);
  else if (options.print_graph)
    std::fputs(print_graph(graph).c_str(), stdout);
  else
    inspect_graph(graph).print(options.json);
  return 0;
}

int inspect_folder(const InspectArguments& options) {
  Report report;
  report.add("folder", options.config);
  bool any = false;
  for (const char* name : {"config.toml", "metrics.jsonl", "best.safetensors", "last.safetensors", "log.txt"}) {
    const std::optional<std::size_t> bytes = size_of_file(options.config + "/" + name);
    if (!bytes) continue;
    any = true;
    report.add(name, options.json ? ReportItem(static_cast<std::int64_t>(*bytes)) : ReportItem(bytes_text(*bytes)));
  }
  if (!any) {
    throw Error(ErrorKind::input_file, options.config,
                "not a run folder: no config.toml, metrics.jsonl or checkpoint in it",
                "Name a folder that `unroll train --out` wrote");
  }
  const std::string best = options.config + "/best.safetensors";
  if (disk().exists(best)) {
    Report model;
    add_tensor_file(model, best, options.json);
    for (const auto& [name, item] : model.items()) report.add(name, item);
  }
  report.print(options.json);
  return 0;
}

int execute(const InspectArguments& options) {
  const std::filesystem::path path(options.config);
  if (is_folder(options.config)) return inspect_folder(options);
  if (path.extension() == ".toml")
    return print_graph_of(options, *graph_of_config(load_config(options, options.config)));
  if (path.extension() == ".safetensors") {
    Report report;
    report.add("file", options.config);
    add_tensor_file(report, options.config, options.json);
    report.print(options.json);
    return 0;
  }
  return print_graph_of(options, *parse_graph(read_graph_text(options.config)));
}

}  // namespace

const Command inspect_command =
    command<InspectArguments>(k_understand, "inspect",
            "Show the contents of a model file, run folder, config or graph.",
            add_options, execute);

}  // namespace unroll::cli
