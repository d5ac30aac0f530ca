#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cells given as text in a config, through every command that takes a model. usage: check_text_cells.py UNROLL"""
import math
import os
import pathlib
import subprocess
import tempfile

from command import load, ok, refused, run_checks, save

LEAKY = '''
[cells.leaky]
states = ["slow", "h"]
step = """
h'    = tanh(affine(x, h))
slow' = slow + (h' - slow) / 4
"""
'''
NOISY = '''
[cells.noisy]
states = ["h"]
step = "h' = tanh(affine(x, dropout(h, 0.3)))"
y = "2 * h'"
'''
ODD = '''
[cells.odd]
states = ["h", "m"]
step = """
in = concat(slice(x, 1, input - 1), max(h, 0.1),   # a word of Python
            min(m, h))
is = softmax(linear(in)) + param(p) - min(1e-1, hidden / 4) * abs(-h)
m' = relu(is) - silu(layer_norm(affine(x, m))) / (2 + exp(layer_norm(h)))
h' = tanh(sqrt(softplus(m') + 1) - log(1.5)) * sigmoid(0.5)
"""
y = """concat(h', -m)   # wider than a state
"""
[model]
cell = "odd"
input = 3
hidden = 4
[data]
steps = 5
'''
SMALL = ["--set", "train.batch=4", "--set", "train.checkpoint_every=5", "--threads", "1"]


def run_numbers(folder):
    """run takes and gives the states by their names, and their gradients"""
    (folder / "c.toml").write_text(LEAKY + '[model]\ncell = "leaky"\ninput = 1\nhidden = 1\n')
    w, u, b, x, h0, s0, d_y, d_h = 0.5, -0.25, 0.125, 2.0, 0.75, -1.5, 3.0, 0.5
    names = {"h.weight_0_l0": ("F32", [1, 1], [w]), "h.weight_1_l0": ("F32", [1, 1], [u]),
             "h.bias_l0": ("F32", [1], [b])}
    save(folder / "w", **names)
    one = lambda value: ("F32", [1, 1, 1], [value])
    save(folder / "i", x=one(x), h0=one(h0), slow0=one(s0), d_y=one(d_y), d_hn=one(d_h))
    h = math.tanh(w * x + u * h0 + b)
    slow = s0 + (h - s0) / 4
    d = (d_y / 4 + d_h) * (1 - h * h)  # y is the first state; d_slown is zero
    wanted = {"y": slow, "slown": slow, "hn": h, "d_x": d * w, "d_h0": d * u, "d_slow0": d_y * 3 / 4,
              "d_h.weight_0_l0": d * x, "d_h.weight_1_l0": d * h0, "d_h.bias_l0": d}
    files = ["--weights", folder / "w", "--input", folder / "i", "--output", folder / "o"]
    for backend in ("reference", "cpu"):
        ok("run", folder / "c.toml", *files, "--grad", "--backend", backend)
        got = load(folder / "o")
        assert got.keys() == wanted.keys(), got.keys()
        for name, value in wanted.items():
            assert abs(got[name][0] - value) < 1e-5, (backend, name, got[name], value)
    ok("run", folder / "c.toml", *files)
    assert load(folder / "o").keys() == {"y", "slown", "hn"}
    save(folder / "i", x=one(x), c0=one(s0))
    refused(3, "run", folder / "c.toml", *files, says=["tensor c0", "slow0 f32[1,1,1]"])


def mistakes(folder):
    """a mistake in a cell is exit code 3 with its place in the file, whatever the command"""
    config = folder / "c.toml"
    for step, says in (("h' = tanh(affine(x, g))", ["c.toml:4:23", "unknown name 'g'"]),
                       ("h' = sigmod(h)", ["c.toml:4:8", "Did you mean sigmoid?"]),
                       ("h' = x", ["c.toml:4:8", "h' is [B,3] and a state is [B,2]"])):
        config.write_text(f'[cells.mine]\nstates = ["h"]\nstep = """\n  {step}\n"""\n'
                          '[model]\ncell = "mine"\ninput = 3\nhidden = 2\n')
        for command in (["inspect", config], ["bench", "--config", config, "--seconds", 0]):
            refused(3, *command, says=[*says, "cell 'mine', step line 1, column"])
    config.write_text(LEAKY + '[model]\ncell = "leeky"\n')
    refused(2, "inspect", config, says=["unknown cell 'leeky'", "Did you mean 'leaky'?"])


