// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/bench/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontends/cli/bench/scripts.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/run/job.h"
#include "frontends/config/text_file.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

namespace fs = std::filesystem;

struct PeerRow {
  const char* name;
  const char* script;
  const char* imports;
  const char* packages;  // for pip
  bool trains;
  bool variants;    // supports layers without bias, with relu or a projection
  bool text_cells;  // runs the equations of a text cell
};
constexpr PeerRow k_peers[] = {
    {"torch", "torch_peer.py", "torch, numpy", "torch numpy", true, true, true},
    {"onnxruntime", "onnxruntime_peer.py", "onnxruntime, onnx, numpy", "onnxruntime onnx numpy", false, false, false},
};

const TextCell* text_cell_of(const RecurrentModelOptions& m) {
  const auto at = std::find_if(m.cells.begin(), m.cells.end(), [&](const TextCell& c) { return c.name == m.cell; });
  return at == m.cells.end() ? nullptr : &*at;
}

// Returns the options that describe the cell to a script; a text cell is written to `folder`. Throws for layers that
// the library lacks.
std::string cell_options(const PeerRow& peer, const RecurrentModelOptions& m, const fs::path& folder) {
  const auto refuse = [&](const std::string& what) {
    return Error(ErrorKind::unsupported, "compare", fmt::format("{} has no layer with {}", peer.name, what),
                 fmt::format("Compare without --with {}", peer.name));
  };
  if (m.skip != SkipConnection::none) throw refuse(fmt::format("model.stack = \"{}\"", word_of(m.skip)));
  if (m.peephole) throw refuse("model.peephole = true");
  if (!m.front.empty() && !peer.text_cells) throw refuse("model.front");
  if (m.cell == "gru" && !m.reset_after) throw refuse("model.reset_after = false");
  if (!peer.variants && (!m.bias || m.projection > 0 || m.nonlinearity != Nonlinearity::tanh))
    throw refuse("model.bias = false, model.projection or model.nonlinearity");
  if (m.cell == "rnn" || m.cell == "gru" || m.cell == "lstm") return "--cell " + m.cell;
  const TextCell* text = text_cell_of(m);
  if (text && peer.text_cells) {
    const std::string path = (folder / "cell.json").string();
    write_text_file(path, nlohmann::json{{"states", text->states}, {"step", text->step}, {"y", text->y}}.dump());
    return "--text-cell " + shell_word(path);
  }
  if (m.cell == "lnlstm" && !text && peer.variants && m.layers == 1 && !m.bidirectional) return "--cell lnlstm";
  throw refuse(fmt::format("model.cell = \"{}\"; known are rnn, gru and lstm, and torch runs text cells and one layer "
                           "of lnlstm",
                           m.cell));
}

OutsideResults run_peer(const PeerRow& peer, const CompareModel& model, const fs::path& scripts,
                        const fs::path& folder, const PeerArguments& o) {
  const RecurrentModelOptions& m = model.stack->model;
  const RecurrentSizes& s = model.stack->sizes;
  const std::string out = (folder / (std::string(peer.name) + ".safetensors")).string();
  const char* mode = o.grad && peer.trains ? "train" : "infer";
  std::string command = fmt::format(
      "{} {} {} --mode {} --input {} --hidden {} --layers {} --batch {} --steps {} --threads {} --seconds 0 "
      "--check {} --save {}",
      shell_word(o.python), shell_word((scripts / peer.script).string()),
      cell_options(peer, m, folder),
      mode, s.input, m.hidden, m.layers, s.batch, s.steps, std::max<std::int64_t>(o.threads.value_or(1), 1),
      shell_word((folder / "case.safetensors").string()), shell_word(out));
  if (!m.front.empty()) command += " --front " + shell_word(nlohmann::json(m.front).dump());
  if (m.bidirectional) command += " --bidirectional";
  if (!m.bias && peer.variants) command += " --no-bias";
  if (m.projection > 0) command += fmt::format(" --projection {}", m.projection);
  if (m.cell == "rnn" && m.nonlinearity != Nonlinearity::tanh) command += " --nonlinearity " + word_of(m.nonlinearity);
  const auto told = nlohmann::json::parse(output_of(command), nullptr, /*allow_exceptions=*/false);
  if (!told.is_object() || !disk().exists(out))
    throw Error(ErrorKind::unsupported, "compare", fmt::format("{} failed; its messages are above", peer.name),
                fmt::format("Compare without --with {}", peer.name));
  return {peer.name, told.value("backend", std::string()), load_safetensors(out).tensors, told.value("min_ms", 0.0),
          told.value("median_ms", 0.0)};
}

// Throws if the interpreter or a package is absent.
void require_packages(const PeerRow& peer, const PeerArguments& o) {
  if (can_import(o.python, peer.imports)) return;
  throw Error(ErrorKind::unsupported, "compare",
              fmt::format("--with {}: the Python interpreter {} cannot import {}", peer.name, o.python, peer.imports),
              fmt::format("Name another interpreter with --python, or install the packages: `{} -m pip install {}`",
                          shell_word(o.python), peer.packages));
}

}  // namespace

std::vector<OutsideResults> run_peers(const CompareModel& model, const TensorMap& parameters,
                                      const TrainerOptions& training, const PeerArguments& options) {
  if (!model.stack)
    throw Error(ErrorKind::unsupported, "compare",
                "other libraries run the layers of a config, not a run folder or graph", "Name the config instead");
  const auto asked = [&](const PeerRow& peer) {
    return std::find(options.with.begin(), options.with.end(), peer.name) != options.with.end();
  };
  const fs::path scripts = folder_of_scripts("compare");  // before packages: their import takes seconds
  for (const PeerRow& peer : k_peers)
    if (asked(peer)) require_packages(peer, options);
  const ScratchFolder folder("compare");
  TensorFile file;
  file.tensors = parameters;
  const RecurrentJob job = build_recurrent(model.stack->model, model.stack->sizes);
  file.tensors.merge(initialize(job.parameters, training.seed));
  file.tensors.merge(model.task->batch(Split::train, training.seed, 0, 0).inputs);
  save_safetensors((folder.path / "case.safetensors").string(), file);
  std::vector<OutsideResults> all;
  for (const PeerRow& peer : k_peers)
    if (asked(peer)) all.push_back(run_peer(peer, model, scripts, folder.path, options));
  return all;
}

}  // namespace unroll::cli
