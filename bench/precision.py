#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products and recurrent layers in f32 and in bf16, ours and PyTorch's in turns, with peak memory of ours.

usage: ENV/bin/python bench/precision.py --unroll build/frontends/cli/unroll [--rounds 5] [--seconds 0.5] [--only TEXT]
       [--backend cpu]
Columns: least and median milliseconds of all rounds; PyTorch's time by ours (above 1 we are faster); our f32 by our
bf16. Values are not compared here: the conformance tests verify every backend in every precision."""
import argparse
import json
import statistics
import subprocess
import time

import torch

THREADS = 2
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SHAPES = [("lstm", 128, 256, 32, 100), ("lstm", 256, 512, 64, 60), ("lnlstm", 128, 256, 32, 100),
          ("gru", 200, 384, 16, 80)]  # cell, I, H, B, T


class LayerNormLstm(torch.nn.Module):
    """The cell `lnlstm` of unroll as a loop of PyTorch operations."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.w, self.u = torch.nn.Linear(inputs, 4 * hidden), torch.nn.Linear(hidden, 4 * hidden, bias=False)
        self.norm_x, self.norm_h = torch.nn.LayerNorm(4 * hidden), torch.nn.LayerNorm(4 * hidden)
        self.norm_c, self.hidden = torch.nn.LayerNorm(hidden), hidden

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], self.hidden)
        outputs = []
        for from_x in self.norm_x(self.w(x)):
            i, f, g, o = (from_x + self.norm_h(self.u(h))).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
            outputs.append(h)
        return torch.stack(outputs), None


def least(run, seconds):
    run()
    run()
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def torch_run(mode, dtype, shape):
    """What PyTorch does once."""
    if mode == "gemm":
        a, b = torch.randn(1024, 1024, dtype=dtype), torch.randn(1024, 1024, dtype=dtype)
        return lambda: a @ b
    cell, inputs, hidden, batch, steps = shape
    kinds = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "lnlstm": LayerNormLstm}
    model = kinds[cell](inputs, hidden).to(dtype)
    x = torch.randn(steps, batch, inputs, dtype=dtype)

    def infer():
        with torch.no_grad():
            model(x)

    def train():
        model.zero_grad(set_to_none=True)
        model(x)[0].square().mean().backward()

    return train if mode == "train" else infer


def ours(options, mode, precision, shape):
    command = [options.unroll, "bench", "--mode", mode, "--precision", precision, "--threads", str(THREADS), "--json",
               "--seconds", str(options.seconds), "--backend", options.backend]
    if mode != "gemm":
        names = ("--cell", "--input", "--hidden", "--batch", "--steps")
        command += [str(word) for pair in zip(names, shape) for word in pair]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(options, mode, shape):
    runs = {precision: torch_run(mode, dtype, shape) for precision, dtype in DTYPES.items()}
    times = {(side, precision): [] for side in ("ours", "torch") for precision in DTYPES}
    peak = {}
    for _ in range(options.rounds):
        for precision in DTYPES:
            own = ours(options, mode, precision, shape)
            times["ours", precision].append(own["min_ms"])
            peak[precision] = own["peak_bytes"]
            times["torch", precision].append(least(runs[precision], options.seconds))
    return times, peak


def row(name, mode, times, peak):
    def text(side, precision):
        values = times[side, precision]
        return f"{min(values):.2f} / {statistics.median(values):.2f}"

    def ratio(above, below):
        return (f"{min(times[above]) / min(times[below]):.2f} / "
                f"{statistics.median(times[above]) / statistics.median(times[below]):.2f}")

    cells = [name, mode, text("ours", "f32"), text("ours", "bf16"), text("torch", "f32"), text("torch", "bf16"),
             ratio(("torch", "bf16"), ("ours", "bf16")), ratio(("ours", "f32"), ("ours", "bf16")),
             f"{peak['bf16'] / peak['f32']:.2f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--only", default="")
    parser.add_argument("--backend", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    print(f"{options.backend}, PyTorch {torch.__version__}, {THREADS} threads; "
          f"least / median of {options.rounds} rounds, ms\n")
    print("| workload | mode | ours f32 | ours bf16 | torch f32 | torch bf16 | torch bf16 / ours bf16 | "
          "ours f32 / bf16 | peak bf16 / f32 |\n" + "|---" * 9 + "|")
    work = [("gemm 1024", "gemm", None)]
    work += [(f"{c} I{i} H{h} B{b} T{t}", mode, (c, i, h, b, t))
             for c, i, h, b, t in SHAPES for mode in ("infer", "train")]
    for name, mode, shape in work:
        if options.only in f"{name} {mode}":
            print(row(name, mode, *measure(options, mode, shape)), flush=True)


if __name__ == "__main__":
    main()
