#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that need no trained model. usage: check_commands.py UNROLL [--cold-start]

--cold-start: counts the instructions of a start, and nothing else
"""
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from command import UNROLL, call, load, ok, refused, run_checks, save

COMMANDS = ["doctor", "new", "train", "eval", "generate", "predict", "stream", "run", "export", "import", "inspect",
            "bench", "ablation", "compare", "explain", "report", "completion"]


def version_and_help(folder):
    """--version and --help go to stdout"""
    assert ok("--version").out.startswith("unroll ")
    for command in COMMANDS:
        assert command in ok("--help").out, command


def usage_errors(folder):
    """a wrong command line is exit code 2"""
    for line in ("", "dance", "train", "bench --bogus", "bench --batch 0", "bench --mode walk"):
        assert call(*line.split()).code == 2, line
    refused(2, "bench", "--cell", "abacus", "--seconds", "0", says=["abacus", "lstm"])
    refused(5, "bench", "--backend", "abacus", says=["abacus", "reference"])


def doctor(folder):
    """doctor reports version, cores, caches, memory, cells, every backend, and that all of them compute"""
    report = ok("doctor", "--json").json()
    verified = {b["name"] for b in report["backends"] if b["available"]} - {"reference"}
    assert {t["backend"] for t in report["self_test"]} == verified and all(t["agrees"] for t in report["self_test"])
    assert {r["unit"] for r in report["roofline"]} == {"GFLOP/s", "GB/s"}
    assert all(r["rate"] > 0 for r in report["roofline"])
    assert all(c["name"][0] == "L" and c["bytes"] >= 1024 for c in report["caches"])
    assert not {"self_test", "roofline"} & ok("doctor", "--no-self-test", "--json").json().keys()
    assert {"version", "cpu_features", "cores", "memory_bytes", "cells", "backends"} <= report.keys()
    assert {"name", "available", "detail"} == report["backends"][0].keys()
    assert {"reference", "cpu"} <= {b["name"] for b in report["backends"] if b["available"]}
    assert "reference" in ok("doctor").out
    values = {row["option"]: row["values"] for row in report["backend_options"]}
    assert "rows" in values["cpu:schedule"] and "openblas" in values["cpu:products"], values
    run = ok("bench", "--backend", "cpu:schedule=rows", "--input", 3, "--hidden", 4, "--batch", 2, "--steps", 3,
             "--seconds", 0, "--json").json()
    assert run["backend"] == "cpu", run


def bad_configs(folder):
    """a bad config is exit code 3 with its place; a bad --set is 2"""
    config = folder / "c.toml"
    run = ["run", config, "--weights", "w", "--input", "i", "--output", "o"]
    refused(3, *run, says=["c.toml"])
    for text, says in [
        ("[model]\nhiden = 3\n", ["c.toml:2:1", "Did you mean model.hidden?"]),
        ("[model]\nhidden = \"3\"\n", ["c.toml:2", "type string", "type integer"]),
        ("[model]\nhidden = 0\n", ["c.toml:2", "must lie between"]),
        ("a = " + "[" * 100000, ["nesting deeper than 64"]),
        ("#" * (1 << 20) + "#", ["c.toml"]),
        ("[model\n", ["c.toml:1", "not TOML"]),
    ]:
        config.write_text(text)
        refused(3, *run, says=says)
    config.write_bytes(b"[model]\ncell = \"\xff\"\n")
    refused(3, *run, says=["not TOML"])
    config.write_text("[model]\nhidden = 3\n")
    refused(2, *run, "--set", "model.hiden=4", says=["Did you mean model.hidden?"])


def run_numbers(folder):
    """run gives tanh's numbers and gradients for a network of one unit"""
    (folder / "c.toml").write_text("[model]\ncell = \"rnn\"\ninput = 1\nhidden = 1\n")
    w, u, b, x, h0, d_y = 0.5, -0.25, 0.125, 2.0, 0.75, 3.0
    save(folder / "w", weight_ih_l0=("F32", [1, 1], [w]), weight_hh_l0=("F32", [1, 1], [u]),
         bias_ih_l0=("F32", [1], [b]), bias_hh_l0=("F32", [1], [0]))
    save(folder / "i", x=("F32", [1, 1, 1], [x]), h0=("F32", [1, 1, 1], [h0]), d_y=("F32", [1, 1, 1], [d_y]))
    h = math.tanh(w * x + u * h0 + b)
    d = d_y * (1 - h * h)
    wanted = {"y": h, "hn": h, "d_x": d * w, "d_h0": d * u, "d_weight_ih_l0": d * x, "d_weight_hh_l0": d * h0,
              "d_bias_ih_l0": d, "d_bias_hh_l0": d}
    files = ["--weights", folder / "w", "--input", folder / "i"]
    for backend in ("reference", "cpu"):
        ok("run", folder / "c.toml", *files, "--output", folder / "o", "--grad", "--backend", backend)
        got = load(folder / "o")
        assert got.keys() == wanted.keys(), got.keys()
        for name, value in wanted.items():
            assert abs(got[name][0] - value) < 1e-5, (backend, name, got[name], value)
    forward = ok("run", folder / "c.toml", *files, "--output", folder / "o2")
    assert "d_y is ignored without --grad" in forward.err and load(folder / "o2").keys() == {"y", "hn"}
    names = ok("run", folder / "c.toml", *files, "--output", folder / "o", "--grad", "--json").json()["tensors"]
    assert names["y"] == "f32[1,1,1]"
    refused(6, "run", folder / "c.toml", *files, "--grad", "--output", folder / "none" / "o", says=["none/o"])


