# SPDX-License-Identifier: Apache-2.0
"""Layers of model.front (docs/config.md) as modules of PyTorch. Shapes: T steps, B sequences, C channels."""
import re

import torch
from torch import nn
from torch.nn import functional

PLAIN = {"relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu, "tanh": torch.tanh,
         "sigmoid": torch.sigmoid, "glu": functional.glu}
POOLS = {"max_pool": functional.max_pool1d, "average_pool": functional.avg_pool1d}
CONV = ["channels", "kernel", "stride", "dilation", "groups", "padding", "bias"]


def arguments_of(inside, names):
    given = {}
    for argument in filter(None, inside.split(",")):
        key, _, value = argument.rpartition("=")
        given[key.strip() or names[len(given)]] = value.strip()
    return given


class Conv(nn.Module):
    def __init__(self, width, channels, kernel, stride=1, dilation=1, groups=1, padding="causal", bias="true"):
        super().__init__()
        self.stride, self.dilation, self.groups = int(stride), int(dilation), int(groups)
        reach = (int(kernel) - 1) * self.dilation
        self.pads = (reach // 2, reach - reach // 2) if padding == "same" else (reach, 0)
        self.weight = nn.Parameter(torch.empty(int(channels), width // self.groups, int(kernel)))
        self.bias = nn.Parameter(torch.empty(int(channels))) if bias == "true" else None

    def forward(self, x):
        padded = functional.pad(x.permute(1, 2, 0), self.pads)
        return functional.conv1d(padded, self.weight, self.bias, self.stride, 0, self.dilation,
                                 self.groups).permute(2, 0, 1)


class Plain(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def layer_of(text, width):
    """The module of a text, and the width of its output."""
    name, inside = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text).groups()
    if name == "conv":
        conv = Conv(width, **arguments_of(inside, CONV))
        return conv, len(conv.weight)
    if name in POOLS:
        given = arguments_of(inside, ["kernel", "stride"])
        kernel = int(given["kernel"])
        stride = int(given.get("stride", kernel))
        return Plain(lambda x: POOLS[name](x.permute(1, 2, 0), kernel, stride).permute(2, 0, 1)), width
    if name == "layer_norm":
        return nn.LayerNorm(width), width
    if name == "dropout":
        raise SystemExit("a front with dropout has other masks here: compare it without")
    return Plain(PLAIN[name]), width // 2 if name == "glu" else width


class WithFront(nn.Module):
    """The layers of `texts` before the recurrent ones, which `make` builds for the width of their output."""

    def __init__(self, texts, width, make):
        super().__init__()
        self.front = nn.ModuleList()
        for text in texts:
            module, width = layer_of(text, width)
            self.front.append(module)
        self.layer = make(width)

    def forward(self, x):
        for module in self.front:
            x = module(x)
        return self.layer(x)
