#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python module, as a user of NumPy meets it. usage: check_python.py UNROLL; PYTHONPATH has the package."""
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import unroll
from checks import check, finish, refused

ROOT = pathlib.Path(__file__).parents[2]
SKIPPED = []
KINDS = ["language-model", "document", "label", "translate", "summarize", "forecast", "classify", "regress"]


def address(array):
    return array.__array_interface__["data"][0]


def trained(folder, kind):
    """A model of some updates on sample data."""
    subprocess.run([UNROLL, "new", kind, folder / kind], check=True, capture_output=True)
    return unroll.train(folder / kind / "config.toml", settings={"train.max_updates": 4}).model


def every_task_predicts(folder):
    models = {kind: trained(folder, kind) for kind in KINDS}
    probability = models["language-model"].predict(["the sea"])
    check(len(probability) == 1 and probability[0] < 0, f"a language model scores a text: {probability}")
    text = models["language-model"].generate("the ", length=20, seed=1)
    check(text == models["language-model"].generate("the ", length=20, seed=1), f"it samples by seed: {text!r}")
    (label, p), *_ = models["document"].predict(["my sister sees the sea."], top_k=2)[0]
    check(isinstance(label, str) and 0 < p <= 1, f"a document gets labels with probabilities: {label} {p:.3f}")
    labels = models["label"].predict(["my sister sees", ["the", "sea"]])
    check([len(line) for line in labels] == [3, 2], f"tokens get labels: {labels}")
    check(isinstance(models["translate"].predict(["abc"])[0], str), "a line is translated")
    check(isinstance(models["summarize"].predict(["bob sold a school in komar ."])[0], str), "a text is summarized")
    model = models["forecast"]
    series = model.inputs[0].axes[2]
    history = 10 + np.sin(np.arange(80 * series)).reshape(80, series)
    ahead = model.predict([history, history + 1], steps=3)
    check([a.shape for a in ahead] == [(3, series)] * 2, "histories are continued by as many steps as asked for")
    width = len(model.predict([history])[0])
    check(width >= 1, f"without a number of steps they are continued by the horizon: {width}")
    model = models["classify"]
    columns = np.prod([axis for axis in model.inputs[0].axes if axis not in ("T", "B")])
    rows = np.zeros((2, int(model.metadata.get("steps", 1) or 1) * int(columns)))
    labels = model.predict(rows.tolist(), top_k=1)
    check(len(labels) == 2, f"rows are classified: {labels[0]}")
    values = models["regress"].predict(rows[:1])
    check(values[0].shape == (1,) and np.isfinite(values[0]).all(), f"numbers are predicted for rows: {values[0]}")
    check("regress: rows of numbers -> " in unroll.Model.predict.__doc__, "the help lists every task")
    for kind in KINDS:
        names = [spec.name for spec in models[kind].inputs]
        check(names and models[kind].task.replace("_", "-") == kind, f"{kind}: reads {names}")
    return models


def outputs_that_are_not_finite_raise(models):
    """predict() and generate() raise; run() returns what the network computes."""
    model = models["regress"]
    columns = int(np.prod([axis for axis in model.inputs[0].axes if axis not in ("T", "B")]))
    rows = np.ones((1, int(model.metadata.get("steps", 1) or 1) * columns)).tolist()
    inputs = {"classify": rows, "regress": rows, "forecast": [np.ones((80, models["forecast"].inputs[0].axes[2]))],
              "document": ["my sister sees the sea."], "label": ["my sister sees"], "translate": ["abc"],
              "summarize": ["bob sold a school in komar ."], "language-model": ["the sea"]}
    for kind, given in inputs.items():
        model = models[kind]
        state = model.state_dict()
        for value in (np.nan, np.inf, -np.inf):
            model.load_state_dict({name: np.full_like(array, value) for name, array in state.items()})
            refused(unroll.NumericError, "the model's output is not", model.predict, given)
            if kind == "language-model":
                refused(unroll.NumericError, "not finite", model.generate, "the ", length=5)
        if kind == "regress":
            x = {"x": np.ones([2 if axis in ("T", "B") else axis for axis in model.inputs[0].axes], np.float32)}
            check(not np.isfinite(list(model.run(x).values())[0]).any(), "run() returns NaN as it is")
        model.load_state_dict(state)


