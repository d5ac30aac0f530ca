#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: every function raises an error of unroll that names the argument, or runs. Arrays of every kind are
read as they are, or refused. usage: check_calls.py UNROLL; PYTHONPATH has the package."""
import inspect
import pathlib
import tempfile

import numpy as np

import unroll
from checks import check, finish, refused
from unroll import layers

try:
    import torch
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = {"task": {"kind": "forecast"},
          "data": {"path": str(ROOT / "docs/examples/data/co2.csv"), "window": 52, "horizon": 1,
                   "difference": "none", "scale": "series"},
          "model": {"autoregression": False, "cell": "gru", "hidden": 4}, "train": {"max_updates": 2, "batch": 4}}
X = np.zeros((3, 2, 4), np.float32)
ODD = [None, "abc", 3.5, -1, 2**70, [], {}, object(), [None], {"x": None}, np.zeros(2),
       lambda *given, **named: 0, b"x"]


class Negated:
    """As a tensor of PyTorch whose negative bit is set: its memory has the numbers with the other sign."""

    def __init__(self, array):
        self.array = array

    def is_neg(self):
        return True

    def resolve_neg(self):
        return -self.array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def network(x):
    return layers.linear(x, 1, name="head")


def squared(y, target):
    return layers.mean(layers.mse(y, target))


def methods(folder):
    """Functions with arguments that are right, by name."""
    model = unroll.train(CONFIG).model
    history = 330 + np.sin(np.arange(100))
    stream = model.stream()
    built = layers.model(network, {"x": ("T", "B", 4)})
    trainer = layers.Trainer(network, {"x": X}, {"target": X[..., :1]}, squared)
    examples = np.zeros((20, 4))
    few = {"train.max_updates": 1}
    path = folder / "model.safetensors"
    model.save(path)
    batch = {"inputs": {"x": X}, "targets": {"target": X[..., :1]}}
    yield "Model.run", model.run, {"inputs": {"x": X[..., :1]}}
    yield "Model.predict", model.predict, {"inputs": [history], "top_k": 1, "steps": 2, "beam": 1}
    yield "Model.generate", model.generate, {"prompt": "a", "length": 2, "temperature": 1.0, "top_k": 1, "top_p": 0.5,
                                             "seed": 1}
    yield "Model.stream", model.stream, {"lanes": 1, "chunk": 1, "weights": "f32"}
    yield "Model.load_state_dict", model.load_state_dict, {"parameters": model.state_dict()}
    yield "Model.save", model.save, {"path": path}
    yield "Stream.step", stream.step, {"x": np.zeros(1, np.float32), "out": np.zeros(stream.outputs, np.float32)}
    yield "Stream.reset", stream.reset, {"lane": 0}
    yield "Stream.restore", stream.restore, {"state": stream.save()}
    yield "load", unroll.load, {"path": path, "backend": "cpu", "threads": 1}
    yield "build", unroll.build, {"config": CONFIG, "settings": few}
    yield "train", unroll.train, {"config": CONFIG, "out": None, "settings": few, "resume": False, "on_report": None}
    yield "layers.model", layers.model, {"network": network, "inputs": {"x": ("T", "B", 4)}, "seed": 1,
                                         "parameters": built.state_dict(), "backend": "cpu", "threads": 1}
    yield "layers.train", layers.train, {"network": network, "inputs": {"x": examples}, "loss": squared, "batch": 2,
                                         "targets": {"target": examples[:, :1]}, "settings": few, "out": None,
                                         "validation": 0.1, "pad_to_multiple": 0, "parameters": None, "resume": False,
                                         "on_report": None, "backend": "cpu", "threads": 1}
    yield "layers.Trainer", layers.Trainer, {"network": network, **batch, "loss": squared, "parameters": None,
                                             "settings": {}, "backend": "cpu", "threads": 1}
    yield "Trainer.update", trainer.update, {**batch, "lr": 0.1}
    yield "Trainer.evaluate", trainer.evaluate, batch
    yield "Trainer.predict", trainer.predict, {"inputs": {"x": X}}
    yield "Trainer.load_state_dict", trainer.load_state_dict, {"parameters": trainer.state_dict()}
    yield "Trainer.save", trainer.save, {"path": folder / "trainer"}
    yield "Trainer.load", trainer.load, {"path": folder / "trainer"}


def raw_error(call, arguments):
    """The error of the call if it is none of unroll; None where the call runs or is refused."""
    try:
        call(**arguments)
    except unroll.Error as error:
        return None if "incompatible function arguments" not in str(error) else error
    except Exception as error:
        return None if "network() missing" in str(error) else error  # the own function of the caller
    return None


def wrong_arguments_are_named(folder):
    n = 0
    for name, call, right in methods(folder):
        first = raw_error(call, right)
        check(first is None, f"{name} takes its arguments {first or ''}")
        wrong = []
        for argument in right:
            for odd in ODD:
                error = raw_error(call, {**right, argument: odd})
                n += 1
                if error:
                    wrong.append(f"{argument}={odd!r:.30}: {type(error).__name__}: {error!s:.200}")
        check(not wrong, f"{name} refuses odd arguments with errors of unroll {wrong[:5]}")
    check(n > 500, f"{n} calls with an odd argument")


def wrong_arguments_of_layers_are_named():
    """In a network, whose x is a Value: each function with each odd argument."""
    names = [n for n in layers.__all__ if n not in ("Trainer", "Value", "model", "train")]
    wrong, n = [], 0
    one = {"outputs": 3, "hidden": 3, "width": 4, "tokens": 5, "heads": 2, "axis": 0, "start": 0, "size": 1,
           "shape": [24], "axes": [1, 0, 2], "rate": 0.1, "steps": 3, "quantile": 0.5, "step": "mgu", "name": "n"}

    def tried(x):
        nonlocal n
        for name in names:
            function = getattr(layers, name)
            try:
                known = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
            except ValueError:
                known = list(__import__("re").findall(r"(\w+):[^=,]*(?=[,)])", function.__doc__.split(") ->")[0] + ")"))
            right = {k: one.get(k, x) for k in known}
            if name == "concat":
                right = {"parts": [x, x]}
            for argument in right:
                for odd in ODD:
                    if argument == "name":
                        continue
                    error = raw_error(function, {**right, argument: odd})
                    n += 1
                    if error:
                        wrong.append(f"{name} {argument}={odd!r:.30}: {type(error).__name__}: {error!s:.150}")
            error = raw_error(function, {**right, "dims": True})
            if error and not isinstance(error, TypeError) or error and "incompatible" in str(error):
                wrong.append(f"{name} dims: {error!s:.150}")
        for odd in (np.zeros(3), "a", None, [1]):
            for operate in ("__add__", "__radd__", "__sub__", "__mul__", "__truediv__", "__and__", "__getitem__"):
                error = raw_error(getattr(x, operate), {"arg" if operate != "__getitem__" else "index": odd}) \
                    if operate == "__getitem__" else raw_error(lambda: getattr(x, operate)(odd), {})
                n += 1
                if error:
                    wrong.append(f"{operate} {odd!r:.20}: {error!s:.150}")
        return x

    layers.model(tried, {"x": ("T", "B", 4)})
    check(not wrong, f"{n} calls of layer functions with an odd argument raise errors of unroll {wrong[:8]}")


def errors_say_what_is_wrong():
    def fails(kind, text, call):
        def tried(x):
            refused(kind, text, call, x)
            return x
        layers.model(tried, {"x": (3, 2, 4)})
    fails(unroll.DTypeError, "[layers.linear] 'outputs' must be an integer; got 'a'", lambda x: layers.linear(x, "a"))
    fails(unroll.DTypeError, "[layers.mean] there is no argument 'dims'. The arguments are x, axis, keepdims",
          lambda x: layers.mean(x, dims=True))
    fails(unroll.DTypeError, "[layers.linear] the argument 'outputs' is missing", lambda x: layers.linear(x))
    fails(unroll.ShapeError, "shapes must broadcast; got [3,2,4] and [3]", lambda x: x + np.zeros(3))
    fails(unroll.DTypeError, "an operand", lambda x: x + "a")
    fails(unroll.DTypeError, "'states' must be a list with a Value at each place or None; got a list of an array",
          lambda x: layers.gru(x, 4, states=[np.zeros((1, 2, 4), np.float32)]))
    refused(unroll.DTypeError, "unroll.load: path] must be a path; got 3", unroll.load, 3)
    refused(unroll.DTypeError, "[unroll.load] 'threads' must be an integer; got '2'", unroll.load, "x", threads="2")
    refused(unroll.DTypeError, "dtype float32, float64, int32, bool; got 'int64'", layers.model, network,
            {"x": ("int64", "T", "B")})


def indices_out_of_range_are_refused(folder):
    ids = layers.model(lambda ids: layers.embedding(ids, 5, 4, name="e"), {"ids": ("int32", "T", "B")})
    good = np.arange(4, dtype=np.int32).reshape(2, 2)
    check(ids.run({"ids": good + 1})["y"].shape == (2, 2, 4), "indices in range are looked up")
    for bad in (-1, 5, 2**31 - 1):
        at = good.copy()
        at[1, 0] = bad
        refused(unroll.UsageError, f"'ids'[1,0] is {bad}, which is outside of the 5 rows", ids.run, {"ids": at})
    part = layers.model(lambda ids: layers.embedding(layers.slice(ids, 1, 0, 1), 5, 4, name="e"),
                        {"ids": ("int32", "T", 2)})
    check(part.run({"ids": good + np.array([[0, 90]], np.int32)})["y"].shape == (2, 1, 4),
          "only what is looked up has to be in range")
    refused(unroll.UsageError, "'ids'[1,0] is 90", part.run, {"ids": np.array([[1, 1], [90, 1]], np.int32)})

    x, labels = np.zeros((40, 4)), np.arange(40) % 4

    def fit(labels):
        return layers.train(lambda x: layers.linear(x, 4, name="h"), {"x": x}, {"label": labels}, lambda y, label:
                            layers.mean(layers.softmax_cross_entropy(y, label)), settings={"train.max_updates": 3})
    fit(labels)
    fit(np.where(labels == 2, -100, labels))  # a negative label is ignored
    refused(unroll.UsageError, "outside of the 4 classes: expected 0 to 3", fit, labels + 1)

    text = folder / "text.txt"
    text.write_text("a sea of words " * 300)
    language = unroll.train({"task": {"kind": "language-model"}, "data": {"path": str(text)},
                             "model": {"cell": "gru", "hidden": 4}, "train": {"max_updates": 1}}).model
    stream = language.stream()
    known = stream.outputs
    stream.step(np.array([1]))
    for bad in (2**32 + 1, -2**40):
        refused(unroll.DTypeError, "integers must fit int32", stream.step, np.array([bad]))
    for bad in (-1, known, 2**31 - 1):
        refused(unroll.UsageError, f"id {bad} is out of range: the model knows 0 to {known - 1}", stream.step, [bad])
    for bad in (1.5, [1.0], np.float32(1), True, "1", None):
        try:
            stream.step(bad)
            check(False, f"{bad!r} is no id")
        except unroll.DTypeError as error:
            check(True, f"{error}")
    ids = np.full((4, 1), known, np.int32)
    refused(unroll.UsageError, f"'ids'[0,0] is {known}", language.run, {language.inputs[0].name: ids})


def arrays_are_read_as_they_are(model):
    """Every way in which an array can lie in memory gives what a plain one gives, or is refused."""
    rng = np.random.default_rng(1)
    plain = (331 + rng.standard_normal((4, 2, 1))).astype(np.float32)
    wanted = model.run({"x": plain})["forecast"]
    wide = np.zeros((8, 4, 2), np.float32)
    wide[::2, ::2, ::2] = plain
    packed = np.zeros((4, 2, 1), np.dtype([("pad", "u1"), ("x", "f4")]))
    packed["x"] = plain
    read_only = plain.copy()
    read_only.flags.writeable = False
    ways = {"strided": wide[::2, ::2, ::2], "in Fortran's order": np.asfortranarray(plain), "in records": packed["x"],
            "with negative strides": np.ascontiguousarray(plain[::-1])[::-1], "read-only": read_only,
            "byte-swapped": plain.astype(">f4"), "a list": plain.tolist() and plain,
            "transposed": np.ascontiguousarray(plain.transpose(1, 0, 2)).transpose(1, 0, 2),
            "negated in memory": Negated(-plain)}
    if torch:
        complex_tensor = torch.complex(torch.zeros(4, 2, 1), -torch.from_numpy(plain))
        ways |= {"a tensor": torch.from_numpy(plain), "a negated tensor": complex_tensor.conj().imag}
        ways["a strided tensor"] = torch.from_numpy(wide)[::2, ::2, ::2]
    for name, x in ways.items():
        check(np.array_equal(model.run({"x": x})["forecast"], wanted), f"run: an array {name} is read as it is")
    for name, x in ways.items():
        stream = model.stream(lanes=2)
        found = [stream.step(step) for step in (x.resolve_neg() if hasattr(x, "resolve_neg") else x)]
        check(np.allclose(found[-1], wanted[:, :, 0].reshape(found[-1].shape), rtol=1e-4), f"step: {name}")
    check(np.array_equal(model.stream(lanes=2).step(Negated(-plain[0])), model.stream(lanes=2).step(plain[0])),
          "step: a negated tensor keeps its signs")
    stream = model.stream()
    refused(unroll.DTypeError, "expected numbers, got dtype complex128", stream.step, np.array([1j]))
    refused(unroll.DTypeError, "expected numbers, got dtype <U3", stream.step, ["1.5"])
    refused(unroll.DTypeError, "1e+300 does not fit float32", stream.step, [1e300])
    refused(unroll.ShapeError, "a step reads 1 values", stream.step, np.zeros(0, np.float32))
    history = np.array(plain[:, :1].repeat(40, 0).ravel(), np.float64)
    wanted = model.predict([history])[0]
    for name, x in {"byte-swapped": history.astype(">f8"), "with negative strides": history[::-1].copy()[::-1],
                    "a column": history[:, None], "negated": Negated(-history), "a list": history.tolist()}.items():
        check(np.array_equal(model.predict([x])[0], wanted), f"predict: a history that is {name}")
    refused(unroll.ShapeError, "inputs[0]] expected [steps, 1], got [1,", model.predict, [history[None]])
    refused(unroll.DTypeError, "inputs[1]] expected an array of numbers, got one number", model.predict, [history, 3.0])
    for name, x in {"an array": history, "of float32": history.astype("f4"), "a list": history.tolist()}.items():
        check(np.array_equal(model.predict(x)[0], wanted), f"predict: one history as {name}")
    refused(unroll.DTypeError, "expected numbers, got dtype complex128", model.predict, [history * 1j])
    x = model.state_dict()
    model.load_state_dict({k: np.asfortranarray(v).astype(">f4") for k, v in x.items()})
    check(all(np.array_equal(v, x[k]) for k, v in model.state_dict().items()), "parameters are read as they are, too")


def out_is_written_or_refused(model):
    wanted = model.stream().step([331.0])
    n = len(wanted)
    wide, packed = np.zeros(2 * n, np.float32), np.zeros(n, np.dtype([("pad", "u1"), ("y", "f4")]))
    ways = {"float32": np.zeros(n, np.float32), "float64": np.zeros(n), "float16": np.zeros(n, np.float16),
            "strided": wide[::2], "with negative strides": np.zeros(n, np.float32)[::-1],
            "byte-swapped": np.zeros(n, ">f4"), "in records": packed["y"],
            "of shape [1, n]": np.zeros((1, n), np.float32), "a strided matrix": np.zeros((n, 3), np.float32)[:, 1]}
    for name, out in ways.items():
        result = model.stream().step([331.0], out=out)
        close = np.allclose(out.ravel(), wanted, rtol=1e-3 if out.dtype == np.float16 else 0)
        check(result is out and close, f"out {name} is written")
    read_only = np.zeros(n, np.float32)
    read_only.flags.writeable = False
    refusals = {"of float32, read-only": read_only, "of integers": np.zeros(n, np.int32), "a list": [0.0] * n,
                "too long": np.zeros(n + 1, np.float32), "too long and strided": np.zeros(2 * n + 2)[::2],
                "of bools": np.zeros(n, bool), "empty": np.zeros(0, np.float32), "negated": Negated(np.zeros(n, "f4")),
                "of objects": np.zeros(n, object), "of complex numbers": np.zeros(n, complex)}
    if torch:
        refusals["a strided tensor"] = torch.zeros(2 * n)[::2]
    for name, out in refusals.items():
        stream, before = model.stream(), np.array(out) if isinstance(out, np.ndarray) else None
        state = stream.save()
        error = None
        try:
            stream.step([331.0], out=out)
        except unroll.Error as caught:
            error = caught
        same = all(np.array_equal(v, stream.save()[k]) for k, v in state.items())
        check(error is not None and same and (before is None or np.array_equal(before, out)),
              f"out {name} is refused and the state stays: {error}")
    if torch:
        out = torch.zeros(n)
        model.stream().step([331.0], out=out)
        check(np.array_equal(out.numpy(), wanted), "a tensor is written")


def saved_models_are_read_again(model, folder):
    path, x = folder / "changed.safetensors", {"x": np.full((3, 1, 1), 331, np.float32)}
    model.save(path)
    for source in (path, folder / "run", folder / "run/last.safetensors"):
        if source.name == "run":
            unroll.train(CONFIG, source)
        loaded = unroll.load(source)
        mean = {k: (v + model.state_dict()[k]) / 2 for k, v in loaded.state_dict().items()}
        loaded.load_state_dict(mean)
        loaded.save(folder / "mean.safetensors")
        again = unroll.load(folder / "mean.safetensors")
        check(all(np.array_equal(v, mean[k]) for k, v in again.state_dict().items())
              and np.array_equal(again.run(x)["forecast"], loaded.run(x)["forecast"]),
              f"{source.name}: new parameters are saved and read again")


def gaps_of_histories_are_filled(folder):
    """As the command fills those of a file."""
    import subprocess
    import sys
    values = np.round(20 + 5 * np.sin(np.arange(300) / 9), 3)
    (folder / "waves.csv").write_text("value\n" + "\n".join(map(str, values)) + "\n")
    gaps = values.copy()
    gaps[[250, 251, 290, 299]] = np.nan
    (folder / "gaps.csv").write_text("value\n" + "\n".join("NA" if np.isnan(v) else str(v) for v in gaps) + "\n")
    for missing in ("previous", "interpolate", "error"):
        config = {"task": {"kind": "forecast"}, "data": {"path": str(folder / "waves.csv"), "missing": missing},
                  "model": {"hidden": 4}, "train": {"max_updates": 2}}
        run = unroll.train(config, folder / missing)
        if missing == "error":
            refused(unroll.UsageError, "row 250 has a missing value", run.model.predict, [gaps])
            continue
        found = run.model.predict([gaps])[0][:, 0]
        done = subprocess.run([sys.argv[1], "predict", folder / missing, "--input", folder / "gaps.csv"], text=True,
                              capture_output=True)
        wanted = [float(line.split(",")[1]) for line in done.stdout.splitlines()[1:]]
        refused(unroll.UsageError, "has no value up to row", run.model.predict, [np.full(300, np.nan)])
        check(len(wanted) == len(found) and np.allclose(found, wanted, rtol=1e-6),
              f"missing = {missing}: predict fills as the command: {done.stderr}")
    refused(unroll.UsageError, "not finite", run.model.predict, [np.where(np.arange(300) == 299, np.inf, values)])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        model = unroll.train(CONFIG).model
        errors_say_what_is_wrong()
        wrong_arguments_are_named(work)
        wrong_arguments_of_layers_are_named()
        indices_out_of_range_are_refused(work)
        arrays_are_read_as_they_are(model)
        out_is_written_or_refused(model)
        saved_models_are_read_again(model, work)
        gaps_of_histories_are_filled(work)
    finish()
