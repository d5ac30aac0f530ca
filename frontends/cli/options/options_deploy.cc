// SPDX-License-Identifier: Apache-2.0
// Options of the commands that run models outside training, and of those about the machine: stream, run, bench, doctor,
// completion.
#include "frontends/cli/options/command_options.h"

namespace unroll::cli {

void add_stream(CLI::App& app, Options& o) {
  add_operand(app, "run", o.config, "Run folder, or a config with --weights.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
  group(app, "Data");
  add_text(app, "--input", o.input, "FILE", "Input vectors, one time step per line.", "-, standard input");
  add_lanes(app, o);
  group(app, "Measurement");
  app.add_flag("--bench", o.bench, "Time calls with random input instead.");
  add_number(app, "--seconds", o.seconds, "Seconds that --bench measures.", {0, 3600, 3});
  add_seed(app, o);
  group(app, "Output");
  add_explain(app, o);
  add_json(app, o, "Print one JSON array per line.");
  add_device(app, o, "the config's run.backend", "1");
  app.footer("  seq 10 | unroll stream runs/co2\n"
             "  unroll stream lstm.toml --weights w.safetensors --weights-dtype int8 --bench");
}

void add_run(CLI::App& app, Options& o) {
  add_operand(app, "config", o.config, "Config file with a [model] section.");
  group(app, "Model");
  add_text(app, "--weights", o.weights, "FILE", "Safetensors file with the parameters, under PyTorch's names.", "")
      ->required();
  add_set(app, o);
  group(app, "Data");
  add_text(app, "--input", o.input, "FILE",
           "Safetensors file with x [T,B,I], optional h0, c0 and lengths; with --grad also d_y.", "")
      ->required();
  group(app, "Output");
  add_text(app, "--output", o.output, "FILE", "Write y, hn and cn to this safetensors file; with --grad also d_*.", "")
      ->required();
  app.add_flag("--grad", o.grad, "Compute the gradients of <y,d_y> + <hn,d_hn> + <cn,d_cn> too.");
  add_explain(app, o);
  add_json(app, o);
  add_config_device(app, o);
  app.footer("  unroll run lstm.toml --weights w.safetensors --input x.safetensors \\\n"
             "      --output y.safetensors --grad");
}

void add_bench(CLI::App& app, Options& o) {
  const Bounds size{1, 1000000, 32};
  group(app, "Model");
  add_text(app, "--config", o.config, "FILE", "Take [model] and [cells.NAME] from this config.");
  app.add_option("--cell", o.cell, "Cell: rnn, gru, lstm, another known cell, or one of the config.")
      ->type_name("NAME")
      ->default_str("the config's, else lstm");
  add_integer(app, "--input", o.input_width, "the config's, else 128", "Input size (I).", size);
  add_integer(app, "--hidden", o.hidden, "the config's, else 256", "Hidden size (H).", size);
  add_integer(app, "--layers", o.layers, "the config's, else 1", "Stacked layers.", {1, 64, 2});
  app.add_flag("--bidirectional", o.bidirectional, "Run both directions.");
  add_set(app, o);
  group(app, "Workload");
  add_choice(app, "--mode", o.mode,
             "infer: forward pass. train: forward and backward pass. stream: step by step. gemm: a matrix product.",
             {"infer", "train", "stream", "gemm"});
  add_integer(app, "--batch", o.batch, "the config's, else 32", "Sequences per batch (B).", size);
  add_text(app, "--precision", o.precision, "NAME",
           "Precision of infer, train and gemm: f32, tf32, bf16 or f16. gemm: a and b are stored in it.", "f32");
  add_integer(app, "--steps", o.steps, "the config's, else 100", "Time steps (T).", size);
  add_text(app, "--lengths", o.lengths, "MIN:MAX:MEAN", "Draw sequence lengths from this range with this mean.",
           "all T");
  add_lanes(app, o);
  add_text(app, "--shape", o.shape, "MxKxN", "gemm: shape of the product of a [M,K] and b [K,N].");
  app.add_flag("--transpose-a", o.transpose_a, "gemm: a is stored as [K,M].");
  app.add_flag("--transpose-b", o.transpose_b, "gemm: b is stored as [N,K].");
  app.add_flag("--constant-b", o.constant_b, "gemm: b is known at compile time, as weights are in a loop.");
  add_seed(app, o);
  group(app, "Measurement");
  add_number(app, "--seconds", o.seconds, "Seconds to repeat the run.", {0, 3600, 3});
  group(app, "Output");
  add_text(app, "--save", o.save, "FILE", "Write parameters, inputs and results to this safetensors file.");
  add_explain(app, o);
  add_json(app, o);
  add_device(app, o, "cpu", "0; 1 with --mode stream");
  add_memory_limit(app, o);
  add_integer(app, "--chunk-steps", o.chunk_steps,
              "Steps after which the next layer may begin, as run.chunk_steps; 0: off.", {.lowest = 0});
  app.footer("  unroll bench --cell lstm --hidden 256 --batch 32 --steps 100 --threads 2\n"
             "  unroll bench --config docs/examples/cells/slstm.toml --hidden 512 --json");
}

void add_doctor(CLI::App& app, Options& o) {
  group(app, "Output");
  app.add_flag("--no-self-test", o.no_self_test, "Skip the self-test and the roofline measurement.");
  add_json(app, o);
  app.footer("  unroll doctor\n"
             "  unroll doctor --no-self-test --json");
}

void add_completion(CLI::App& app, Options& o) {
  add_operand(app, "shell", o.shell, "Shell to complete in.")->check(one_of({"bash", "zsh", "fish"}));
  app.footer("  source <(unroll completion bash)\n"
             "  unroll completion fish > ~/.config/fish/completions/unroll.fish");
}

}  // namespace unroll::cli
