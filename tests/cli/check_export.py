#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unroll export, from outside: every task as an ONNX model that the importer runs with equal results.

Usage: check_export.py UNROLL [PYTHON]      PYTHON: an interpreter with onnxruntime, by default python3
"""
import itertools
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

from command import UNROLL, call, chosen, load, ok, refused, run_checks, save
from small_runs import KINDS, SMALL, config

PYTHON = sys.argv[2] if len(sys.argv) > 2 else "python3"

OWN_CELL = '''
[model]
cell = "own"
input = 3
hidden = 5
[cells.own]
states = ["h"]
step = """
f  = sigmoid(affine(x, h))
n  = tanh(affine(x, f * h))
h' = f * h + (1 - f) * n
"""
'''


def checked(*arguments):
    """The report of an export whose check passed; each file is compared at three sizes by each that runs it."""
    report = ok("export", *arguments, "--check", "--json", "--python", PYTHON).json()
    assert len(report["check"]) in (3, 6) and all(row["agrees"] for row in report["check"]), report
    assert ("onnxruntime" in report) == (len(report["check"]) == 3), report
    return report


def tasks(folder):
    """each task exports and computes the same, with the axes of a batch and of time free"""
    in_steps = ["--set", "model.input_feeding=true", "--set", "model.coverage=true"]
    copies = ["--set", "model.pointer=true"]
    for kind, *options in [*zip(KINDS), ("translate", *copies), ("translate", *copies, *in_steps)]:
        run = folder / "-".join([kind, *options[1::2]]) / "run"
        ok("train", config(run.parent, kind), "--out", run, "--max-updates", 3, *SMALL, *options)
        report = checked(run, "--out", run.parent / "model.onnx")
        assert any("B" in text for text in report["inputs"]), report
        has_pointer = kind == "summarize" or "model.pointer=true" in options
        assert any("p_gen" in text for text in report["outputs"]) == has_pointer, report


def fronts(folder):
    """a model with convolutions before its layers trains in every task, and is exported: with strides where it may"""
    causal = ["--set", "model.front=conv(8, kernel=3),silu,conv(6, 2, dilation=2, groups=2)"]
    for kind in KINDS:
        run = folder / kind / "run"
        ok("train", config(run.parent, kind), "--out", run, "--max-updates", 3, *SMALL, *causal)
        checked(run, "--out", run.parent / "model.onnx")
    ok("export", folder / "language-model/run", "--format", "cpp", "--out", folder / "lm.h", "--check")
    for pooling in ("final", "max"):
        run = folder / pooling
        ok("train", folder / "classify/demo/config.toml", "--out", run, "--max-updates", 3, *SMALL, "--set",
           "model.front=conv(8, kernel=3, stride=2, padding=same),gelu,max_pool(2),layer_norm", "--set",
           f"model.pooling={pooling}", "--set", "model.bidirectional=true")
        checked(run, "--out", folder / "model.onnx")
    refused(2, "train", folder / "language-model/demo/config.toml", "--out", folder / "none", "--set",
            "model.front=conv(8, 3, padding=same)", says=["'conv(8, 3, padding=same)' reads later steps"])
    refused(2, "train", folder / "classify/demo/config.toml", "--out", folder / "none", "--set",
            "model.front=max_pool(8),max_pool(8)", says=["'max_pool(8)' leaves no step of"])


def headers(folder):
    """a C++ header compiles and gives what the stream gives, for tasks, layers and own cells, in each weight format"""
    for kind in ("forecast", "language-model"):
        ok("train", config(folder / kind, kind), "--out", folder / kind / "run", "--max-updates", 3, *SMALL)
        ok("export", folder / kind / "run", "--format", "cpp", "--out", folder / f"{kind}.h", "--check")
    own = folder / "own.toml"
    own.write_text(OWN_CELL)
    for options in chosen([["--lanes", 3, "--weights-dtype", "bf16"], ["--weights-dtype", "int8"], []]):
        report = ok("export", own, "--format", "cpp", "--name", "Own", "--out", folder / "own.h", "--check", "--json",
                    *options).json()
        assert report["check"]["agrees"] and report["class"] == "Own", report
        inside = (folder / "own.h").read_text()
        report = ok("export", own, "--format", "cpp", "--name", "Own", "--external-data", "--out", folder / "own.h",
                    "--check", "--json", *options).json()
        assert report["check"]["agrees"] and pathlib.Path(report["weights_file"]).stat().st_size > 300, report
        assert len((folder / "own.h").read_text()) < len(inside) + 3000  # the functions that load
        ok("export", own, "--format", "cpp", "--name", "Own", "--out", folder / "own.h", *options)
        assert (folder / "own.h").read_text() == inside and not [*folder.glob("own.h.*")], list(folder.iterdir())
    refused(2, "export", own, "--format", "cpp", "--name", "a b", "--out", folder / "x.h", says="is no name")
    refused(2, "export", own, "--lanes", 2, "--out", folder / "x.onnx", says="--lanes does not apply")
    refused(2, "export", own, "--format", "cpp", "--stream", "--out", folder / "x.h", says="--stream does not apply")


def any_order_of_sums(folder):
    """a header gives what the stream gives also where a compiler may reorder sums and forget NaN"""
    own = folder / "own.toml"
    own.write_text(OWN_CELL)
    compilers = filter(shutil.which, ("g++", "clang++"))
    options = ("-O3 -ffast-math -march=native", "-funsafe-math-optimizations",
               "-fassociative-math -fno-signed-zeros -fno-trapping-math", "")
    for compiler, flags in chosen(itertools.product(compilers, options)):
        report = ok("export", own, "--format", "cpp", "--out", folder / "own.h", "--check", "--json",
                    CXX=f"{compiler} {flags}").json()["check"]
        assert report["agrees"] and 0 < report["fast_math_difference"] < 1e-6, report


def streams(folder):
    """--stream makes the states inputs and outputs: a sequence in two parts equals the sequence"""
    text = folder / "gru.toml"
    text.write_text('[model]\ncell = "gru"\ninput = 3\nhidden = 5\nlayers = 2\n')
    checked(text, "--out", folder / "whole.onnx")
    assert "h.next f32[2,B,5]" in checked(text, "--stream", "--out", folder / "parts.onnx")["outputs"]
    x, width = [0.1 * (k % 7) - 0.3 for k in range(4 * 2 * 3)], 2 * 3

    def run(model, first, last, **states):
        save(folder / "in", x=("F32", [last - first, 2, 3], x[first * width:last * width]), **states)
        ok("run", folder / model, "--input", folder / "in", "--output", folder / "out")
        return load(folder / "out")

    whole = run("whole.onnx", 0, 4)["y"]
    first = run("parts.onnx", 0, 1, h=("F32", [2, 2, 5], [0.0] * 20))
    second = run("parts.onnx", 1, 4, h=("F32", [2, 2, 5], first["h.next"]))
    for a, b in zip(first["y"] + second["y"], whole, strict=True):
        assert abs(a - b) <= 2e-6, (a, b)


def task_streams(folder):
    """tasks that read step by step export a stream; the others say why not"""
    for kind, text in (("language-model", ""), ("forecast", ""), ("label", "no stream for task 'label'"),
                       ("translate", "no stream for task 'translate'")):
        run = folder / kind / "run"
        ok("train", config(folder / kind, kind), "--out", run, "--max-updates", 2, *SMALL)
        arguments = [run, "--stream", "--out", folder / f"{kind}.onnx"]
        if text:
            refused(3, "export", *arguments, says=[text])
        else:
            checked(*arguments)


def cells(folder):
    """cells in text and cells without an ONNX layer become Scan nodes"""
    for cell in ("mgu", "lnlstm", "peephole_lstm"):
        (folder / f"{cell}.toml").write_text(f'[model]\ncell = "{cell}"\ninput = 3\nhidden = 5\nbidirectional = true\n')
        checked(folder / f"{cell}.toml", "--out", folder / f"{cell}.onnx")
    text = folder / "own.toml"
    text.write_text(OWN_CELL)
    checked(text, "--out", folder / "own.onnx")


def external_data(folder):
    """--external-data writes the weights to a second file, which a later export replaces"""
    config = folder / "gru.toml"
    config.write_text('[model]\ncell = "gru"\ninput = 24\nhidden = 24\n')
    for seed in (1, 2):
        report = checked(config, "--seed", seed, "--external-data", "--out", folder / "gru.onnx")
        assert report["bytes"] < 3000 and report["weights_bytes"] > 13000, report
        files = [config, folder / "gru.onnx", report["weights_file"]]
        assert sorted(map(str, folder.iterdir())) == sorted(map(str, files)), list(folder.iterdir())
    ok("export", config, "--out", folder / "gru.onnx")
    assert sorted(p.name for p in folder.iterdir()) == ["gru.onnx", "gru.toml"]
    refused(2, "export", config, "--format", "safetensors", "--external-data", "--out", folder / "x",
            says=["--external-data does not apply"])


def formats(folder):
    """safetensors holds the parameters of the run; other formats are refused"""
    run = folder / "run"
    ok("train", config(folder, "classify"), "--out", run, "--max-updates", 2, *SMALL)
    ok("export", run, "--format", "safetensors", "--out", folder / "weights.safetensors")
    assert load(folder / "weights.safetensors") == load(run / "best.safetensors")
    refused(2, "export", run, "--format", "abacus", "--out", folder / "x", says=["abacus", "onnx", "safetensors"])
    refused(2, "export", run, "--format", "safetensors", "--check", "--out", folder / "x", says=["--check"])
    refused(2, "export", run, says=["--out"])


# An interpreter whose "ONNX Runtime" is unroll with one number changed by FACTOR, and a compiler that changes the
# program it compiles.
WRONG_RUNTIME = """#!{python}
import sys
arguments, sys.argv = sys.argv[1:], ["", {unroll!r}]
sys.path.insert(0, {tests!r})
from command import load, ok, save
if arguments[0] != "-c":
    for given, wanted in zip(arguments[2::2], arguments[3::2]):
        ok("run", arguments[1], "--input", given, "--output", wanted)
        y = load(wanted)["y"]
        y[-1] *= FACTOR
        save(wanted, y=("F32", {{20: [2, 1, 10], 270: [9, 3, 10], 850: [17, 5, 10]}}[len(y)], y))
    print("1.0")
