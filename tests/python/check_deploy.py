#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of layer functions without Python: streams, folders for the command, and C++ headers. PYTHONPATH has the
package. Usage: check_deploy.py UNROLL"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import unroll
from checks import check, finish, refused
from unroll import layers

UNROLL = sys.argv[1]
RNG = np.random.default_rng(0)


def network(x):
    """Convolution, a cell of its own with a window, an LSTM, and connections around them."""
    y = layers.relu(layers.conv(x, 8, 5, name="front"))
    z, _ = layers.cell(y, 6, """
        f  = sigmoid(affine(x, h))
        h' = f * h + (1 - f) * tanh(affine(window(x, 3)))""", name="own")
    y, _ = layers.lstm(z, 6, name="rnn")
    return {"y": layers.linear(y + z, 2, name="head") + x[..., :1], "gate": layers.sigmoid(z)[..., :3]}


def main_of(name, steps):
    return f'''#include <cstdio>
#include "{name}.h"
int main() {{
  unroll_Model::Model model;
  float x[3], y[2];
  for (int t = 0; t < {steps}; ++t) {{
    for (float& v : x) if (std::scanf("%f", &v) != 1) return 1;
    model.step(x, y);
    std::printf("%.9g %.9g\\n", y[0], y[1]);
  }}
}}
'''


def deployed(folder):
    model = layers.model(network, {"x": ("T", "B", 3)}, seed=1)
    x = RNG.standard_normal((40, 1, 3)).astype(np.float32)
    wanted = model.run({"x": x})
    stream = model.stream()
    found = np.stack([stream.step(x[t]) for t in range(len(x))])
    check(np.abs(found.reshape(wanted["y"].shape) - wanted["y"]).max() < 1e-6, "a stream of a network is the network")
    model.export(folder / "run")
    again = unroll.load(folder / "run")
    for name in ("y", "gate"):
        check(np.abs(again.run({"x": x})[name] - wanted[name]).max() < 1e-6, f"a folder computes {name}")
    model.export(folder / "one.safetensors")
    of_file = unroll.load(folder / "one.safetensors").run({"x": x})
    check(np.array_equal(of_file["y"], again.run({"x": x})["y"]), "a file is the same model")
    lines = "\n".join(" ".join(map(str, row)) for row in x[:, 0])
    done = subprocess.run([UNROLL, "stream", folder / "run"], input=lines, text=True, capture_output=True)
    rows = np.array([line.split(",") for line in done.stdout.splitlines()], float)
    check(rows.shape == (40, 2) and np.abs(rows - wanted["y"][:, 0]).max() < 1e-5, "the command streams the folder")
    model.export(folder / "model.h")
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler:
        (folder / "main.cc").write_text(main_of("model", 40))
        subprocess.run([compiler, "-std=c++17", "-O1", "-o", folder / "main", folder / "main.cc"], check=True)
        text = subprocess.run([folder / "main"], input=lines, text=True, capture_output=True, check=True).stdout
        rows = np.array([line.split() for line in text.splitlines()], float)
        check(np.abs(rows - wanted["y"][:, 0]).max() < 1e-5, "a C++ header computes what the network computes")
    ahead = layers.model(lambda x: layers.conv(x, 2, 5, padding="same", name="c"), {"x": ("T", "B", 3)})
    refused(unroll.UnsupportedError, "looks ahead 2 steps", ahead.stream)
    late = ahead.stream(delay=2)
    found = np.concatenate([late.step(x[t]) for t in range(len(x))]).reshape(-1, 2)
    check(np.abs(found[2:] - ahead.run({"x": x})["y"][:-2, 0]).max() < 1e-6, "a stream waits for later inputs")


def trained(folder):
    data = [RNG.standard_normal((n, 2)).astype(np.float32) for n in (12, 9, 15, 7, 11, 8) * 3]
    targets = np.array([[s[:, 0].mean()] for s in data], np.float32)

    def mean(x, x_lengths):
        y, (h,) = layers.gru(x, 6, lengths=x_lengths, name="gru")
        return layers.linear(h[-1], 1, name="head")

    run = layers.train(mean, {"x": data}, {"target": targets}, lambda y, target: layers.mean(layers.mse(y, target)),
                       batch=3, out=folder / "trained", settings={"train.max_updates": 5})
    wanted = run.model.run({"x": data[0][:, None], "x_lengths": np.array([12], np.int32)})["y"]
    found = unroll.load(folder / "trained").run({"x": data[0][:, None]})["y"]
    check(np.abs(found - wanted).max() < 1e-6, "the folder of a trained network runs without its function")


def refusals():
    def loop(x):
        rows = []
        for t in range(x.shape[0]):
            rows.append(layers.tanh(x[t]))
        return layers.stack(rows)

    model = layers.model(loop, {"x": ("T", "B", 2)})
    refused(unroll.UnsupportedError, "loops over the steps in Python", model.stream)
    two = layers.model(lambda a, b: a + b, {"a": ("T", "B", 2), "b": ("T", "B", 2)})
    refused(unroll.UnsupportedError, "one input", two.export, "x.h")
    one = layers.model(lambda x: x * 2, {"x": ("T", "B", 2)})
    refused(unroll.UsageError, "the path ends in .onnx", one.export, "x.onnx")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        deployed(pathlib.Path(work))
        trained(pathlib.Path(work))
    refusals()
    finish()
