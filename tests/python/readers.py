# SPDX-License-Identifier: Apache-2.0
"""Readers of one model, for tests that compare them: eval, predict, stream, the Python module and the C library."""
import csv
import ctypes
import io
import json
import math
import os
import subprocess
import sys

import numpy as np
import unroll

UNROLL, C_LIBRARY = os.path.abspath(sys.argv[1]), ctypes.CDLL(os.path.abspath(sys.argv[2]))
SMALL = ["--set", "model.hidden=4", "--set", "train.max_updates=4", "--set", "train.validate_every=4", "--set",
         "run.estimate_seconds=0", "--set", "train.batch=4", "--threads", "1"]


def call(*arguments, text=""):
    return subprocess.run([UNROLL, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120)


def ok(*arguments, text=""):
    done = call(*arguments, text=text)
    assert done.returncode == 0, f"{arguments} gave {done.returncode}: {done.stderr}"
    return done.stdout


def train(folder, kind, path, settings, held=()):
    """A run folder; settings are pairs of a key and a value."""
    config = folder / "config.toml"
    ok("new", kind, config, "--data", path)
    more = [part for key, value in settings for part in ("--set", f"{key}={value}")]
    ok("train", config, "--out", folder / "run", *SMALL, *held, *more)
    return folder / "run"


def evaluated(run, *more):
    return json.loads(ok("eval", run, "--json", *more))


def predicted(run, text, *more):
    """Objects of `unroll predict`."""
    return [json.loads(line) for line in ok("predict", run, "--json", *more, text=text).splitlines()]


def c_outputs(run, name, x):
    """Of the C library, for one input."""
    class View(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
                    ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.c_int64 * 6)]

    def done(code):
        C_LIBRARY.unroll_last_error.restype = ctypes.c_char_p
        assert code == 0, C_LIBRARY.unroll_last_error()

    model, predictor = ctypes.c_void_p(), ctypes.c_void_p()
    done(C_LIBRARY.unroll_model_open(str(run / "best.safetensors").encode(), b"", ctypes.byref(model)))
    done(C_LIBRARY.unroll_predictor_new(model, ctypes.byref(predictor)))
    x = np.ascontiguousarray(x, np.float32)
    done(C_LIBRARY.unroll_predictor_set(predictor, b"x", 0, (ctypes.c_int64 * x.ndim)(*x.shape), x.ndim,
                                        x.ctypes.data_as(ctypes.c_void_p)))
    done(C_LIBRARY.unroll_predictor_run(predictor))
    view = View(size=ctypes.sizeof(View))
    done(C_LIBRARY.unroll_predictor_get(predictor, name.encode(), ctypes.byref(view)))
    values = np.frombuffer(ctypes.string_at(view.data, view.bytes), np.float32).reshape(view.dims[:view.rank])
    C_LIBRARY.unroll_predictor_free(predictor)
    C_LIBRARY.unroll_model_close(model)
    return values


def number(cell):
    return math.nan if cell in ("", "NA", "void") else float(cell)


def table(text, separator=",", header=True):
    """Columns by name, or by number from 1."""
    rows = list(csv.reader(io.StringIO(text), delimiter=separator))
    names = rows.pop(0) if header else [str(k + 1) for k in range(len(rows[0]))]
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def same(a, b, what):
    assert np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=2e-4, atol=2e-5), f"{what}: {a} and {b}"


def feature_rows(run, columns):
    """Rows as the model reads them, [rows, T * I], and T."""
    metadata = unroll.load(str(run)).metadata
    values = [[number(cell) for cell in columns[name]] for name in metadata["columns"].splitlines()]
    return np.array(values).T, int(metadata["steps"])


def check_rows(run, text, separator=",", header=True, whole=True):
    """Every reader of a classifier or regressor gives the same for the rows of a file, its test set."""
    verified, columns = evaluated(run), table(text, separator, header)
    model = unroll.load(str(run))
    rows, steps = feature_rows(run, columns)
    is_classifier = model.task == "classify"
    answers = predicted(run, text, *(["--top-k", 9] if is_classifier else []))
    if is_classifier:
        label = columns[model.metadata["label"]]
        chances = [{row["label"]: row["probability"] for row in answer["top"]} for answer in answers]
        same(np.mean([-math.log(chance[truth]) for chance, truth in zip(chances, label)]), verified["loss"], "loss")
        classes = model.metadata["labels"].splitlines()
        told = [[chance[name] for name in classes] for chance in chances]
        given = [[dict(answer)[name] for name in classes] for answer in model.predict(rows, top_k=0)]
    else:
        targets = model.metadata["targets"].splitlines()
        told = [[answer[name] for name in targets] for answer in answers]
        truth = np.array([[float(cell) for cell in columns[name]] for name in targets]).T
        same(np.mean(np.abs(np.array(told) - truth)), verified["metrics"]["mae"], "mae")
        given = model.predict(rows)
    same(given, told, "predict of Python")
    if np.isnan(rows).any() or not whole:
        return
    x = rows.reshape(len(rows), steps, -1).transpose(1, 0, 2).astype(np.float32)
    output = model.outputs[0].name
    same(model.run({"x": x})[output], told, "run of Python")
    same(c_outputs(run, output, x), told, "the C library")
    if call("stream", run, "--input", "/dev/null").returncode != 0:
        return  # it needs the whole sequence, and says so
    last = [json.loads(line) for line in ok("stream", run, "--json", text="\n".join(
        ",".join(map(str, step)) for step in x[:, 0].tolist())).splitlines()][-1]
    same(np.exp(last) / np.exp(last).sum() if is_classifier else last, told[0], "stream")


def check_series(run, text, separator=",", header=True):
    """The same for a forecast, whose test set is a file."""
    verified, model, errors = evaluated(run), unroll.load(str(run)), []
    lines = text.splitlines()
    head, rows = (lines[:1], lines[1:]) if header else ([], lines)
    metadata = model.metadata
    series = int(metadata["series"])
    names = [metadata["column" if s == 0 else f"series.{s}.column"] for s in range(series)]
    columns = table(text, separator, header)
    values = np.array([[number(cell) for cell in columns[name]] for name in names]).T
    horizon = int(metadata["horizon"])
    reads = int(metadata["window"]) + sum(map(int, metadata["difference"].split(",")))
    of_table = "covariates" in metadata
    for at in range(reads, len(rows) - horizon + 1):
        # The rows to forecast have covariates, and no value of the series, the last column.
        to_forecast = [row.rpartition(separator)[0] + separator for row in rows[at:at + horizon] if of_table]
        told = predicted(run, "\n".join(head + rows[:at] + to_forecast) + "\n")
        ahead = np.array([[step[name] for name in names] for step in told])
        errors.append(np.abs(ahead - values[at:at + horizon]))
        history = values[at - reads:at]
        if np.isnan(history).any() or of_table or "calendar" in metadata:
            continue
        same(model.predict([history])[0], ahead, "predict of Python")
        same(model.run({"x": history[:, None].astype(np.float32)})["forecast"][0], ahead, "run of Python")
        same(c_outputs(run, "forecast", history[:, None])[0], ahead, "the C library")
        if at == reads:
            stream = ok("stream", run, "--json", text="\n".join(",".join(map(str, row)) for row in history.tolist()))
            last = np.reshape(json.loads(stream.splitlines()[-1]), (horizon, series))
            # Without windows of its own a stream counts the first values as no change.
            if metadata["difference"] == "0" or metadata["scale"] == "window":
                same(last, ahead, "stream")
    same(np.nanmean(errors), verified["metrics"]["mae"], "mae of windows")
