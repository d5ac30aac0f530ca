// SPDX-License-Identifier: Apache-2.0
// `unroll import`: converts a model of another program to a folder for the other commands.
#include "frontends/cli/commands.h"
#include "frontends/cli/import/import_model.h"
#include "frontends/cli/options/command_options.h"
#include "frontends/cli/terminal/activity.h"

namespace unroll::cli {
namespace {

void add_options(CLI::App& app, ImportArguments& o) {
  add_operand(app, "file", o.file,
              "PyTorch checkpoint (torch.save or safetensors), arrays of NumPy (.npz), or ONNX model FILE.onnx.");
  group(app, "Model in a checkpoint");
  add_texts(app, "--layers", o.names.layers, "NAME,...",
            "Layers in their order: names of modules, and tanh, relu, sigmoid, softmax, log_softmax, last, final, mean "
            "or max. NAME=embedding or NAME=linear says what a matrix is.", "by the widths of the layers");
  add_text(app, "--prefix", o.names.prefix, "TEXT", "Read the tensors whose names begin so: model.",
           "behind state_dict., model. and such");
  add_texts(app, "--rename", o.names.renames, "FROM=TO,...",
            "Replace texts in the names of tensors, before --prefix: enc_w_=encoder.weight_", "names of the file");
  add_choice(app, "--nonlinearity", o.names.nonlinearity, "Nonlinearity of nn.RNN.", {"tanh", "relu"});
  add_flag(app, "--ignore-unused", o.names.ignore_unused, "Leave out tensors that belong to no layer.");
  add_onnx_stream(app, o);
  group(app, "Check");
  add_text(app, "--sample", o.sample, "FILE",
           "Safetensors file with an input of the model and the output that PyTorch computes from it. For an ONNX "
           "model: its inputs and outputs by name, or input and output.");
  add_flag(app, "--batch-first", o.batch_first, "The first axis of the sample is the batch, the second one time.");
  group(app, "Output");
  make_required(add_text(app, "--out", o.out, "DIR", "Folder to write; it must not exist, or be empty."));
  add_json(app, o.json);
  add_examples(app,
               "  unroll import lm.pt --out runs/lm --sample sample.safetensors\n"
               "  unroll import classifier.pt --layers rnn,last,fc1,relu,fc2 --out runs/c\n"
               "  unroll import checkpoint.pt --prefix model. --out runs/model\n"
               "  unroll import model.onnx --out runs/model");
}

int execute(const ImportArguments& o) {
  Activity busy("importing the model");
  const Report report = import_model(o);
  busy.finish();
  report.print(o.json);
  return 0;
}

}  // namespace

const Command import_command =
    command<ImportArguments>(k_deploy, "import", "Import a PyTorch checkpoint or an ONNX model.", add_options, execute);

}  // namespace unroll::cli
