#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `unroll bench`: the same shapes, the same options, one JSON object.

Needs the Python packages torch and numpy in an environment of their own.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class LayerNormLSTM(nn.Module):
    """Ba et al. 2016 as a loop over a cell: layer norm on both products and on the cell state."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.hidden = hidden
        self.weight_ih = nn.Linear(inputs, 4 * hidden, bias=False)
        self.weight_hh = nn.Linear(hidden, 4 * hidden, bias=False)
        self.norm_ih, self.norm_hh = nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden)
        self.norm_c = nn.LayerNorm(hidden)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], self.hidden)
        c, y = h.clone(), []
        products = self.norm_ih(self.weight_ih(x))
        for t in range(x.shape[0]):
            i, f, g, o = (products[t] + self.norm_hh(self.weight_hh(h))).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
            y.append(h)
        return torch.stack(y), None


def make(o):
    if o.cell == "lnlstm":
        if o.layers != 1 or o.bidirectional:
            raise SystemExit("lnlstm: one layer, one direction")
        return LayerNormLSTM(o.input, o.hidden)
    kinds = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    return kinds[o.cell](o.input, o.hidden, num_layers=o.layers, bidirectional=o.bidirectional)


def forward_flop(o):
    """2 T B D G H (I + H) for the first layer, D H in the place of I for the others."""
    directions = 2 if o.bidirectional else 1
    widths = o.input + o.hidden + (o.layers - 1) * (directions + 1) * o.hidden
    return 2 * o.steps * o.batch * directions * GATES.get(o.cell, 4) * o.hidden * widths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cell", default="lstm", choices=[*GATES, "lnlstm"])
    parser.add_argument("--mode", default="train", choices=["infer", "train"])
    sizes = {"input": 128, "hidden": 256, "layers": 1, "batch": 32, "steps": 100, "threads": 2, "seed": 0}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bidirectional", action="store_true")
    parser.add_argument("--seconds", type=float, default=3)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    model = make(o)
    x = torch.rand(o.steps, o.batch, o.input) * 2 - 1

    def infer():
        with torch.no_grad():
            model(x)

    def train():
        model.zero_grad(set_to_none=True)
        model(x)[0].square().mean().backward()

    once = train if o.mode == "train" else infer
    once()  # not counted
    times, end = [], time.perf_counter() + o.seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1e3)
    flop = forward_flop(o) * (3 if o.mode == "train" else 1)
    print(json.dumps({**vars(o), "backend": f"torch {torch.__version__}", "repeats": len(times), "min_ms": min(times),
                      "median_ms": statistics.median(times), "gflops": flop / min(times) / 1e6}))


main()
