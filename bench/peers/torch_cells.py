# SPDX-License-Identifier: Apache-2.0
"""Text cells (docs/adding-a-cell.md) as loops of PyTorch operations.

A text is read as Python: names become v_NAME, next values such as h' become n_NAME, and Python's ast takes it apart.
`unroll` has checked the text before. Shapes: T time, B batch, I input, H hidden.
"""
import ast
import re

import torch
from torch import nn
from torch.nn import functional

NAME = re.compile(r"(?<![\w.])([A-Za-z_]\w*)('?)")
ELEMENTWISE = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu, "silu": functional.silu,
               "softplus": functional.softplus, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt,
               "abs": torch.abs}
CHOICES = {"min": torch.minimum, "max": torch.maximum}
OWNERS = {"affine", "linear", "layer_norm"}  # have parameters named after the assigned variable


def as_python(text):
    lines = [re.sub("#.*", "", line).strip() for line in text.splitlines()]
    return NAME.sub(lambda found: ("n_" if found[2] else "v_") + found[1], "\n".join(lines))


def call_name(call):
    return call.func.id[2:]


class Equations:
    """The step of a cell: (inputs [B,I], states [B,H], parameters by name) -> (next states, output [B,P])."""

    def __init__(self, cell, hidden, training):
        self.states, self.hidden, self.training = cell["states"], hidden, training
        text = as_python(cell["step"])
        if cell["y"].strip():
            text += f"\nv_y = (\n{as_python(cell['y'])}\n)"
        self.statements = [(s.targets[0].id, s.value) for s in ast.parse(text).body]
        self.owned, self.parameters = {}, []
        for target, value in self.statements:
            calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
            calls.sort(key=lambda node: (node.lineno, node.col_offset))
            self.parameters += [call.args[0].id[2:] for call in calls if call_name(call) == "param"]
            for k, call in enumerate([call for call in calls if call_name(call) in OWNERS]):
                self.owned[call] = target[2:] + (str(k + 1) if k else "")
                self.parameters += [f"{self.owned[call]}.{part}" for part in self.parts_of(call)]
        self.parameters = list(dict.fromkeys(self.parameters))

    @staticmethod
    def parts_of(call):
        if call_name(call) == "layer_norm":
            return ["weight", "bias"]
        return [f"weight_{i}" for i in range(len(call.args))] + ["bias"] * (call_name(call) == "affine")

    def __call__(self, inputs, states, parameters):
        """`inputs`: x of this step, after those of the steps before."""
        x = inputs[-1]
        names = {"v_x": x, "v_hidden": self.hidden, "v_input": x.shape[1]}
        names.update({f"v_{name}": state for name, state in zip(self.states, states)})

        def rows(value, width=None):
            if not torch.is_tensor(value):
                value = torch.full((width,), float(value))
            return value.expand(x.shape[0], value.shape[-1])

        def call(node):
            name = call_name(node)
            if name == "param":
                return parameters[node.args[0].id[2:]]
            values = [result(argument) for argument in node.args]
            if name in ELEMENTWISE:
                value = ELEMENTWISE[name](torch.as_tensor(values[0]))
                return value if torch.is_tensor(values[0]) else float(value)
            if name in CHOICES:
                return CHOICES[name](*(torch.as_tensor(value, dtype=torch.float32) for value in values))
            if name == "softmax":
                return torch.softmax(values[0], -1)
            if name == "concat":
                return torch.cat([rows(value) for value in values], 1)
            if name == "window":
                last = inputs[-int(values[1]):]
                return torch.cat([torch.zeros_like(x)] * (int(values[1]) - len(last)) + last, 1)
            if name == "slice":
                start, size = int(values[1]), int(values[2])
                return values[0][..., start:start + size]
            if name == "dropout":
                if self.training and values[1] > 0:
                    raise SystemExit("a cell with dropout has other masks here: compare it without --grad")
                return values[0]
            own = [parameters[f"{self.owned[node]}.{part}"] for part in self.parts_of(node)]
            if name == "layer_norm":
                return functional.layer_norm(values[0], own[0].shape, *own)
            product = sum(functional.linear(value, weight) for value, weight in zip(values, own))
            return product + own[-1] if name == "affine" else product

        def result(node):
            if isinstance(node, ast.Constant):
                return float(node.value)
            if isinstance(node, ast.Name):
                return names[node.id]
            if isinstance(node, ast.UnaryOp):
                return -result(node.operand)
            if isinstance(node, ast.Call):
                return call(node)
            left, right = result(node.left), result(node.right)
            return {ast.Add: lambda: left + right, ast.Sub: lambda: left - right, ast.Mult: lambda: left * right,
                    ast.Div: lambda: left / right}[type(node.op)]()

        for target, value in self.statements:
            names[target] = rows(result(value), self.hidden) if target.startswith("n_") else result(value)
        following = [names[f"n_{name}"] for name in self.states]
        return following, rows(names["v_y"]) if "v_y" in names else following[0]


class TextLayers(nn.Module):
    """A stack of layers of one text cell. `saved`: its parameters as `unroll` names them, f.weight_0_l0."""

    def __init__(self, cell, o, saved):
        super().__init__()
        self.equations = Equations(cell, o.hidden, o.mode == "train")
        self.layers = [[f"_l{layer}{way}" for way in (("", "_reverse") if o.bidirectional else ("",))]
                       for layer in range(o.layers)]
        self.values = nn.ParameterDict({self.key(name + suffix): nn.Parameter(torch.from_numpy(saved[name + suffix]))
                                        for suffixes in self.layers for suffix in suffixes
                                        for name in self.equations.parameters})

    @staticmethod
    def key(name):
        return name.replace(".", "/")  # a module's parameters have no dots in their names

    def direction(self, x, suffix):
        parameters = {name: self.values[self.key(name + suffix)] for name in self.equations.parameters}
        states = [x.new_zeros(x.shape[1], self.equations.hidden) for _ in self.equations.states]
        steps = range(x.shape[0])
        y, inputs = [None] * len(steps), []
        for t in reversed(steps) if suffix.endswith("_reverse") else steps:
            inputs.append(x[t])
            states, y[t] = self.equations(inputs, states, parameters)
        return torch.stack(y)

    def forward(self, x):
        for suffixes in self.layers:
            x = torch.cat([self.direction(x, suffix) for suffix in suffixes], 2)
        return x, None