def run_refusals(folder):
    """run names missing, extra and misshapen tensors and lists what it expects"""
    (folder / "c.toml").write_text("[model]\ncell = \"lstm\"\ninput = 2\nhidden = 1\n")
    weights = {"weight_ih_l0": ("F32", [4, 2], [0] * 8), "weight_hh_l0": ("F32", [4, 1], [0] * 4),
               "bias_ih_l0": ("F32", [4], [0] * 4), "bias_hh_l0": ("F32", [4], [0] * 4)}
    inputs = {"x": ("F32", [3, 1, 2], [0] * 6)}

    command = ["run", folder / "c.toml", "--weights", folder / "w", "--input", folder / "i", "--output", folder / "o"]

    def attempt(says, w={}, i={}, without=(), grad=False, code=3):
        save(folder / "w", **{k: v for k, v in {**weights, **w}.items() if k not in without})
        save(folder / "i", **{k: v for k, v in {**inputs, **i}.items() if k not in without})
        refused(code, *command, *(["--grad"] if grad else []), says=says)

    attempt(["tensor x is missing"], without=["x"])
    attempt(["x is f32[3,2]", "f32[T,B,2]"], i={"x": ("F32", [3, 2], [0] * 6)})
    attempt(["weight_hh_l0 is missing", "weight_hh_l0 f32[4,1]"], without=["weight_hh_l0"])
    attempt(["tensor weight_hh_l1 f32[4,1] is not used", "Expected"], w={"weight_hh_l1": ("F32", [4, 1], [0] * 4)})
    attempt(["bias_ih_l0 is f32[3]", "f32[4]"], w={"bias_ih_l0": ("F32", [3], [0] * 3)})
    attempt(["h0 is f64[1,1,1]", "must be f32[1,1,1]"], i={"h0": ("F64", [1, 1, 1], [0])})
    attempt(["tensor h1 f32[1] is not used"], i={"h1": ("F32", [1], [0])})
    attempt(["d_y is missing"], grad=True)
    attempt(["'lengths' has 4 as element 0", "between 0 and 3, the number of steps"], i={"lengths": ("I64", [1], [4])})
    attempt(["lengths is i32[2]", "i32[1]"], i={"lengths": ("I32", [2], [1, 1])})
    (folder / "i").write_bytes(b"")
    refused(3, *command, says=["/i"])