def arrays_are_not_copied(model):
    x = np.linspace(330, 334, 5, dtype=np.float32).reshape(5, 1, 1)
    y = model.run({"x": x})["forecast"]
    check(y.dtype == np.float32 and y.shape == (1, model.outputs[0].axes[1], 1), "run() returns arrays of its outputs")
    check(y.base is not None and not y.flags.owndata, "what it returns is the memory of the library")
    check(unroll._core._addresses({"x": x})["x"] == address(x), "run() reads a contiguous array where it is")
    packed = np.zeros(5, np.dtype([("pad", "u1"), ("x", "f4")]))["x"].reshape(5, 1, 1)
    check(unroll._core._addresses({"x": packed})["x"] % 4 == 0, "an array that is not aligned is copied")
    stream = model.stream()
    steps = [stream.step(x[t, 0]) for t in range(5)]
    check(np.allclose(steps[-1], y[0, :, 0], rtol=3e-5), "steps of a stream give what run() gives for the sequence")
    out = np.empty(stream.outputs, np.float32)
    check(address(stream.step(x[0, 0], out=out)) == address(out), "a step writes into the array given as out")
    check(np.array_equal(model.run({"x": np.asfortranarray(np.repeat(x, 2, 1))[:, :1]})["forecast"], y),
          "a strided array is read in its own order")
    refused(unroll.DTypeError, "arrays are float32", model.run, {"x": x.astype(np.int64)})
    refused(unroll.DTypeError, "expected f32[T,B,1], got f64[5,1,1]", model.run, {"x": x.astype(float)})
    refused(unroll.ShapeError, "expected f32[T,B,1], got f32[5,1]", model.run, {"x": x[:, 0]})
    refused(unroll.UsageError, "'x' f32[T,B,1] is missing", model.run, {})
    refused(unroll.UsageError, "there is no input 'z'", model.run, {"x": x, "z": x})
    refused(unroll.ShapeError, "a step reads 1 values", stream.step, np.zeros(3, np.float32))
    refused(unroll.DTypeError, "expected an array of numbers, got str", stream.step, "abc")
    refused(unroll.UsageError, "got lane 3", stream.reset, 3)
    refused(unroll.UsageError, "unknown weight format 'int4'", model.stream, weights="int4")


def states_are_saved(model):
    a = model.stream(lanes=2)
    a.step(np.full((2, 1), 331, np.float32))
    b, c = a.fork(), model.stream(lanes=2)
    c.restore(a.save())
    x = np.full((2, 1), 332, np.float32)
    y = a.step(x)
    check(np.array_equal(y, b.step(x)) and np.array_equal(y, c.step(x)), "a saved and a forked state go on alike")
    refused(unroll.UsageError, "state", c.restore, {})


def parameters_go_both_ways(model, folder):
    state = model.state_dict()
    check({"output.weight", "output.bias"} <= set(state), f"parameters have PyTorch's names: {sorted(state)}")
    x = {"x": np.full((3, 1, 1), 331, np.float32)}
    before = model.run(x)["forecast"]
    path = folder / "saved.safetensors"
    model.save(str(path))
    model.load_state_dict({name: 0 * value for name, value in state.items()})
    check(not np.array_equal(model.run(x)["forecast"], before), "load_state_dict() replaces them")
    model.load_state_dict(state)
    check(np.array_equal(model.run(x)["forecast"], before), "and brings them back")
    check(np.array_equal(unroll.load(path).run(x)["forecast"], before), "a saved model gives the same bits")
    refused(unroll.UsageError, "is no parameter", model.load_state_dict, {**state, "other": np.zeros(1, np.float32)})
    refused(unroll.UsageError, "is missing", model.load_state_dict, {})
    try:
        import torch
    except ImportError:
        SKIPPED.append("tensors of PyTorch, which is not installed")
        return
    y = model.run({"x": torch.full((3, 1, 1), 331.0)})["forecast"]
    check(np.array_equal(y, before), "PyTorch's tensors are read")


CONFIG = {"task": {"kind": "forecast"},
          "data": {"path": str(ROOT / "docs/examples/data/co2.csv"), "window": 52, "horizon": 1,
                   "difference": "none", "scale": "series"},
          "model": {"autoregression": False, "cell": "mine", "hidden": 8},
          "cells": {"mine": {"states": ["h"], "step": "h' = tanh(affine(x, h))"}},
          "train": {"max_updates": 30, "log_every": 5, "validate_every": 10, "batch": 4}}