def inspects(folder):
    """inspect shows the parameters, states and graph of a cell of text"""
    (folder / "c.toml").write_text(LEAKY + '[model]\ncell = "leaky"\ninput = 3\nhidden = 2\nbidirectional = true\n')
    report = ok("inspect", folder / "c.toml", "--json").json()
    assert {"x", "slow0", "h0", "h.weight_0_l0", "h.bias_l0_reverse"} <= report["inputs"].keys(), report
    assert report["outputs"].keys() == {"y", "slown", "hn"}, report
    assert "scan" in ok("inspect", folder / "c.toml", "--graph").out


def benches(folder):
    """bench takes model and cells of a config, and options come before it"""
    (folder / "c.toml").write_text(
        LEAKY + '[model]\ncell = "leaky"\ninput = 3\nhidden = 5\nlayers = 2\nbidirectional = true\n'
        '[train]\nbatch = 2\n')
    quick = ["bench", "--seconds", 0, "--threads", 1, "--json"]
    report = ok(*quick, "--config", folder / "c.toml").json()
    wanted = {"cell": "leaky", "input": 3, "hidden": 5, "layers": 2, "bidirectional": True, "batch": 2, "steps": 64}
    assert {key: report[key] for key in wanted} == wanted and report["gflops"] > 0, report
    report = ok(*quick, "--config", folder / "c.toml", "--hidden", 7, "--layers", 1, "--steps", 4, "--batch", 3,
                "--input", 2, "--set", "model.bidirectional=false").json()
    wanted = {"cell": "leaky", "input": 2, "hidden": 7, "layers": 1, "bidirectional": False, "batch": 3, "steps": 4}
    assert {key: report[key] for key in wanted} == wanted, report
    refused(2, *quick, "--set", "model.hidden=3", says=["--config"])
    refused(2, *quick, "--cell", "leaky", says=["unknown cell 'leaky'"])


def examples(folder):
    """every cell of docs/examples/cells trains as it stands"""
    files = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs/examples/cells").glob("*.toml"))
    assert files
    for file in files:
        result = ok("train", file, "--out", folder / file.stem, "--max-updates", 3, "--json", *SMALL).json()
        assert result["updates"] == 3 and result["skipped_updates"] == 0, (file, result)


def against_torch(folder):
    """torch computes the outputs and gradients of every cell, stacked and in both directions, where it is installed"""
    python = os.environ.get("UNROLL_PEERS_PYTHON", "python3")
    if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode != 0:
        print("     no torch here: not looked at")
        return
    (folder / "odd.toml").write_text(ODD)
    files = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs/examples/cells").glob("*.toml"))
    for file in [*files, folder / "odd.toml"]:
        grad = [] if "dropout" in file.read_text() else ["--grad"]
        sizes = ["--set", "model.hidden=6", "--set", "model.layers=2", "--set", "model.bidirectional=true", "--set",
                 "train.batch=3"]
        steps = [] if file.stem == "odd" else ["--set", "data.window=5"]
        found = ok("compare", file, "--with", "torch", "--python", python, "--runs", 0, *grad, *sizes, *steps,
                   "--json").json()
        assert found["agrees"], (file, found)


def trains(folder):
    """train, resume, eval and generate work from a run folder alone, with dropout in the step and a y of its own"""
    ok("new", "language-model", folder / "demo", "--set", "model.hidden=8", "--set", "model.cell=noisy")
    source = folder / "demo" / "config.toml"
    plain = source.read_text()
    source.write_text(plain + NOISY)
    for out, updates in (("whole", [20]), ("parts", [7, 20])):
        for k, n in enumerate(updates):
            resume = ["--resume"] if k else []
            ok("train", source, "--out", folder / out, "--max-updates", n, *resume, *SMALL)
    for name in ("best.safetensors", "last.safetensors", "metrics.jsonl"):
        assert (folder / "whole" / name).read_bytes() == (folder / "parts" / name).read_bytes(), name
    ok("train", source, "--out", folder / "other", "--max-updates", 20, "--seed", 5, *SMALL)
    source.unlink()
    run = folder / "parts"
    assert "[cells.noisy]" in (run / "config.toml").read_text()
    first, again = (ok("eval", run, "--json", "--backend", b).json()["loss"] for b in ("cpu", "reference"))
    assert abs(first - again) < 1e-4, (first, again)  # no dropout: the same numbers but for rounding
    texts = [ok("generate", run, "--length", 30, "--seed", 1).out for _ in range(2)]
    assert texts[0] == texts[1] and len(texts[0]) >= 30
    ok("train", run / "config.toml", "--out", run, "--resume", "--max-updates", 25)


with tempfile.TemporaryDirectory() as work:
    run_checks([run_numbers, mistakes, inspects, benches, examples, against_torch, trains], work)