def stream_steps(folder):
    """stream gives a line per line, the numbers that run gives for the whole, in any chunk and number of lanes"""
    (folder / "c.toml").write_text("[model]\ncell = \"gru\"\ninput = 2\nhidden = 3\n")
    ramp = lambda n: [math.sin(i * i) / 2 for i in range(n)]
    weights = {"weight_ih_l0": ("F32", [9, 2], ramp(18)), "weight_hh_l0": ("F32", [9, 3], ramp(27)),
               "bias_ih_l0": ("F32", [9], ramp(9)), "bias_hh_l0": ("F32", [9], ramp(9))}
    save(folder / "w", **weights)
    x = [[i / 8, -i / 4] for i in range(1, 8)]
    save(folder / "i", x=("F32", [7, 1, 2], sum(x, [])))
    ok("run", folder / "c.toml", "--weights", folder / "w", "--input", folder / "i", "--output", folder / "o")
    wanted = load(folder / "o")["y"]
    (folder / "x.csv").write_text("".join(f"{a}, {b}\n" for a, b in x))
    (folder / "twice.csv").write_text("".join(f"{a};{b} {a}\t{b}\n" for a, b in x))
    command = ["stream", folder / "c.toml", "--weights", folder / "w"]
    # Sums of at most 3 products in another order, over 7 steps, of numbers around 1.
    same = lambda got, want: all(abs(g - w) < 1e-5 for g, w in zip(got, want, strict=True))
    for extra in ([], ["--chunk", 3], ["--chunk", 100]):
        lines = ok(*command, "--input", folder / "x.csv", *extra).out.splitlines()
        assert len(lines) == 7 and same([float(v) for line in lines for v in line.split(",")], wanted), lines
    twice = ok(*command, "--input", folder / "twice.csv", "--lanes", 2, "--json").out
    rows = [json.loads(line) for line in twice.splitlines()]
    assert all(row[:3] == row[3:] for row in rows) and same(sum((row[:3] for row in rows), []), wanted)
    told = ok(*command, "--input", folder / "x.csv", "--weights-dtype", "int8").err
    assert "steps=7" in told and "relative_l2_difference=" in told, told
    report = ok(*command, "--bench", "--seconds", 0, "--weights-dtype", "bf16", "--json").json()
    assert 0 < report["min_us"] <= report["median_us"] <= report["p99_us"] and report["inputs"] == 2, report
    for text, says in (("1,2\n3\n", [":2:2", "takes 2 numbers; the line has 1"]),
                       ("1,2\n\n3,4\n", [":2:1", "takes 2 numbers; the line has 0"]),
                       ("1,2,3\n", [":1:5", "the line has more"]),
                       ("1,two\n", [":1:3", "'two' is not a number"]), ("1,inf\n", ["not a finite number"]),
                       ("1,2\n1,\n", [":2:3", "cell 2 of the line is empty", "repeat the last one"])):
        (folder / "bad.csv").write_text(text)
        refused(3, *command, "--input", folder / "bad.csv", says=says)
    refused(3, *command, "--input", folder / "none.csv", says=["none.csv"])
    refused(2, *command, "--set", "model.bidirectional=true", "--input", folder / "x.csv", says=["bidirectional"])
    refused(3, *command, "--set", "model.layers=2", "--input", folder / "x.csv", says=["weight_ih_l1", "missing"])
    refused(2, *command, "--backend", "reference", "--weights-dtype", "int8", "--input", folder / "x.csv",
            says=["reference"])


def inspect(folder):
    """inspect reads tensor files, configs and graph text, and refuses the rest"""
    save(folder / "a.safetensors", good=("F32", [2], [1, 2]), bad=("F32", [1], [math.nan]))
    report = ok("inspect", folder / "a.safetensors", "--json").json()
    assert report["elements"] == 3 and [t["finite"] for t in report["tensors"]] == [False, True]
    assert "NOT FINITE" in ok("inspect", folder / "a.safetensors").out
    (folder / "c.toml").write_text("[model]\ncell = \"gru\"\ninput = 3\nhidden = 4\n")
    graph = ok("inspect", folder / "c.toml", "--graph").out
    (folder / "g.graph").write_text(graph)
    assert ok("inspect", folder / "g.graph", "--graph").out == graph
    assert ok("inspect", folder / "c.toml", "--dot").out.startswith("digraph")
    assert "gru" in ok("inspect", folder / "g.graph", "--json").json()["ops"]
    refused(3, "inspect", folder, says=["not a run folder"])
    refused(3, "inspect", folder / "none.safetensors", says=["none.safetensors"])
    (folder / "bad.graph").write_text("nonsense")
    refused(3, "inspect", folder / "bad.graph")


def bench(folder):
    """bench prints one JSON object with times, rate and memory for each cell and mode"""
    small = ["--input", 4, "--hidden", 8, "--batch", 2, "--steps", 3, "--seconds", 0, "--threads", 1, "--json"]
    for cell in ("rnn", "gru", "lstm", "lnlstm"):
        for extra in (["--mode", "infer"], ["--mode", "train"], ["--mode", "train", "--bidirectional", "--layers", 2]):
            report = ok("bench", "--cell", cell, *small, *extra).json()
            assert all(report[k] > 0 for k in ("min_ms", "median_ms", "gflops", "compile_ms", "peak_bytes")), report
            assert report["cell"] == cell and report["threads"] == 1
        report = ok("bench", "--cell", cell, "--input", 4, "--hidden", 80, "--mode", "stream", "--lanes", 2, "--chunk",
                    2, "--weights-dtype", "int8", "--seconds", 0, "--json").json()
        assert report["min_us"] > 0 and report["relative_l2_difference"] > 0, report
        # Rounding a weight changes it by at most 1/254 of the largest; a random lnlstm is chaotic and makes more of it.
        assert cell == "lnlstm" or report["relative_l2_difference"] < 0.1, report


