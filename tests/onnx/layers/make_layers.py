#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of this folder: small models as PyTorch's exporters write them, with samples of PyTorch.

usage: make_layers.py FOLDER      needs torch, onnx, onnxscript and safetensors

NAME.onnx, and NAME.sample.safetensors with its inputs and outputs at other sizes than the exported ones. The models of
REFUSED have no sample: no folder of layers can hold them.
"""
import contextlib
import io
import pathlib
import sys
import warnings

import onnx
import safetensors.torch
import torch
from torch import nn

EXPORTED, SAMPLE = (4, 2), (6, 3)  # steps, batch


class Stack(nn.Module):
    """A recurrent stack and a linear layer at each step."""

    def __init__(self, layers, width):
        super().__init__()
        self.rnn, self.head = layers, nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class Classifier(nn.Module):
    """Reads the states after the last step, or the mean of all outputs."""

    def __init__(self, layers, width, pooling):
        super().__init__()
        self.rnn, self.fc, self.out, self.pooling = layers, nn.Linear(width, 4), nn.Linear(4, 2), pooling

    def forward(self, x):
        y, h = self.rnn(x)
        pooled = {"last": lambda: y[-1], "final": lambda: torch.cat((h[-2], h[-1]), 1), "state": lambda: h[-1],
                  "mean": lambda: y.mean(0), "max": lambda: y.amax(0)}[self.pooling]()
        return self.out(torch.relu(self.fc(pooled))).log_softmax(-1)


class Tagger(nn.Module):
    """Tokens, the batch first."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.rnn = nn.RNN(3, 4, nonlinearity="relu", batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 2, bias=False)

    def forward(self, ids):
        return self.head(torch.tanh(self.rnn(self.embedding(ids))[0])).softmax(-1)


class Stateful(nn.Module):
    """States as inputs and outputs."""

    def __init__(self, layers):
        super().__init__()
        self.rnn = layers

    def forward(self, x, *states):
        y, after = self.rnn(x, states if len(states) > 1 else states[0])
        return (y, *after) if isinstance(after, tuple) else (y, after)


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 3)

    def forward(self, x):
        return self.rnn(x)[0] + x


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0]


def floats(size, width=3, batch_first=False):
    shape = (size[1], size[0], width) if batch_first else (*size, width)
    return torch.randn(shape, generator=torch.manual_seed(size[0]))


def tokens(size):
    return torch.randint(0, 7, size[::-1], generator=torch.manual_seed(size[0]))


def states(size, *shapes):
    return tuple(torch.randn((slots, size[1], width), generator=torch.manual_seed(slots + width + k))
                 for k, (slots, width) in enumerate(shapes))


# Name: the model, its inputs for a size, and which exporter writes it.
CASES = {
    "lstm_both": (lambda: Stack(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), 8),
                  lambda s: (floats(s, batch_first=True),), "script"),
    "lstm_default": (lambda: Stack(nn.LSTM(3, 4, 2), 4), lambda s: (floats(s),), "default"),
    "gru_state": (lambda: Classifier(nn.GRU(3, 4), 4, "state"), lambda s: (floats(s),), "script"),
    "gru_final": (lambda: Classifier(nn.GRU(3, 4, bidirectional=True), 8, "final"), lambda s: (floats(s),), "default"),
    "rnn_last": (lambda: Classifier(nn.RNN(3, 4, 2), 4, "last"), lambda s: (floats(s),), "script"),
    "gru_mean": (lambda: Classifier(nn.GRU(3, 4), 4, "mean"), lambda s: (floats(s),), "script"),
    "gru_max": (lambda: Classifier(nn.GRU(3, 4), 4, "max"), lambda s: (floats(s),), "default"),
    "tagger": (Tagger, lambda s: (tokens(s),), "script"),
    "lstm_states": (lambda: Stateful(nn.LSTM(3, 4, 2)), lambda s: (floats(s), *states(s, (2, 4), (2, 4))), "script"),
    "gru_states": (lambda: Stateful(nn.GRU(3, 4, batch_first=True)),
                   lambda s: (floats(s, batch_first=True), *states(s, (1, 4))), "default"),
}
REFUSED = {
    "skip": (Skip, lambda s: (floats(s),), "script"),
    "packed": (Packed, lambda s: (floats(s), torch.tensor([s[0]] * s[1])), "script"),
    "rnn_unrolled": (lambda: Stack(nn.RNN(3, 4), 4), lambda s: (floats(s),), "default"),
}


def export(model, inputs, path, exporter):
    names = ["x", "h0", "c0"][:len(inputs)]
    outputs = ["y", "hn", "cn"][:len(inputs)] if isinstance(model, Stateful) else ["y"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if exporter == "script":
            free = {name: {1: "batch"} if name in ("h0", "c0") else {0: "first", 1: "second"} for name in names}
            if isinstance(model, Stateful):
                free["x"] = {0: "steps", 1: "batch"}
            if isinstance(model, Packed):
                free["h0"] = {0: "second"}
            torch.onnx.export(model, inputs, path, dynamo=False, opset_version=17, dynamic_axes=free,
                              input_names=names, output_names=outputs)
        else:
            auto = torch.export.Dim.AUTO
            shapes = tuple({1: auto} if name in ("h0", "c0") else {0: auto, 1: auto} for name in names)
            if isinstance(model, Stateful):
                shapes = {"x": shapes[0], "states": shapes[1:]}
            torch.onnx.export(model, inputs, path, dynamo=True, dynamic_shapes=shapes, verbose=False,
                              external_data=False, input_names=names, output_names=outputs)
    strip(path)
    return names, outputs


def strip(path):
    """Leaves out what the exporters write about the source code, paths of this machine included."""
    model = onnx.load(path)
    model.ClearField("metadata_props")
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        value.ClearField("metadata_props")
        value.ClearField("doc_string")
    model.graph.ClearField("value_info")
    model.graph.ClearField("metadata_props")
    onnx.save(model, path)


def main(folder):
    warnings.simplefilter("ignore")
    folder = pathlib.Path(folder)
    for name, (make, inputs, exporter) in {**CASES, **REFUSED}.items():
        torch.manual_seed(1)
        model = make().eval()
        names, outputs = export(model, inputs(EXPORTED), folder / f"{name}.onnx", exporter)
        if name in REFUSED:
            continue
        given = inputs(SAMPLE)
        with torch.no_grad():
            found = model(*given)
        found = found if isinstance(found, tuple) else (found,)
        tensors = dict(zip(names, given)) | dict(zip(outputs, found))
        sample = {k: (v.int() if v.dtype == torch.int64 else v).contiguous() for k, v in tensors.items()}
        safetensors.torch.save_file(sample, folder / f"{name}.sample.safetensors")


if __name__ == "__main__":
    main(sys.argv[1])
