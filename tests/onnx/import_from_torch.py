#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs models that PyTorch's own exporters wrote. usage: import_from_torch.py UNROLL [--folders]

`unroll run` runs the file; with --folders `unroll import` makes a folder of it first, and runs that.
RNN, GRU and LSTM stacks (layers, directions, batch_first, projection, states), by the TorchScript exporter and by the
default one, each at two sizes other than the exported ones; an axis that the exporter fixed keeps its size. Each case
agrees within 1e-5 relative L2, fails, or is not there for a reason that is printed: the exporter refuses it, or ONNX
Runtime runs what it wrote as wrongly as we do. A file that the exporter unrolled for its length counts as passed if it
agrees at that length and `unroll run` refuses others.
Needs numpy, torch, onnx, onnxscript and onnxruntime.
"""
import contextlib
import itertools
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import protocol  # noqa: E402

TOLERANCE = 1e-5
EXPORTED, OTHERS = (5, 3), ((7, 2), (1, 4))  # steps, batch


class Model(torch.nn.Module):
    def __init__(self, cell, layers, bidirectional, batch_first, projection):
        super().__init__()
        more = {"proj_size": projection} if projection else {}
        make = getattr(torch.nn, cell)
        self.layers = make(6, 8, layers, bidirectional=bidirectional, batch_first=batch_first, **more)
        self.head = torch.nn.Linear((projection or 8) * (2 if bidirectional else 1), 4)

    def forward(self, x):
        y, _ = self.layers(x)
        return self.head(y)


def cases():
    for cell, layers, both, first in itertools.product(("RNN", "GRU", "LSTM"), (1, 2), (False, True), (False, True)):
        yield cell, layers, both, first, 0
    yield "LSTM", 1, False, False, 5


def inputs(size, batch_first):
    steps, batch = size
    return torch.randn((batch, steps, 6) if batch_first else (steps, batch, 6), generator=torch.manual_seed(steps))


def export(model, x, path, default):
    names = {"input_names": ["x"], "output_names": ["y"]}
    if default:
        sizes = {"x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}  # it unrolls nn.RNN, for one T
        torch.onnx.export(model, (x,), path, dynamo=True, dynamic_shapes=sizes, verbose=False, **names)
    else:
        torch.onnx.export(model, (x,), path, dynamo=False, opset_version=17, dynamic_axes={"x": [0, 1], "y": [0, 1]},
                          **names)


def free_axes(path, batch_first):
    """Whether steps and batch are free."""
    dims = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    free = [d.HasField("dim_param") for d in dims[:2]]
    return free[::-1] if batch_first else free


def relative(got, want):
    if got.shape != want.shape:
        return float("inf")
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want))


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split()))


def by_unroll(unroll, path, x, folder):
    protocol.save(folder / "in", {"x": x})
    call(unroll, "run", path, "--input", folder / "in", "--output", folder / "out")
    return protocol.load(folder / "out", torch_names=False)["y"]


def by_folder(unroll, path, x, folder, batch_first):
    """The same by way of `unroll import`: in a folder, time is the first axis."""
    turn = (lambda tensor: np.ascontiguousarray(np.swapaxes(tensor, 0, 1))) if batch_first else np.asarray
    if not (folder / "imported").exists():
        call(unroll, "import", path, "--out", folder / "imported")
    return turn(by_unroll(unroll, folder / "imported", turn(x), folder))


def by_onnxruntime(path, x):
    try:
        return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(["y"], {"x": x})[0]
    except Exception:  # whatever it does not run
        return np.zeros(0)


def verdict(unroll, case, default, folders, folder):
    torch.manual_seed(1)
    model = Model(*case).eval()
    path = folder / "model.onnx"
    try:
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            export(model, inputs(EXPORTED, case[3]), path, default)
    except Exception as e:  # the exporter's own limits
        while e.__cause__:
            e = e.__cause__
        return "not exported", " ".join(str(e).split())[:100]
    largest, (free_steps, free_batch) = 0.0, free_axes(path, case[3])

    def compare(size):
        """Our difference from PyTorch with its text, and that of ONNX Runtime where ours is too large."""
        x = inputs(size, case[3])
        want = model(x).detach().numpy()
        try:
            ours = (by_folder(unroll, path, x.numpy(), folder, case[3]) if folders
                    else by_unroll(unroll, path, x.numpy(), folder))
            found = relative(ours, want)
            reason = f"{found:.1e}"
        except RuntimeError as e:
            found, reason = float("inf"), str(e)
        return found, reason, relative(by_onnxruntime(path, x.numpy()), want) if found > TOLERANCE else 0.0

    for steps, batch in OTHERS:
        size = (steps if free_steps else EXPORTED[0], batch if free_batch else EXPORTED[1])
        found, reason, theirs = compare(size)
        if free_steps and not folders and "exported for another length" in reason:
            free_steps, size = False, (EXPORTED[0], size[1])
            found, reason, theirs = compare(size)
        if found > TOLERANCE:
            if theirs > TOLERANCE:
                reason = f"ONNX Runtime differs by {theirs:.1e}; unroll: {reason[:160]}"
            return ("wrong file" if theirs > TOLERANCE else "FAILED"), f"T={size[0]} B={size[1]}: {reason[:240]}"
        largest = max(largest, found)
    return "passed", f"{largest:.1e}" + ", T is fixed" * (not free_steps) + ", B is fixed" * (not free_batch)


def main(unroll, *options):
    folders = options == ("--folders",)
    warnings.simplefilter("ignore")
    ort.set_default_logger_severity(4)
    counts = {}
    for default, case in itertools.product((False, True), cases()):
        cell, layers, both, first, projection = case
        with tempfile.TemporaryDirectory() as folder:
            word, reason = verdict(unroll, case, default, folders, pathlib.Path(folder))
        counts[word] = counts.get(word, 0) + 1
        text = f"{cell} L={layers}" + " both" * both + " batch_first" * first + f" P={projection}" * bool(projection)
        print(f"{word:12} {'default' if default else 'TorchScript':11} {text}: {reason}", flush=True)
    print(f"torch {torch.__version__}: " + " ".join(f"{word.replace(' ', '_')}={n}" for word, n in counts.items()))
    return 1 if counts.get("FAILED") or not counts.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