def bench_products(folder):
    """bench times products, and saves what went in and came out"""
    for flags, a, b in (([], (2, 3), (3, 4)), (["--transpose-a"], (3, 2), (3, 4)), (["--transpose-b"], (2, 3), (4, 3))):
        report = ok("bench", "--mode", "gemm", "--shape", "2x3x4", *flags, "--seconds", 0, "--threads", 1, "--json",
                    "--save", folder / "gemm").json()
        assert report["min_ms"] > 0 and report["gflops"] > 0 and report["m"] == 2, report
        got = load(folder / "gemm")
        for i in range(2):
            for j in range(4):
                left = [got["a"][k * a[1] + i if flags == ["--transpose-a"] else i * a[1] + k] for k in range(3)]
                right = [got["b"][j * b[1] + k if flags == ["--transpose-b"] else k * b[1] + j] for k in range(3)]
                wanted = sum(x * y for x, y in zip(left, right))
                assert abs(got["c"][i * 4 + j] - wanted) < 1e-6, (flags, got)
    ok("bench", "--mode", "gemm", "--shape", "8x64x64", "--constant-b", "--seconds", 0, "--threads", 1)
    for shape in ("2x3", "2x3x4x5", "0x1x1", "a"):
        refused(2, "bench", "--mode", "gemm", "--shape", shape, says=["MxKxN", shape])


def bench_saves(folder):
    """bench saves the parameters, x and results of the run it timed: run computes the same from them"""
    (folder / "c.toml").write_text("[model]\ncell = \"lstm\"\ninput = 3\nhidden = 4\n")
    ok("bench", "--config", folder / "c.toml", "--batch", 2, "--steps", 5, "--mode", "infer", "--seconds", 0,
       "--threads", 1, "--save", folder / "s")
    saved = load(folder / "s")
    shapes = {"weight_ih_l0": [16, 3], "weight_hh_l0": [16, 4], "bias_ih_l0": [16], "bias_hh_l0": [16]}
    save(folder / "w", **{name: ("F32", shape, saved[name]) for name, shape in shapes.items()})
    save(folder / "i", x=("F32", [5, 2, 3], saved["x"]))
    ok("run", folder / "c.toml", "--weights", folder / "w", "--input", folder / "i", "--output", folder / "o")
    assert load(folder / "o")["y"] == saved["y"]


def explain(folder):
    """--explain says what each pass did in a layer, and what runs for it, in bench, run and train"""
    small = ["--input", 4, "--hidden", 8, "--batch", 4, "--steps", 5, "--seconds", 0, "--threads", 1, "--explain"]
    (plan,) = ok("bench", "--cell", "lstm", "--mode", "train", *small, "--json").json()["explain"]
    said = {(n["pass"], n["what"].split()[0]) for n in plan["passes"]}
    assert {("claim", "expanded"), ("split", "kept"), ("defer", "deferred"), ("fuse", "fused")} <= said, said
    assert "d_weight_hh_l0" in plan["outputs"] and len(plan["kernels"]) > 3, plan
    (plan,) = ok("bench", "--cell", "lstm", "--mode", "infer", "--lengths", "1:5:3", *small, "--json").json()["explain"]
    assert any(n["what"].startswith("packed") for n in plan["passes"]), plan["passes"]
    text = ok("bench", "--cell", "lnlstm", "--mode", "infer", *small).out
    assert "hoisted matmul f32[4,32]" in " ".join(text.split()) and "kernels\n" in text, text
    (folder / "c.toml").write_text("[model]\ncell = \"rnn\"\ninput = 1\nhidden = 1\n")
    save(folder / "w", weight_ih_l0=("F32", [1, 1], [1]), weight_hh_l0=("F32", [1, 1], [1]),
         bias_ih_l0=("F32", [1], [0]), bias_hh_l0=("F32", [1], [0]))
    save(folder / "i", x=("F32", [1, 1, 1], [2]))
    files = ["--weights", folder / "w", "--input", folder / "i", "--output", folder / "o"]
    (plan,) = ok("run", folder / "c.toml", *files, "--explain", "--json").json()["explain"]
    assert any("one step" in n["why"] for n in plan["passes"]), plan["passes"]
    ok("new", "forecast", folder / "demo")
    plans = ok("train", folder / "demo/config.toml", "--out", folder / "run", "--max-updates", 1, "--explain",
               "--json").json()["explain"]
    assert any(n["what"].startswith("expanded adam") for plan in plans for n in plan["passes"])


