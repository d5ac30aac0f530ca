#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random convolutional networks that PyTorch's exporters wrote. usage: convolutions_from_torch.py UNROLL [N]

N (100) networks: convolutions over images or signals before recurrent layers, residual dilated convolutions, depthwise
front ends, transposed convolutions. Each runs at two lengths, unless the exporter fixed the length. The outputs are
compared with PyTorch's as in import_from_torch.py, whose packages it needs.
"""
import contextlib
import pathlib
import random
import sys
import tempfile
import warnings

import onnx
import onnxruntime as ort
import torch
from import_from_torch import TOLERANCE, by_onnxruntime, by_unroll, relative
from torch import nn

CHANNELS = 6  # of a signal
ACTIVATIONS = (nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.LeakyReLU, nn.Tanh, nn.ELU)


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Recurrent(nn.Module):
    """A recurrent layer over the last axis of [B, C, T], and a product; [B, T, 4]."""
    def __init__(self, r, width):
        super().__init__()
        both = r.random() < 0.5
        kind = r.choice((nn.GRU, nn.LSTM))
        self.layer = kind(width, 7, r.choice((1, 2)), bidirectional=both, batch_first=True)
        self.head = nn.Linear(14 if both else 7, 4)

    def forward(self, x):
        return self.head(self.layer(x.transpose(1, 2))[0])


class Rows(nn.Module):
    """[B, C, H, W] -> [B, C H, W]"""
    def forward(self, x):
        return x.flatten(1, 2)


def normalization(r, width, axes):
    kinds = [nn.BatchNorm1d, nn.BatchNorm2d][axes - 1], lambda n: nn.GroupNorm(2, n), lambda n: nn.Identity()
    made = r.choice(kinds)(width)
    for statistic in ("running_mean", "running_var"):
        if hasattr(made, statistic):
            getattr(made, statistic).uniform_(0.5, 1.5)
    return made


def signal_layers(r):
    """Convolutions over time, and the number of channels after them."""
    layers, width = [], CHANNELS
    for _ in range(r.randint(1, 4)):
        kind, size = r.choice(("plain", "residual", "depthwise", "transposed", "pool")), r.choice((2, 3, 5))
        if kind == "plain":
            new, groups = 2 * r.randint(2, 6), r.choice((1, 2))
            pad = r.choice(("zeros", "reflect", "replicate"))
            layers.append(nn.Conv1d(width, new, size, r.choice((1, 2)), size // 2, 1, groups, padding_mode=pad))
            width = new
        elif kind == "residual":
            dilation = r.choice((1, 2, 4))
            layers.append(Residual(nn.Sequential(nn.ConstantPad1d(((size - 1) * dilation, 0), 0.0),
                                                 nn.Conv1d(width, width, size, dilation=dilation))))
        elif kind == "depthwise":
            layers += [nn.Conv1d(width, width, size, padding="same", groups=width), nn.Conv1d(width, width, 1)]
        elif kind == "transposed":
            layers.append(nn.ConvTranspose1d(width, width, size, 2, size // 2, r.choice((0, 1)), bias=r.random() < 0.5))
        else:
            layers.append(r.choice((nn.MaxPool1d, nn.AvgPool1d))(size, 2, size // 2, ceil_mode=r.random() < 0.3))
        layers += [normalization(r, width, 1), r.choice(ACTIVATIONS)()]
    return layers, width


def image_layers(r, height):
    layers, width = [], 1
    for _ in range(r.randint(1, 3)):
        new, size = 2 * r.randint(1, 4), (r.choice((1, 3)), r.choice((1, 3)))
        layers.append(nn.Conv2d(width, new, size, (r.choice((1, 2)), 1), (size[0] // 2, size[1] // 2)))
        layers += [normalization(r, new, 2), r.choice(ACTIVATIONS)()]
        if r.random() < 0.5:
            layers.append(r.choice((nn.MaxPool2d, nn.AvgPool2d))((2, r.choice((1, 2)))))
        width = new
    network = nn.Sequential(*layers).eval()
    with torch.no_grad():
        rows = network(torch.zeros(1, 1, height, 24)).shape[2]
    return [*layers, Rows()], width * rows


def network(seed):
    """The network, and an input of any length."""
    r, height = random.Random(seed), 64
    torch.manual_seed(seed)
    if r.random() < 0.4:
        layers, width = image_layers(r, height)
        shape = lambda length: (2, 1, height, length)
    else:
        layers, width = signal_layers(r)
        shape = lambda length: (2, CHANNELS, length)
    if r.random() < 0.7:
        layers.append(Recurrent(r, width))
    model = nn.Sequential(*layers).eval()
    return model, lambda length: torch.randn(shape(length), generator=torch.manual_seed(length))


def verdict(unroll, seed, folder):
    model, x_of = network(seed)
    path, x = folder / "model.onnx", x_of(24)
    axis, names = x.dim() - 1, {"input_names": ["x"], "output_names": ["y"]}
    try:
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            if seed % 2:
                sizes = ({axis: torch.export.Dim("length", min=16, max=512)},)
                torch.onnx.export(model, (x,), path, dynamo=True, dynamic_shapes=sizes, verbose=False, **names)
            else:
                torch.onnx.export(model, (x,), path, dynamo=False, opset_version=17, dynamic_axes={"x": [axis]},
                                  **names)
    except Exception as error:  # the exporter's own limits
        return "not exported", " ".join(str(error).split())[:100]
    dims = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    largest, is_free = 0.0, dims[axis].HasField("dim_param")
    for length in (24, 37) if is_free else (24,):
        x = x_of(length)
        with torch.no_grad():
            wanted = model(x).numpy()
        try:
            found = relative(by_unroll(unroll, path, x.numpy(), folder), wanted)
        except RuntimeError as error:
            found = str(error)[-240:]
        if not isinstance(found, float) or found > TOLERANCE:
            theirs = relative(by_onnxruntime(path, x.numpy()), wanted)
            return ("wrong file" if theirs > TOLERANCE else "FAILED"), f"length {length}: {found}"
        largest = max(largest, found)
    return "passed", f"{largest:.1e}" + ", the length is fixed" * (not is_free)


def main(unroll, n="100"):
    warnings.simplefilter("ignore")
    ort.set_default_logger_severity(4)
    counts = {}
    for seed in range(int(n)):
        with tempfile.TemporaryDirectory() as folder:
            word, reason = verdict(unroll, seed, pathlib.Path(folder))
        counts[word] = counts.get(word, 0) + 1
        print(f"{word:12} {seed}: {reason}", flush=True)
    print(f"torch {torch.__version__}: " + " ".join(f"{word.replace(' ', '_')}={n}" for word, n in counts.items()))
    return 1 if counts.get("FAILED") or not counts.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
