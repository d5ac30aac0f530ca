# SPDX-License-Identifier: Apache-2.0
"""Build a network out of layer functions, and train it.

    from unroll import layers

    def network(ids):                                      # int32 [T, B]
        x = layers.embedding(ids, 5000, 64, name="embedding")
        y, states = layers.lstm(x, 128, layers=2, name="rnn")
        return layers.linear(y, 10, name="head")           # or a dict of outputs by name

    model = layers.model(network, {"ids": ("int32", "T", "B")})
    model.load_state_dict(module.state_dict())             # a PyTorch module with the same layers
    y = model.run({"ids": ids})["y"]

    run = layers.train(network, {"ids": sequences}, {"label": labels}, loss)    # arrays; see help(layers.train)

Shapes: T steps, B sequences, I and O widths, H hidden, D directions. Parameters have the names, layouts and initial
distributions of PyTorch; `name` is their prefix, as the name of a module is in PyTorch. Values have a shape, and
arithmetic with values and numbers broadcasts as in NumPy.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Union

from . import _arguments, _core
from ._core import (Model, Run, Value, abs, additive_attention, argmax, astype, bce, clip, concat, cumsum,
                    dot_attention, dropout, embedding, equal, erf, exp, expm1, gelu, glu, huber, imported, layer_norm,
                    less, linear, log, log1p, log_softmax, mae, masked_mean, matmul, max, maximum, mean, min, minimum,
                    mse, multi_head_attention, one_hot, parameter, pinball, relu, reshape, sequence_mask, sigmoid,
                    sign, silu, slice, softmax, softmax_cross_entropy, softplus, sqrt, square, stack, stop_gradient,
                    sum, tanh, transpose, where)

__all__ = ["Trainer", "Value", "abs", "additive_attention", "argmax", "astype", "average_pool", "bce", "cell", "clip",
           "concat", "conv", "cumsum", "dot_attention", "dropout", "embedding", "equal", "erf", "exp", "expm1", "gelu",
           "glu", "gru", "huber", "imported", "layer_norm", "less", "linear", "log", "log1p", "log_softmax", "lstm",
           "mae", "masked_mean", "matmul", "max", "max_pool", "maximum", "mean", "min", "minimum", "model", "mse",
           "multi_head_attention", "one_hot", "parameter", "pinball", "relu", "reshape", "rnn", "sequence_mask",
           "sigmoid", "sign", "silu", "slice", "softmax", "softmax_cross_entropy", "softplus", "sqrt", "square",
           "stack", "stop_gradient", "sum", "tanh", "train", "transpose", "where"]

States = Union[Sequence[Value], None]


Sizes = Union[int, Sequence[int]]


def conv(x: Value, channels: int, kernel: Sizes, *, stride: Sizes = 1, dilation: Sizes = 1, groups: int = 1,
         padding: str = "causal", bias: bool = True, name: str = "") -> Value:
    """Convolution, channels last: over time of x [T, B, I] with one size of a kernel, over the two axes before the
    channels of x [B, H, W, I] with two.

    padding   causal: zeros before the start, so that y at step t sees no later input; same: zeros on both sides, as
              many outputs as inputs with stride 1; valid: none
    Parameters: NAME.weight [channels, I / groups, *kernel], NAME.bias [channels], as nn.Conv1d and nn.Conv2d.
    """
    return _core._conv(x, channels, kernel, stride, dilation, groups, padding, bias, name)


def max_pool(x: Value, size: Sizes, *, stride: Union[Sizes, None] = None) -> Value:
    """Largest value of each window; axes as for conv. stride None: that of `size`."""
    return _core._pool(x, size, stride, "max")


def average_pool(x: Value, size: Sizes, *, stride: Union[Sizes, None] = None) -> Value:
    """Mean of each window; axes as for conv. stride None: that of `size`."""
    return _core._pool(x, size, stride, "average")


def rnn(x: Value, hidden: int, *, layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        bidirectional: bool = False, dropout: float = 0.0, name: str = "", states: States = None,
        lengths: Value | None = None) -> tuple[Value, list[Value]]:
    """Elman layers, as nn.RNN: x [T, B, I] -> y [T, B, D*H] and [h], the state after the last step [layers*D, B, H].

    nonlinearity   tanh or relu
    dropout        rate between layers, in training
    states         before the first step; None: zeros
    lengths        int32 [B]: the steps of each sequence; y is zero behind them
    Parameters: NAME.weight_ih_l0, NAME.weight_hh_l0, NAME.bias_ih_l0, NAME.bias_hh_l0, ..., NAME.weight_ih_l0_reverse.
    """
    return _core._recurrent(x, "rnn", hidden, layers, bidirectional, dropout, bias, nonlinearity, 0, "", [], name,
                            states, lengths)


def gru(x: Value, hidden: int, *, layers: int = 1, bias: bool = True, bidirectional: bool = False,
        dropout: float = 0.0, name: str = "", states: States = None,
        lengths: Value | None = None) -> tuple[Value, list[Value]]:
    """Gated recurrent units, as nn.GRU: y [T, B, D*H] and [h]. Arguments and parameters as for rnn."""
    return _core._recurrent(x, "gru", hidden, layers, bidirectional, dropout, bias, "tanh", 0, "", [], name, states,
                            lengths)


def lstm(x: Value, hidden: int, *, layers: int = 1, bias: bool = True, bidirectional: bool = False,
         projection: int = 0, dropout: float = 0.0, name: str = "", states: States = None,
         lengths: Value | None = None) -> tuple[Value, list[Value]]:
    """Long short-term memory, as nn.LSTM: y [T, B, D*H] and [h, c]. Arguments and parameters as for rnn.

    projection   size of h, as proj_size of nn.LSTM: parameter NAME.weight_hr_l0; 0: that of c
    """
    return _core._recurrent(x, "lstm", hidden, layers, bidirectional, dropout, bias, "tanh", projection, "", [], name,
                            states, lengths)


def cell(x: Value, hidden: int, step: str, *, variables: Sequence[str] = ("h",), layers: int = 1,
         bidirectional: bool = False, dropout: float = 0.0, name: str = "", states: States = None,
         lengths: Value | None = None) -> tuple[Value, list[Value]]:
    """Layers of a cell in text (docs/adding-a-cell.md), or of a built-in cell by its name: "mgu", "lnlstm", ...

        layers.cell(x, 64, '''
            f  = sigmoid(affine(x, h))
            n  = tanh(affine(x, f * h))
            h' = (1 - f) * h + f * n''')

    variables   names of the states in the text; the first one is the output, unless the text assigns y
    """
    _arguments.require(isinstance(step, str), "layers.cell: step", "a cell in text or the name of one", step)
    is_text = "=" in step
    return _core._recurrent(x, "own" if is_text else step, hidden, layers, bidirectional, dropout, True, "tanh", 0,
                            step if is_text else "", list(variables) if is_text else [], name, states, lengths)


def model(network: Callable[..., Value | Mapping[str, Value]], inputs: Mapping[str, Sequence], *,
          parameters: Mapping | str | os.PathLike | None = None, seed: int = 0, backend: str = "cpu",
          threads: int = 0) -> Model:
    """Return a Model that runs a network.

    network      a function that takes a Value for each input, by name, and returns a Value, which becomes the output
                 "y", or a dict of them. It is called once for each shape of the inputs.
    inputs       axes of each input, a letter where each run chooses the size: {"x": ("T", "B", 40)}. A dtype may come
                 first: {"ids": ("int32", "T", "B")}. One letter has one size in a run.
    parameters   a dict of arrays or tensors by name, or a file of unroll.load_arrays; None: drawn from `seed`, as
                 PyTorch does
    """
    _arguments.function("layers.model: network", network)
    _arguments.mapping("layers.model: inputs", "axes by name", inputs)
    specs = [_arguments.input_spec(name, axes) for name, axes in inputs.items()]
    result = _core._network(network, specs, seed, backend, threads)
    if parameters is not None:
        result.load_state_dict(_parameters(parameters))
    return result


def train(network: Callable[..., Value | Mapping[str, Value]], inputs: Mapping[str, object],
          targets: Mapping[str, object], loss: Callable[..., Value | tuple], *, out: str | os.PathLike | None = None,
          batch: int = 32, validation: float | tuple[Mapping, Mapping] = 0.1, pad_to_multiple: int = 0,
          parameters: Mapping | str | os.PathLike | None = None, settings: Mapping | None = None, resume: bool = False,
          on_report: Callable[[dict], object] | None = None, backend: str = "cpu", threads: int = 0) -> Run:
    """Train a network on arrays and return a Run, whose `model` is the trained one.

        def network(x, x_lengths):                                   # x [T, B, 3]
            y, (h,) = layers.gru(x, 32, lengths=x_lengths, name="gru")
            return layers.linear(h[-1], 1, name="head")              # [B, 1]

        def loss(y, target):
            return layers.mean(layers.mse(y, target))

        run = layers.train(network, {"x": sequences}, {"target": targets}, loss, settings={"train.epochs": 5})

    inputs        for `network`, by name. An array, whose first axis numbers the examples, gives batches [B, ...].
                  A list of arrays [T, ...], one for each example, gives batches [T, B, ...], zero behind the end of
                  each sequence, and an input NAME_lengths, int32 [B], which the network must take.
    targets       for `loss`, in the same two forms
    loss          takes what `network` returned, and by name those inputs, targets and lengths that its arguments name.
                  Returns a scalar Value, or a tuple of a sum and a count; alone, or in a tuple with a dict of
                  metrics. A metric is a Value, whose mean over all elements is reported, or a tuple of a sum and a
                  count. Batches of an update (train.accumulate) and of a validation are averaged by the count; without
                  one a quotient such as masked_mean is averaged by its divisor, and a mean by its elements.
    validation    share of the examples, drawn at random, or a tuple of inputs and targets; 0: none
    pad_to_multiple   0: all batches have the steps of the longest sequence. N: those of their own longest sequence,
                  rounded up to a multiple of N; each number of steps is compiled once.
    parameters    to start from: a dict by name, or a safetensors file; None: drawn from train.seed
    settings      keys of docs/config.md: {"train.lr": 0.01, "train.max_updates": 500, "train.seed": 1}
    out, resume, on_report   as for unroll.train. layers.model(network, ..., parameters="OUT/best.safetensors") reads
                  the result back.

    Both functions are called once for each shape of batches, not for each batch.
    """
    _arguments.function("layers.train: network", network)
    examples = _arguments.fields(inputs, targets)
    has_own = isinstance(validation, tuple) and len(validation) == 2
    _arguments.require(has_own or isinstance(validation, (int, float)), "layers.train: validation",
                       "a share of the examples or a tuple of inputs and targets", validation)
    own = _arguments.fields(*validation) if has_own else {}
    return _core._train_network(
        network, _arguments.by_name(loss, set(examples)), list(inputs), list(targets), examples, own, batch,
        0.0 if has_own else float(validation), pad_to_multiple, _arguments.settings(settings),
        {} if parameters is None else _parameters(parameters),
        "" if out is None else _arguments.path("layers.train: out", out), resume,
        None if on_report is None else _arguments.function("layers.train: on_report", on_report), backend, threads)


class Trainer:
    """Train a network in a loop of your own: each call of update() is one optimizer step.

        trainer = layers.Trainer(network, first_inputs, first_targets, loss, settings={"train.lr": 0.01})
        for inputs, targets in batches:                   # dicts of arrays: x [T, B, I], ...
            print(trainer.update(inputs, targets)["loss"])

    The first batch shows names, dtypes and shapes. Other batches may have other sizes of T and B; each is compiled
    once. With the batches of layers.train, updates compute the same bits. Arguments as there, without data, folder and
    reports.
    """

    def __init__(self, network: Callable[..., Value | Mapping[str, Value]], inputs: Mapping, targets: Mapping,
                 loss: Callable[..., Value | tuple], *, parameters: Mapping | str | os.PathLike | None = None,
                 settings: Mapping | None = None, backend: str = "cpu", threads: int = 0):
        _arguments.function("layers.Trainer: network", network)
        batch = _arguments.batch(inputs, targets)
        self._inputs, self._all = set(inputs), set(batch)
        self._trainer = _core._Trainer(network, _arguments.by_name(loss, self._all), list(inputs), list(targets), batch,
                                       _arguments.settings(settings),
                                       {} if parameters is None else _parameters(parameters), backend, threads)

    def update(self, inputs: Mapping | Sequence[Mapping], targets: Mapping | Sequence[Mapping],
               lr: float | None = None) -> dict:
        """Make one optimizer step and return a dict: update, loss before the step, lr, gradient_norm, metrics, skipped.

        With train.accumulate = N, inputs and targets are lists of 1 to N batches each, and the gradient is that of one
        batch that holds them all. lr replaces the rate of the schedule. An update whose loss or gradient is not finite
        is skipped.
        """
        batches = _arguments.batches(inputs, targets, self._trainer.accumulate)
        return self._trainer.update([_arguments.batch(*each, self._all) for each in batches], lr)

    def evaluate(self, inputs: Mapping, targets: Mapping) -> dict:
        """Return loss and metrics of a batch, without dropout."""
        return self._trainer.evaluate(_arguments.batch(inputs, targets, self._all))

    def predict(self, inputs: Mapping) -> dict:
        """Return the outputs of the network as a dict of arrays, without dropout."""
        return self._trainer.predict(_arguments.batch(inputs, {}, self._inputs))

    def state_dict(self) -> dict:
        """Return copies of the parameters, by PyTorch's names. With weight averaging: the averages."""
        return self._trainer.state_dict()

    def load_state_dict(self, parameters: Mapping) -> None:
        """Replace all parameters."""
        self._trainer.load_state_dict(dict(_arguments.mapping("parameters", "arrays by name", parameters)))

    def save(self, path: str | os.PathLike) -> None:
        """Write parameters, optimizer state and position to a file, with which load() continues bit for bit."""
        self._trainer.save(_arguments.path("Trainer.save: path", path))

    def load(self, path: str | os.PathLike) -> None:
        """Continue from a file of save(), or from last.safetensors of a run folder."""
        self._trainer.load(_arguments.path("Trainer.load: path", path))

    @property
    def updates(self) -> int:
        """Updates made so far."""
        return self._trainer.updates


def _parameters(given):
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return _core._load_model(path) if path.endswith(".safetensors") else _core._load_arrays(path)
    return dict(_arguments.mapping("parameters", "arrays by name, or a file", given))