def compare(folder):
    """compare runs a model on several backends and says how far apart they are"""
    config = folder / "c.toml"
    config.write_text("[model]\ncell = \"gru\"\ninput = 3\nhidden = 4\n[data]\nsteps = 5\n[train]\nbatch = 2\n")
    found = ok("compare", config, "--backend", "cpu,reference", "--grad", "--updates", 2, "--json").json()
    assert found["agrees"] is True
    other = found["backends"][1]
    assert [(b["name"], b["verdict"]) for b in found["backends"]] == [("reference", "standard"), ("cpu", "agrees")]
    assert other["nodes"] > 0 and 0 < other["of_allowed"] <= 1 and 0 < other["min_ms"] <= other["median_ms"]
    names = {r["name"] for r in found["results"]}
    assert {"loss", "y", "hn", "d_weight_hh_l0", "loss of update 2", "bias_ih_l0 after 2"} <= names, names
    assert all(r["achieved"] <= r["allowed"] for r in found["results"])
    assert [row["update"] for row in found["losses"]] == [1, 2]
    assert found["losses"][0].keys() == {"update", "reference", "cpu"}
    text = ok("compare", config, "--runs", 0).out
    assert "reference" in text and "closest to the allowed error" in text, text
    for precision in ("bf16", "f16"):
        assert ok("compare", config, "--grad", "--updates", 2, "--precision", precision, "--json").json()["agrees"]


FAKE_PYTHON = """#!/usr/bin/env python3
import json
import sys
sys.path.insert(0, %r)
sys.argv = ["fake", "no command", *sys.argv[1:]]
import command
if "-c" not in sys.argv:
    given = {word: sys.argv[at + 1] for at, word in enumerate(sys.argv) if word.startswith("--")}
    tensors = command.load(given["--check"])
    if "--text-cell" in given:
        with open(given["--text-cell"]) as file:
            cell = json.load(file)
        assert cell == {"states": ["h"], "step": "h' = tanh(affine(x, h))", "y": ""} and "h.bias_l0" in tensors
    else:
        assert "weight_ih_l0" in tensors
    assert "x" in tensors
    command.save(given["--save"], y=("F32", [5, 2, 4], [0.125] * 40))
    print('{"backend": "another", "min_ms": 1, "median_ms": 2}')
"""


def compare_with(folder):
    """compare checks against other libraries: exit code 9 when results differ, 2 when the library is absent"""
    config, python = folder / "c.toml", folder / "python"
    config.write_text("[model]\ncell = \"gru\"\ninput = 3\nhidden = 4\n[data]\nsteps = 5\n[train]\nbatch = 2\n")
    refused(2, "compare", config, "--with", "torch", "--python", "/bin/false", "--runs", 0,
            says=["/bin/false cannot import torch", "/bin/false -m pip install torch", "--python"])
    python.write_text(FAKE_PYTHON % str(pathlib.Path(__file__).parent))
    python.chmod(0o755)
    both = ["--with", "torch", "--python", python]
    refused(9, "compare", config, *both, "--backend", "reference,cpu", says=["torch differs", "y is", "0.125"])
    config.write_text("[model]\ncell = \"mgu\"\ninput = 3\nhidden = 4\n")
    refused(2, "compare", config, *both, says=["torch has no layer", "mgu", "rnn, gru and lstm"])
    config.write_text("[cells.mine]\nstates = [\"h\"]\nstep = \"h' = tanh(affine(x, h))\"\n"
                      "[model]\ncell = \"mine\"\ninput = 3\nhidden = 4\n[data]\nsteps = 5\n[train]\nbatch = 2\n")
    refused(9, "compare", config, *both, "--backend", "reference,cpu", says=["torch differs", "y is", "0.125"])
    refused(2, "compare", config, "--with", "onnxruntime", "--python", python,
            says=["onnxruntime has no layer", "mine"])
    config.write_text("[model]\ncell = \"gru\"\ninput = 3\nhidden = 4\nreset_after = false\n")
    refused(2, "compare", config, *both, says=["torch has no layer", "reset_after"])
    # Of a config with a task the recurrent layers are compared: the fake computes others.
    ok("new", "forecast", folder / "demo")
    refused(9, "compare", folder / "demo/config.toml", *both, "--backend", "reference,cpu",
            says=["torch differs", "f32[5,2,4] instead of f32["])
    assert call("compare", config, "--with", "abacus").code == 2


