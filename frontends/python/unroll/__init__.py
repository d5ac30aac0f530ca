# SPDX-License-Identifier: Apache-2.0
"""Train and run recurrent networks from Python.

    run = unroll.train("config.toml", out="runs/x")   # or a dict instead of a file
    model = unroll.load("runs/x")
    model.predict(["a text", "another one"])          # raw inputs of the model's task
    model.run({"x": x})                               # arrays by name, whole sequences
    stream = model.stream()
    y = stream.step(x)                                # step by step, with carried state
    unroll.evaluate("runs/x")                         # metrics on the test set, beside baselines
    unroll.forecast(frame, horizon=12)                # the next values of each series of a table
    unroll.backtest(frame, horizon=12)                # forecasts of its last values, beside baselines

unroll.layers builds networks out of layer functions, and trains them.
"""
from . import _arguments, _core, layers
from .forecasts import backtest, forecast
from ._core import (DeviceError, DifferError, DTypeError, Error, GraphError, InputFileError, InternalError, Model,
                    NumericError, OutOfMemoryError, PeerError, Run, ShapeError, StorageError, Stream, TensorSpec,
                    UnsupportedError, UsageError, __version__)

__all__ = ["DeviceError", "DifferError", "DTypeError", "Error", "GraphError", "InputFileError", "InternalError",
           "Model", "NumericError", "OutOfMemoryError", "PeerError", "Run", "ShapeError", "StorageError", "Stream",
           "TensorSpec", "UnsupportedError", "UsageError", "__version__", "backtest", "build", "evaluate", "forecast",
           "layers", "load", "load_arrays", "train"]


def load(path, backend="cpu", threads=0):
    """Load a model that training wrote: a run folder or a safetensors file. With threads=0 it uses all processors."""
    return _core._load(_arguments.path("unroll.load: path", path), backend, threads)


def load_arrays(path):
    """Return the tensors of a file as a dict of arrays by name: safetensors, torch.save, torch.jit.save or .npz.

    Nothing in the file is executed. Tensors of whole modules and training states have the keys and attributes around
    them as names, joined by dots; weight norm, spectral norm and pruning are folded into their weights. float16 and
    bfloat16 become float32, integers int32.
    """
    return _core._load_arrays(_arguments.path("unroll.load_arrays: path", path))


def train(config, out=None, *, settings=None, resume=False, on_report=None):
    """Train the model of a config and return a Run, whose `model` is the trained one.

    config      the path of a TOML file, or the same as a dict: {"task": {"kind": "forecast"}, "data": {...}}.
                In a dict data.path counts from the current folder, in a file from the file's folder.
    out         run folder to write, as `unroll train --out`; None writes nothing
    settings    a dict of keys that replace the config's: {"train.max_updates": 500}
    resume      continue the run in `out`; the result is bit-identical to that of an uninterrupted run
    on_report   a function that gets a dict for each report: update, loss, metrics, validation_loss, ...
                The run ends and is saved when it returns False.

    Ctrl-C ends the run after its update, saves it and raises KeyboardInterrupt, whose attribute `run` is the Run so
    far. Before the first update, while data are read, it ends the call and nothing is written.
    """
    return _core._train(*_text_of(config), _arguments.settings(settings),
                        "" if out is None else _arguments.path("unroll.train: out", out), resume,
                        None if on_report is None else _arguments.function("unroll.train: on_report", on_report))


def evaluate(run, split="test", *, settings=None):
    """Evaluate the best checkpoint of a run folder, as `unroll eval`.

    run         the folder
    split       "train", "validation" or "test"
    settings    keys of the config to replace, such as {"data.test": "new.csv"}

    Return a dict: `loss`, `metrics` by name, and `baselines`: the metrics of each.
    """
    return _core._evaluate(_arguments.path("unroll.evaluate: run", run), split, _arguments.settings(settings))


def build(config, *, settings=None):
    """Return the model of a config with its initial parameters, untrained. The config's data are read: sizes and
    vocabularies follow from them."""
    return _core._build(*_text_of(config), _arguments.settings(settings))


def _text_of(config):
    """A path and False, or the text of a dict and True."""
    return (_toml(config), True) if isinstance(config, dict) else (_arguments.path("config", config), False)


def _toml(table, path=""):
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    text = "".join(f"{key} = {_arguments.value_text(f'{path}.{key}', value)}\n" for key, value in values.items())
    for key, value in table.items():
        if isinstance(value, dict):
            name = f"{path}.{key}" if path else key
            text += f"[{name}]\n" + _toml(value, name)
    return text
