#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unroll import, from outside: PyTorch checkpoints become folders that run, stream and export accept.

Usage: check_import.py UNROLL SOURCE_ROOT [PYTHON]      PYTHON: an interpreter with onnxruntime, by default python3
"""
import pathlib
import sys
import tempfile

from command import call, load, ok, refused, run_checks, save

GOLDEN = pathlib.Path(sys.argv[2]) / "tests/checkpoint/golden"
PYTHON = sys.argv[3] if len(sys.argv) > 3 else "python3"

# Models of make_checkpoints.py: file, options, layers, number of parameters
MODELS = {
    "char_lm": ("char_lm.pt", [], ["embedding 11 -> 4", "lstm 5 (2 layers)", "linear -> 11"], 11),
    "tagger": ("tagger.safetensors", ["--batch-first"], ["embedding 9 -> 4", "gru 5 (bidirectional)", "linear -> 3"],
               11),
    "classifier": ("classifier.pt", ["--layers", "rnn,last,fc1,relu,fc2", "--nonlinearity", "relu"],
                   ["rnn 6 (2 layers)", "last", "linear -> 7", "relu", "linear -> 2"], 7),
    "two_stacks": ("two_stacks.pt", ["--layers", "inputs,tanh,first,second"],
                   ["linear -> 3", "tanh", "lstm 4 (projection 2)", "gru 5"], 11),
}


def imported(name, out, *more):
    file, options, _, _ = MODELS[name]
    sample = GOLDEN / f"{name}.sample.safetensors"
    return ok("import", GOLDEN / file, "--out", out, "--sample", sample, "--json", *options, *more).json()


def models(folder):
    """each model computes what PyTorch computed, and every tensor is named"""
    for name, (_, _, layers, parameters) in MODELS.items():
        report = imported(name, folder / name)
        assert report["layers"] == layers, report["layers"]
        assert report["sample"]["agrees"] and report["sample"]["relative_l2_difference"] < 2e-6, report["sample"]
        assert len(report["mapping"]) == parameters and "unused" not in report, report
        for row in report["mapping"]:
            assert row["in_the_file"] == row["parameter"] and row["type"] == "f32" + row["shape"], row


def other_commands(folder):
    """run, stream, export and inspect accept the folder, and agree on the outputs"""
    imported("char_lm", folder / "lm")
    ids = [3, 1, 4, 1, 5]
    save(folder / "ids", ids=("I32", [5, 1], ids))
    ok("run", folder / "lm", "--input", folder / "ids", "--output", folder / "y")
    whole = load(folder / "y")["y"]
    (folder / "lines").write_text("".join(f"{k}\n" for k in ids))
    lines = ok("stream", folder / "lm", "--input", folder / "lines", "--json").out.splitlines()
    steps = [float(v) for line in lines for v in line.strip("[]").split(",")]
    assert len(steps) == len(whole) and all(abs(a - b) < 2e-6 for a, b in zip(steps, whole)), (steps, whole)
    for bad in ("-1", "1.5", "100000", "4294967297"):
        (folder / "bad").write_text(f"3\n{bad}\n")
        refused(3, "stream", folder / "lm", "--input", folder / "bad", says=["bad:2", "token indices from 0 to"])
    for bad in (-1, 100000):
        save(folder / "bad", ids=("I32", [5, 1], [3, 1, bad, 1, 5]))
        refused(2, "run", folder / "lm", "--input", folder / "bad", "--output", folder / "y",
                says=[f"'ids'[2,0] is {bad}", "expected 0 to"])
    for name in MODELS:
        imported(name, folder / name)
        report = ok("export", folder / name, "--out", folder / "m.onnx", "--check", "--json", "--python", PYTHON).json()
        assert all(row["agrees"] for row in report["check"]), report
    for name in ("char_lm", "two_stacks"):
        ok("export", folder / name, "--stream", "--out", folder / "m.onnx", "--check")
        ok("export", folder / name, "--format", "cpp", "--out", folder / "m.h", "--check")
    assert "rnn.weight_hh_l1" in ok("inspect", folder / "lm").out
    refused(2, "stream", folder / "tagger", says=["bidirectional", "`unroll run`"])
    refused(3, "predict", folder / "lm", says=["`unroll run"])
    refused(2, "run", folder / "lm", "--input", folder / "lines", "--output", folder / "y", "--grad", says=["--grad"])


def parts(folder):
    """--prefix reads a part of a file and lists the rest; layers alone lose their path, so that compare takes them"""
    file = GOLDEN / "stack.pt"
    found = ok("import", file, "--out", folder / "found", "--json").json()
    report = ok("import", file, "--prefix", "model.", "--out", folder / "s", "--json").json()
    assert {**found, "out": ""} == {**report, "out": ""}, found
    assert report["unused"] == [{"name": "optimizer.step", "type": "i64[]"}], report
    assert report["mapping"][0] == {"in_the_file": "model.module.weight_ih_l0", "type": "f32[16,3]",
                                    "parameter": "weight_ih_l0", "shape": "[16,3]"}, report
    ok("import", file, "--rename", "model.module=rnn", "--prefix", "rnn.", "--out", folder / "t")
    assert load(folder / "s/best.safetensors") == load(folder / "t/best.safetensors")
    ok("compare", folder / "s", "--backend", "reference,cpu", "--runs", "1")
    refused(3, "import", file, "--prefix", "net.", "--out", folder / "u", says=["'net.'", "model., optimizer."])
    refused(2, "import", file, "--prefix", "model.", "--out", folder / "s", says=["is not empty"])


def wrong_samples(folder):
    """a model that computes something else is refused, and nothing is written"""
    sample = GOLDEN / "classifier.sample.safetensors"
    refused(9, "import", GOLDEN / "classifier.pt", "--layers", "rnn,last,fc1,relu,fc2", "--sample", sample, "--out",
            folder / "c", says=["the output differs", "--nonlinearity"])
    refused(9, "import", GOLDEN / "two_stacks.pt", "--sample", GOLDEN / "two_stacks.sample.safetensors", "--out",
            folder / "c", says=["the output differs", "--layers"])
    refused(2, "import", GOLDEN / "classifier.pt", "--layers", "rnn,fc1,relu,fc2", "--sample", sample, "--out",
            folder / "c", says=["tensor output is f32[2,2]", "last"])
    refused(9, "import", GOLDEN / "tagger.safetensors", "--sample", GOLDEN / "tagger.sample.safetensors", "--out",
            folder / "c", says=["--batch-first"])
    assert not (folder / "c").exists()
    report = ok("import", GOLDEN / "char_lm.pt", "--out", folder / "c", "--json").json()
    assert "not compared" in report["sample"], report


def unclear_files(folder):
    """what the names and shapes leave open is asked for, and what is missing is named"""
    def attempt(says, *options, **tensors):
        save(folder / "w", **{k.replace("__", "."): ("F32", s, [0.5] * size(s)) for k, s in tensors.items()})
        refused(3, "import", folder / "w", "--out", folder / "x", *options, says=says)

    def size(shape):
        n = 1
        for d in shape:
            n *= d
        return n

    gru = {"rnn__weight_ih_l0": [6, 3], "rnn__weight_hh_l0": [6, 2]}
    refused(3, "import", GOLDEN / "classifier.pt", "--out", folder / "x", says=["between two linear layers",
                                                                                "rnn,last,fc1,relu,fc2"])
    attempt(["missing", "rnn.bias_hh_l0 f32[6]"], **gru, rnn__bias_ih_l0=[6])
    attempt(["missing", "rnn.weight_ih_l1 f32[6,2]"], **gru, rnn__weight_hh_l1=[6, 2])
    attempt(["has no weight_hh_l0"], rnn__weight_ih_l0=[6, 3])
    attempt(["rnn.weight_ih_l1 is f32[6,3], expected [6,2]"], **gru, rnn__weight_hh_l1=[6, 2], rnn__weight_ih_l1=[6, 3])
    attempt(["rows must be 1, 3 or 4 times 2"], rnn__weight_ih_l0=[10, 3], rnn__weight_hh_l0=[10, 2])
    attempt(["belong to no layer", "norm.weight f32[2]"], **gru, norm__weight=[2], norm__bias=[2])
    attempt(["do not tell their order", "fc (linear, 5 -> 1)"], **gru, fc__weight=[1, 5], fc__bias=[1])
    attempt(["fit in several ways"], **gru, emb__weight=[3, 3])
    attempt(["'emb' is a matrix", "emb=embedding"], "--layers", "emb,rnn", **gru, emb__weight=[3, 3])
    attempt(["names 'nothing'"], "--layers", "nothing,rnn", **gru)
    attempt(["reads 5 values; the layer before it gives 2"], "--layers", "rnn,fc", **gru, fc__weight=[1, 5],
            fc__bias=[1])
    attempt(["no recurrent layer"], fc__weight=[1, 5], fc__bias=[1])
    attempt(["no tensor belongs to"], norm__weight=[2])
    save(folder / "w", **{"emb.weight": ("F32", [3, 3], [0.5] * 9), "rnn.weight_ih": ("F32", [6, 3], [0.5] * 18),
                          "rnn.weight_hh": ("F32", [6, 2], [0.5] * 12)})
    report = ok("import", folder / "w", "--layers", "emb=embedding,rnn", "--out", folder / "cell", "--json").json()
    assert report["mapping"][1]["parameter"] == "rnn.weight_ih_l0", report  # of an nn.GRUCell


def hostile(folder):
    """what a file would run is named, and not run"""
    corpus = GOLDEN.parents[1] / "fuzz/corpus/checkpoint"
    refused(3, "import", corpus / "ok_global", "--out", folder / "x", says=["no tensor belongs to a recurrent"])
    for file in ("whole.pt", "whole_old.pt"):
        report = ok("import", GOLDEN / file, "--layers", "rnn,heads.0", "--ignore-unused", "--out", folder / file,
                    "--json").json()
        assert "__main__.Whole" in report["not_read"] and len(report["unused"]) == 6, report
    assert call("import", folder / "missing.pt", "--out", folder / "x").code == 3
    assert not (folder / "x").exists()


with tempfile.TemporaryDirectory() as work:
    run_checks([models, other_commands, parts, wrong_samples, unclear_files, hostile], work)