def compare_refuses(folder):
    """compare says what is wrong with backends, files and options"""
    config, graph = folder / "c.toml", folder / "g.txt"
    config.write_text("[model]\ncell = \"gru\"\ninput = 3\nhidden = 4\n")
    refused(5, "compare", config, "--backend", "cpu,abacus", says=["abacus", "reference"])
    refused(2, "compare", config, "--backend", "cpu,cpu", says=["twice"])
    refused(2, "compare", config, "--precision", "f8", says=["f8", "bf16"])
    refused(3, "compare", folder / "none.toml", says=["none.toml"])
    (folder / "run").mkdir()
    refused(3, "compare", folder / "run", says=["not a run folder", "config.toml is missing"])
    (folder / "run/config.toml").write_text(config.read_text())
    refused(3, "compare", folder / "run", says=["best.safetensors is missing"])
    (folder / "run/best.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{")
    refused(3, "compare", folder / "run", says=["best.safetensors"])
    weights = {"weight_ih_l0": ("F32", [12, 3], [0.5] * 36), "weight_hh_l0": ("F32", [12, 4], [0.5] * 48),
               "bias_ih_l0": ("F32", [12], [0.5] * 12), "bias_hh_l0": ("F32", [12], [0.5] * 12)}
    save(folder / "w", **weights)
    ok("compare", config, "--weights", folder / "w", "--runs", 0)
    save(folder / "w", **{**weights, "weight_hh_l0": ("F32", [12, 5], [0.5] * 60)})
    refused(3, "compare", config, "--weights", folder / "w", says=["weight_hh_l0", "f32[12,4]", "f32[12,5]"])
    save(folder / "w", **{name: t for name, t in weights.items() if name != "bias_hh_l0"})
    refused(3, "compare", config, "--weights", folder / "w", says=["bias_hh_l0"])
    graph.write_text("graph { %0 = input(){name=\"operand0\"} : f32[2] %1 = exp(%0) : f32[2] output \"result0\" = %1 }")
    save(folder / "i", operand0=("F32", [2], [0.5, -1]))
    assert ok("compare", graph, "--input", folder / "i", "--json").json()["agrees"]
    refused(2, "compare", graph, says=["--input"])
    save(folder / "i", operand0=("F32", [3], [0.5, -1, 2]))
    refused(3, "compare", graph, "--input", folder / "i", says=["operand0", "f32[2]", "f32[3]"])
    graph.write_text("graph {")
    refused(3, "compare", graph, "--input", folder / "i", says=["graph"])


def completion(folder):
    """completion scripts load, and bash offers commands, options and choices"""
    script = folder / "c.bash"
    script.write_text(ok("completion", "bash").out)

    def offers(*words):
        line = (f"source {script}; COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _unroll; "
                "printf '%s\\n' \"${COMPREPLY[@]}\"")
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.split()

    assert set(COMMANDS) <= set(offers("unroll", ""))
    assert offers("unroll", "bench", "--mo") == ["--mode"]
    assert offers("unroll", "bench", "--mode", "") == ["infer", "train", "stream", "gemm"]
    assert "classify" in offers("unroll", "new", "")
    assert "complete -c unroll" in ok("completion", "fish").out
    assert ok("completion", "zsh").out.startswith("#compdef unroll")


def cold_start(folder):
    """--version starts in 10 million instructions, and doctor without its self-test in 200 million"""
    for command, most in (["--version"], 10), (["doctor", "--no-self-test"], 200):
        counter = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'calls'}"]
        done = subprocess.run([*counter, UNROLL, *command], capture_output=True, text=True, check=True)
        millions = int(re.search(r"Collected : (\d+)", done.stderr).group(1)) / 1e6
        assert millions <= most, f"{command} took {millions:.1f} million instructions"


if "--cold-start" in sys.argv and not shutil.which("valgrind"):
    print("skipped: valgrind is missing (Debian: valgrind)")
    sys.exit(77)
with tempfile.TemporaryDirectory() as work:
    run_checks([cold_start] if "--cold-start" in sys.argv else
               [version_and_help, usage_errors, doctor, bad_configs, run_numbers, run_refusals, stream_steps, inspect,
                bench, bench_products, bench_saves, explain, compare, compare_with, compare_refuses, completion], work)