"""
WRONG_COMPILER = """#!/bin/sh
for word; do case "$word" in *main.cc*) sed -i 's/{old}/{new}/' "$word";; esac; done
exec c++ "$@"
"""


def said(result):
    return " ".join(result.messages())


def wrong_runtimes(folder):
    """--check reports an ONNX file that another program runs with another result, and its exit code is 9"""
    text, python = folder / "gru.toml", folder / "python"
    text.write_text('[model]\ncell = "gru"\ninput = 3\nhidden = 10\n')
    source = WRONG_RUNTIME.format(python=sys.executable, unroll=UNROLL, tests=str(pathlib.Path(__file__).parent))
    for factor, code in (("1", 0), ("1.01", 9), ("float('nan')", 9)):
        python.write_text(source.replace("FACTOR", factor))
        python.chmod(0o755)
        done = call("export", text, "--out", folder / "gru.onnx", "--check", "--json", "--python", python)
        assert done.code == code, (factor, done.code, done.err)
        rows = [row for row in done.json()["check"] if row["by"] == "ONNX Runtime 1.0"]
        assert [row["agrees"] for row in rows] == [code == 0] * 3, rows
        assert (code == 0) != ("ONNX Runtime 1.0 computes something else" in said(done)), done.err


def wrong_compilers(folder):
    """--check reports a C++ header whose program prints other outputs, too few, or none, in each format of weights"""
    text, compiler = folder / "gru.toml", folder / "c++"
    text.write_text('[model]\ncell = "gru"\ninput = 24\nhidden = 32\n')
    wrong = [("t = 0", "t = 0"), ("double(v)", "double(v) * 1.001"), ("double(v)", "v != v ? v : 0.0"),
             ("t = 0", "t = 1")]
    for weights, (k, (old, new)) in chosen(itertools.product(("f32", "bf16", "int8"), enumerate(wrong))):
        compiler.write_text(WRONG_COMPILER.format(old=old, new=new))
        compiler.chmod(0o755)
        done = call("export", text, "--format", "cpp", "--weights-dtype", weights, "--out", folder / "gru.h",
                    "--check", "--json", CXX=str(compiler))
        assert done.code == (9 if k else 0), (weights, new, done.code, done.err)
        assert done.json()["check"]["agrees"] == (k == 0), (weights, new, done.out)
        assert (k == 0) != ("other outputs than the stream" in said(done)), done.err
    done = call("export", text, "--format", "cpp", "--out", folder / "gru.h", "--check", CXX="false")
    assert done.code == 2 and "needs a C++ compiler" in said(done), (done.code, done.err)


def failures(folder):
    """a process that is killed while it writes leaves the old file"""
    text = folder / "gru.toml"
    text.write_text('[model]\ncell = "gru"\ninput = 30\nhidden = 50\n')
    ok("export", text, "--out", folder / "model.onnx")
    before = (folder / "model.onnx").read_bytes()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
    done = subprocess.run([UNROLL, "export", text, "--seed", "7", "--out", folder / "model.onnx"], capture_output=True,
                          preexec_fn=limit)
    assert done.returncode != 0
    assert (folder / "model.onnx").read_bytes() == before
    ok("export", text, "--seed", "7", "--out", folder / "model.onnx")  # whatever the killed one left
    assert sorted(p.name for p in folder.iterdir()) == ["gru.toml", "model.onnx"], list(folder.iterdir())
    assert call("export", text, "--out", folder / "missing" / "model.onnx").code != 0


with tempfile.TemporaryDirectory() as work:
    run_checks([tasks, fronts, headers, any_order_of_sums, streams, task_streams, cells, external_data, formats,
                wrong_runtimes, wrong_compilers, failures], work)
