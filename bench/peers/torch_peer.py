#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `unroll bench`: the same shapes, the same options, one JSON object.

Needs the Python packages torch and numpy in an environment of their own. Cells beside nn.RNN, nn.GRU and nn.LSTM:
lstm_cell loops over nn.LSTMCell, lstm_ops over plain operations, lnlstm over plain operations and nn.functional's norm.
--text-cell loops over the equations of a text cell; its parameters are those of --check.
"""
import json
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional

import protocol
from torch_cells import TextLayers
from torch_front import WithFront


class ByHand(nn.Module):
    """A loop over a cell; parameters have the names of `unroll`'s cells."""

    def __init__(self, inputs, hidden, norms):
        super().__init__()
        self.hidden = hidden
        bound = hidden ** -0.5
        shapes = {"weight_ih_l0": (4 * hidden, inputs), "weight_hh_l0": (4 * hidden, hidden)}
        if not norms:
            shapes.update(bias_ih_l0=(4 * hidden,), bias_hh_l0=(4 * hidden,))
        self.values = nn.ParameterDict({n: nn.Parameter(torch.empty(s).uniform_(-bound, bound))
                                        for n, s in shapes.items()})
        for norm, width in {"norm_ih": 4 * hidden, "norm_hh": 4 * hidden, "norm_c": hidden}.items() if norms else ():
            self.values[f"{norm}_weight_l0"] = nn.Parameter(torch.ones(width))
            self.values[f"{norm}_bias_l0"] = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        p = self.values
        h = x.new_zeros(x.shape[1], self.hidden)
        c, y = h.clone(), []
        products = self.before(p, x)
        for t in range(x.shape[0]):
            h, c = self.step(p, products[t], h, c)
            y.append(h)
        return torch.stack(y), None


class CellLSTM(ByHand):
    def before(self, p, x):
        return x

    def step(self, p, x, h, c):
        return torch.lstm_cell(x, (h, c), p["weight_ih_l0"], p["weight_hh_l0"], p["bias_ih_l0"], p["bias_hh_l0"])


class OpsLSTM(ByHand):
    """Hochreiter and Schmidhuber 1997, Gers et al. 2000, with x W computed outside the loop."""

    def before(self, p, x):
        return functional.linear(x, p["weight_ih_l0"], p["bias_ih_l0"] + p["bias_hh_l0"])

    def step(self, p, product, h, c):
        i, f, g, o = (product + h @ p["weight_hh_l0"].t()).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class LayerNormLSTM(ByHand):
    """Ba et al. 2016: layer norm on both products and on the cell state."""

    def norm(self, p, name, x):
        return functional.layer_norm(x, x.shape[-1:], p[f"{name}_weight_l0"], p[f"{name}_bias_l0"])

    def before(self, p, x):
        return self.norm(p, "norm_ih", functional.linear(x, p["weight_ih_l0"]))

    def step(self, p, product, h, c):
        i, f, g, o = (product + self.norm(p, "norm_hh", h @ p["weight_hh_l0"].t())).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norm(p, "norm_c", c)), c


LAYERS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LOOPS = {"lstm_cell": (CellLSTM, False), "lstm_ops": (OpsLSTM, False), "lnlstm": (LayerNormLSTM, True)}


def make(o, saved):
    if o.front:
        texts, o.front = json.loads(o.front), None

        def behind(width):
            o.input = width
            return make(o, saved)

        return WithFront(texts, o.input, behind)
    if o.text_cell:
        return TextLayers(json.loads(pathlib.Path(o.text_cell).read_text()), o, saved)
    if o.cell in LAYERS:
        more = {"proj_size": o.projection} if o.projection else {}
        if o.cell == "rnn":
            more["nonlinearity"] = o.nonlinearity
        return LAYERS[o.cell](o.input, o.hidden, num_layers=o.layers, bidirectional=o.bidirectional, bias=not o.no_bias,
                              **more)
    if o.layers != 1 or o.bidirectional:
        raise SystemExit(f"{o.cell}: one layer, one direction")
    kind, norms = LOOPS[o.cell]
    return kind(o.input, o.hidden, norms)


def saved_name(name):
    """"norm_c_bias_l0", which a ParameterDict can hold, as "norm_c.bias_l0"."""
    name = name.removeprefix("layer.").removeprefix("values.").replace("/", ".")
    for part in ("weight", "bias"):
        name = name.replace(f"norm_ih_{part}", f"norm_ih.{part}").replace(f"norm_hh_{part}", f"norm_hh.{part}")
        name = name.replace(f"norm_c_{part}", f"norm_c.{part}")
    return name


class Padded(nn.Module):
    """Lengths the way PyTorch takes them: packed, run, padded."""

    def __init__(self, layer, lengths):
        super().__init__()
        self.layer, self.lengths = layer, lengths

    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, self.lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], total_length=x.shape[0])


def gemm(o):
    m, k, n = map(int, o.shape.split("x"))
    a, b = torch.rand(m, k), torch.rand(k, n)
    protocol.report(f"torch {torch.__version__}", protocol.repeat(lambda: a @ b, o.seconds), 2 * m * k * n)


def main():
    o = protocol.parse([*LAYERS, *LOOPS], ["train", "infer", "gemm"], lengths={"help": "used as --check has them"},
                       shape={"default": "1024x1024x1024"}, compile={"action": "store_true"},
                       projection={"type": int, "default": 0}, nonlinearity={"default": "tanh"},
                       **{"no-bias": {"action": "store_true"},
                          "front": {"help": "JSON array with the texts of model.front"},
                          "text-cell": {"help": "JSON with states, step and y of a text cell; --cell is ignored"}})
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    if o.mode == "gemm":
        return gemm(o)
    saved = protocol.load(o.check, torch_names=not o.text_cell) if o.check else {}
    x = torch.rand(o.steps, o.batch, o.input) * 2 - 1
    layer = make(o, saved)
    if saved:
        x = torch.from_numpy(saved["x"])
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                parameter.copy_(torch.from_numpy(saved[saved_name(name)]))
    model = Padded(layer, torch.from_numpy(saved["lengths"])) if o.lengths else layer
    if o.compile:
        model = torch.compile(model)

    def infer():
        with torch.no_grad():
            return model(x)[0]

    def train():
        layer.zero_grad(set_to_none=True)
        model(x)[0].square().mean().backward()

    once = train if o.mode == "train" else infer
    begin = time.perf_counter()
    once()
    compile_ms = (time.perf_counter() - begin) * 1e3 if o.compile else None
    times = protocol.repeat(once, o.seconds)
    computed = {"y": infer().numpy()} if o.mode == "infer" else \
        {"d_" + saved_name(name): p.grad.numpy() for name, p in layer.named_parameters()}
    if o.save:
        protocol.save(o.save, {**computed, "y": infer().numpy()})
    flop = protocol.forward_flop(o) * (3 if o.mode == "train" else 1)
    protocol.report(f"torch {torch.__version__}", times, flop, compile_ms=compile_ms,
                    relative_l2=protocol.relative_l2(saved, computed) if saved.keys() & computed.keys() else None)


if __name__ == "__main__":
    main()