def training_is_called_from_python(folder):
    reports = []
    run = unroll.train(CONFIG, folder / "run", on_report=reports.append)
    updates = [r["update"] for r in reports]
    check(run.updates == 30 and sorted(set(updates)) == [5, 10, 15, 20, 25, 30] and updates == sorted(updates),
          "reports arrive in order")
    check(any(r["validation_loss"] is not None for r in reports), "some follow a validation")
    names = sorted(path.name for path in (folder / "run").iterdir())
    check({"config.toml", "best.safetensors", "metrics.jsonl"} <= set(names), f"a run folder is written: {names}")
    x = {"x": np.full((3, 1, 1), 331, np.float32)}
    check(np.array_equal(unroll.load(folder / "run").run(x)["forecast"], run.model.run(x)["forecast"]),
          "the run's model is that of the folder")
    straight = unroll.train(CONFIG, settings={"train.max_updates": 40}).model.state_dict()
    refused(unroll.UsageError, "not empty", unroll.train, CONFIG, folder / "run")
    longer = unroll.train(CONFIG, folder / "run", settings={"train.max_updates": 40}, resume=True)
    last = unroll.load(folder / "run/last.safetensors").state_dict()
    check(longer.updates == 40 and all(np.array_equal(last[k], straight[k]) for k in last),
          "a resumed run is bit-equal")
    stopped = unroll.train(CONFIG, on_report=lambda report: report["update"] < 10)
    check(stopped.updates == 10 and stopped.interrupted, "a callback that returns False ends the run")
    initial = unroll.build(CONFIG).state_dict()
    check({k: v.shape for k, v in initial.items()} == {k: v.shape for k, v in straight.items()} and
          not np.array_equal(initial["output.weight"], straight["output.weight"]), "build() trains nothing")
    refused(unroll.InputFileError, "Did you mean", unroll.train, {**CONFIG, "train": {"max_update": 3}})
    refused(unroll.UsageError, "'train.lr' must be", unroll.train, {**CONFIG, "train": {"lr": object()}})
    refused(unroll.InputFileError, "nothing.toml", unroll.train, folder / "nothing.toml")

    def fails(report):
        raise KeyError("mine")
    try:
        unroll.train(CONFIG, folder / "failed", on_report=fails)
        check(False, "an exception of a callback is raised")
    except KeyError as error:
        check(error.args == ("mine",) and (folder / "failed/last.safetensors").exists(),
              "an exception of a callback is raised after the run was saved")


def ctrl_c_saves_and_raises(folder):
    config = {**CONFIG, "train": {**CONFIG["train"], "max_updates": 10_000_000}}
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        unroll.train(config, folder / "long")
        check(False, "Ctrl-C ends a run")
    except KeyboardInterrupt:
        check((folder / "long/last.safetensors").exists(), "Ctrl-C ends a run, which is saved")


def ctrl_c_ends_the_reading_of_data(folder):
    words = np.random.default_rng(0).integers(0, 26**4, 300_000)
    letters = (words[:, None] // 26 ** np.arange(4) % 26 + ord("a")).astype(np.uint8)
    text = np.concatenate([letters, np.full((len(words), 1), ord(" "), np.uint8)], 1).tobytes()
    (folder / "words.txt").write_bytes(text)
    config = {"task": {"kind": "language-model"}, "data": {"path": str(folder / "words.txt"), "tokens": "bpe",
              "vocabulary": 60_000}, "model": {"cell": "gru", "hidden": 4}, "train": {"max_updates": 10_000_000}}
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        unroll.train(config, folder / "read")
        check(False, "Ctrl-C ends a call that reads data")
    except KeyboardInterrupt:
        check(not (folder / "read").exists(), "Ctrl-C ends a call that reads data, and nothing is written")


def threads_do_not_race(model):
    stream, seen = model.stream(lanes=512), []
    x = np.full((512, 1), 331, np.float32)

    def work():
        for _ in range(200):
            try:
                stream.step(x)
                seen.append("done")
            except unroll.UsageError as error:
                seen.append("busy" if "another thread" in str(error) else str(error))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(set(seen) <= {"done", "busy"} and "done" in seen,
          f"4 threads on one stream: {seen.count('done')} steps, {seen.count('busy')} refused")
    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)
    counter = threading.Thread(target=count)
    counter.start()
    unroll.train(CONFIG, settings={"train.max_updates": 300})
    stop.set()
    counter.join()
    check(turns[0] > 20, f"Python goes on while a run trains: {turns[0]} turns of another thread")


def stubs_name_everything():
    stub = pathlib.Path(unroll.__file__).with_name("_core.pyi").read_text()
    for name in ("class Model", "class Stream", "class Run", "def predict", "def step"):
        check(name in stub, f"the type stub has {name}")
    missing = [name for name in unroll.__all__ if not getattr(unroll, name).__doc__]
    check(not missing, f"everything is documented {missing}")


def examples_of_the_docs_run(folder):
    """The Python blocks of docs/python.md, as one program each, in one folder."""
    for program in re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.M | re.S):
        if "matplotlib" in program and not importlib.util.find_spec("matplotlib"):
            SKIPPED.append("the plot of docs/python.md: matplotlib is not installed")
            continue
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, text=True, capture_output=True)
        check(done.returncode == 0, f"docs/python.md: {program.splitlines()[-1]} {done.stderr[-400:]}")


UNROLL = sys.argv[1]
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        models = every_task_predicts(work)
        outputs_that_are_not_finite_raise(models)
        co2 = unroll.train(CONFIG).model
        arrays_are_not_copied(co2)
        states_are_saved(co2)
        parameters_go_both_ways(co2, work)
        training_is_called_from_python(work)
        ctrl_c_saves_and_raises(work)
        ctrl_c_ends_the_reading_of_data(work)
        threads_do_not_race(co2)
        stubs_name_everything()
        examples_of_the_docs_run(work)
    for what in SKIPPED:
        print("skipped:", what)
    finish()
