// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontends/cli/job.h"
#include "unroll/error.h"
#include "unroll/safetensors.h"

namespace unroll::cli {
namespace {

namespace fs = std::filesystem;

struct PeerRow {
  const char* name;
  const char* script;
  const char* packages;
  bool trains;
};
constexpr PeerRow k_peers[] = {
    {"torch", "torch_peer.py", "torch, numpy", true},
    {"onnxruntime", "onnxruntime_peer.py", "onnxruntime, onnx, numpy", false},
};

// Beside an installed command, or in the sources that a build folder lies in.
fs::path folder_of_scripts() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* way : {"../share/unroll/peers", "../../../bench/peers"})
    if (fs::exists(here / way / "protocol.py")) return (here / way).lexically_normal();
  throw Error(ErrorKind::unsupported, "compare", "the scripts that run other libraries are not installed",
              "They are bench/peers in the sources");
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// What a command wrote to stdout; empty when it failed.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  char part[4096];
  while (const std::size_t n = std::fread(part, 1, sizeof part, pipe)) text.append(part, n);
  return pclose(pipe) == 0 ? text : std::string();
}

// Removed with all it holds.
struct ScratchFolder {
  ScratchFolder() : path(fs::temp_directory_path() / fmt::format("unroll-compare-{}", getpid())) {
    fs::create_directories(path);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  fs::path path;
};

void require_known_layers(const CompareModel& model) {
  if (!model.stack)
    throw Error(ErrorKind::unsupported, "compare", "other libraries run built-in layers, not a task",
                "Give --with a config that has [model] alone");
  const RecurrentModelOptions& m = model.stack->model;
  const bool built_in = (m.cell == "rnn" || m.cell == "gru" || m.cell == "lstm") && m.cells.empty();
  if (!built_in || m.projection > 0 || m.peephole || !m.bias || !m.reset_after || m.nonlinearity != "tanh" ||
      m.stack != "plain")
    throw Error(ErrorKind::unsupported, "compare",
                "other libraries are asked for rnn, gru and lstm as they are by default; got another layer",
                "Leave out --with");
}

OutsideResults run_peer(const PeerRow& peer, const CompareModel& model, const fs::path& folder, const Options& o) {
  const RecurrentModelOptions& m = model.stack->model;
  const RecurrentSizes& s = model.stack->sizes;
  const std::string out = (folder / (std::string(peer.name) + ".safetensors")).string();
  const char* mode = o.grad && peer.trains ? "train" : "infer";
  std::string command = fmt::format(
      "{} {} --cell {} --mode {} --input {} --hidden {} --layers {} --batch {} --steps {} --threads {} --seconds 0 "
      "--check {} --save {}",
      quoted(o.python), quoted((folder_of_scripts() / peer.script).string()), m.cell, mode,
      s.input, m.hidden, m.layers, s.batch, s.steps, std::max<std::int64_t>(o.threads.value_or(1), 1),
      quoted((folder / "case.safetensors").string()), quoted(out));
  if (m.bidirectional) command += " --bidirectional";
  const auto told = nlohmann::json::parse(output_of(command), nullptr, /*allow_exceptions=*/false);
  if (!told.is_object() || !disk().exists(out))
    throw Error(ErrorKind::unsupported, "compare", fmt::format("{} failed; its messages are above", peer.name),
                "Leave it out of --with");
  return {peer.name, told.value("backend", std::string()), load_safetensors(out).tensors, told.value("min_ms", 0.0),
          told.value("median_ms", 0.0)};
}

}  // namespace

std::vector<OutsideResults> run_peers(const CompareModel& model, const TensorMap& parameters,
                                      const TrainerOptions& training, const Options& options) {
  require_known_layers(model);
  const ScratchFolder folder;
  TensorFile file;
  file.tensors = parameters;
  const RecurrentJob job = build_recurrent(model.stack->model, model.stack->sizes);
  file.tensors.merge(initialize(job.parameters, training.seed));
  file.tensors.merge(model.task->batch(Split::train, training.seed, 0, 0).inputs);
  save_safetensors((folder.path / "case.safetensors").string(), file);
  std::vector<OutsideResults> all;
  for (const PeerRow& peer : k_peers) {
    if (std::find(options.with.begin(), options.with.end(), peer.name) == options.with.end()) continue;
    const std::string imports = fmt::format("{} -c 'import {}' 2>/dev/null", quoted(options.python), peer.packages);
    if (std::system(imports.c_str()) == 0) {
      all.push_back(run_peer(peer, model, folder.path, options));
    } else {
      std::fprintf(stderr, "skipped: %s: %s cannot import %s; name another Python with --python\n", peer.name,
                   options.python.c_str(), peer.packages);
    }
  }
  return all;
}

}  // namespace unroll::cli
