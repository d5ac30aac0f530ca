#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unroll import FILE.onnx, from outside: recurrent stacks become folders that run, stream and export accept.

Usage: check_import_onnx.py UNROLL SOURCE_ROOT
"""
import pathlib
import sys
import tempfile

from command import load, ok, refused, run_checks, save

GOLDEN = pathlib.Path(sys.argv[2]) / "tests/onnx/layers"

# Models of make_layers.py: layers, a row of the mapping, inputs and outputs of the folder
HEAD = ["linear -> 4", "relu", "linear -> 2", "log_softmax"]
MODELS = {
    "lstm_both": (["lstm 4 (2 layers bidirectional)", "linear -> 2"], "rnn.weight_ih_l1_reverse"),
    "lstm_default": (["lstm 4 (2 layers)", "linear -> 2"], "lstm.bias_hh_l1"),
    "gru_state": (["gru 4", "last", *HEAD], "out.bias"),
    "gru_final": (["gru 4 (bidirectional)", "final", *HEAD], "gru.weight_hh_l0_reverse"),
    "rnn_last": (["rnn 4 (2 layers)", "last", *HEAD], "fc.weight"),
    "gru_mean": (["gru 4", "mean", *HEAD], "fc.bias"),
    "gru_max": (["gru 4", "max", *HEAD], "gru.bias_ih_l0"),
    "tagger": (["embedding 7 -> 3", "rnn 4 (bidirectional)", "tanh", "linear -> 2", "softmax"], "embedding.weight"),
    "lstm_states": (["lstm 4 (2 layers)"], "weight_hh_l1"),
    "gru_states": (["gru 4"], "weight_ih_l0"),
}


def imported(name, out, *more):
    sample = GOLDEN / f"{name}.sample.safetensors"
    return ok("import", GOLDEN / f"{name}.onnx", "--out", out, "--sample", sample, "--json", *more).json()


def models(folder):
    """each model computes what the file and PyTorch compute, with PyTorch's names, and every tensor is named"""
    for name, (layers, parameter) in MODELS.items():
        report = imported(name, folder / name)
        assert report["layers"] == layers, (name, report["layers"])
        assert len(report["check"]) == 2 and all(row["agrees"] for row in report["check"]), report["check"]
        assert report["sample"]["agrees"] and report["sample"]["relative_l2_difference"] < 2e-6, report["sample"]
        rows = {row["parameter"]: row for row in report["mapping"]}
        assert parameter in rows, (name, list(rows))
        assert set(rows) == set(load(folder / name / "best.safetensors")), name


def tensors(folder):
    """the report says which tensor of the file is which of the folder, whose first axis is time"""
    rows = imported("lstm_states", folder / "s")["tensors"]
    assert rows[0] == {"kind": "input", "in_the_file": "x", "in_the_folder": "x f32[T,B,3]"}, rows
    assert rows[1]["in_the_file"] == "h0" and rows[1]["in_the_folder"] == "state.0 f32[2,B,4]", rows
    assert [row["in_the_folder"].split()[0] for row in rows[3:]] == ["y", "state.0", "state.1"], rows
    report = imported("lstm_both", folder / "b")
    assert report["inputs"] == ["x f32[T,B,3]"] and report["outputs"] == ["y f32[T,B,2]"], report
    sample = load(GOLDEN / "lstm_both.sample.safetensors")  # x [3,6,3], y [3,6,2]
    x = [v for t in range(6) for b in range(3) for v in sample["x"][(b * 6 + t) * 3:(b * 6 + t + 1) * 3]]
    save(folder / "x", x=("F32", [6, 3, 3], x))
    ok("run", folder / "b", "--input", folder / "x", "--output", folder / "y")
    y = [v for t in range(6) for b in range(3) for v in sample["y"][(b * 6 + t) * 2:(b * 6 + t + 1) * 2]]
    assert all(abs(a - b) < 2e-6 for a, b in zip(load(folder / "y")["y"], y, strict=True))


def other_commands(folder):
    """stream, export and compare accept the folder; what we export can be imported again with equal parameters"""
    imported("lstm_default", folder / "m")
    x = [0.1 * (k % 7) - 0.3 for k in range(5 * 3)]
    save(folder / "x", x=("F32", [5, 1, 3], x))
    ok("run", folder / "m", "--input", folder / "x", "--output", folder / "y")
    whole = load(folder / "y")["y"]
    (folder / "lines").write_text("".join(" ".join(map(str, x[k:k + 3])) + "\n" for k in range(0, 15, 3)))
    lines = ok("stream", folder / "m", "--input", folder / "lines", "--json").out.splitlines()
    steps = [float(v) for line in lines for v in line.strip("[]").split(",")]
    assert all(abs(a - b) < 2e-6 for a, b in zip(steps, whole, strict=True)), (steps, whole)
    ok("export", folder / "m", "--format", "cpp", "--out", folder / "m.h", "--check")
    for name in ("lstm_both", "gru_final", "tagger", "lstm_states"):
        imported(name, folder / name)
        for stream in ([], ["--stream"]) if name == "lstm_states" else ([],):
            ok("export", folder / name, "--out", folder / "m.onnx", "--check", *stream)
            again = folder / f"{name}-again{len(stream)}"
            report = ok("import", folder / "m.onnx", "--out", again, "--json").json()
            assert report["layers"] == MODELS[name][0], report["layers"]
            assert load(again / "best.safetensors") == load(folder / name / "best.safetensors"), name
            assert "not compared" in report["sample"], report


def own_cells(folder):
    """peepholes and the reset gate before the product are kept; cells that ONNX has no layer for become a graph"""
    for cell, options, layer in (("lstm", "peephole = true", "lstm 5"), ("gru", "reset_after = false", "gru 5"),
                                 ("rnn", "bias = false", "rnn 5")):
        config = folder / f"{cell}.toml"
        config.write_text(f'[model]\ncell = "{cell}"\ninput = 3\nhidden = 5\n{options}\n')
        ok("export", config, "--out", folder / "m.onnx")
        assert ok("import", folder / "m.onnx", "--out", folder / cell, "--json").json()["layers"] == [layer]
    (folder / "mgu.toml").write_text('[model]\ncell = "mgu"\ninput = 3\nhidden = 5\n')
    ok("export", folder / "mgu.toml", "--out", folder / "m.onnx")
    assert "(Scan" in ok("import", folder / "m.onnx", "--out", folder / "mgu", "--json").json()["not_layers"]
    (folder / "p.toml").write_text('[model]\ncell = "lstm"\ninput = 3\nhidden = 5\nprojection = 2\n')
    ok("export", folder / "p.toml", "--out", folder / "m.onnx")
    assert "(Scan" in ok("import", folder / "m.onnx", "--out", folder / "p", "--json").json()["not_layers"]


def graphs(folder):
    """whatever is no layer in a row is kept as a graph, which runs and streams like the file"""
    report = ok("import", GOLDEN / "skip.onnx", "--out", folder / "m", "--json").json()
    assert "node '/Add'" in report["not_layers"] and "skip connection" in report["not_layers"], report
    assert report["time"] == "first" and report["sizes"] == "second = 1", report
    assert report["stream"] == "yes: 1 steps a block, 1 rows of output", report
    assert len(report["check"]) == 2 and all(row["agrees"] for row in report["check"]), report
    assert report["inputs"] == ["x f32[T,1,3]"] and report["outputs"] == ["y f32[T,1,3]"], report
    x = [0.1 * (k % 7) - 0.3 for k in range(5 * 3)]
    save(folder / "x", x=("F32", [5, 1, 3], x))
    for model in (folder / "m", GOLDEN / "skip.onnx"):
        ok("run", model, "--input", folder / "x", "--output", folder / "y")
        whole = load(folder / "y")["y"]
        (folder / "lines").write_text("".join(" ".join(map(str, x[k:k + 3])) + "\n" for k in range(0, 15, 3)))
        lines = ok("stream", model, "--input", folder / "lines", "--json").out.splitlines()
        steps = [float(v) for line in lines for v in line.strip("[]").split(",")]
        assert all(abs(a - b) < 2e-6 for a, b in zip(steps, whole, strict=True)), (steps, whole)
    ok("export", folder / "m", "--out", folder / "m.onnx", "--check")
    ok("export", folder / "m", "--format", "cpp", "--out", folder / "m.h", "--check")
    report = ok("import", GOLDEN / "rnn_unrolled.onnx", "--out", folder / "unrolled", "--json").json()
    assert "each position by itself" in report["stream"], report
    refused(2, "stream", GOLDEN / "skip.onnx", "--time", "T", says=["no free dimension 'T'", "first, second"])
    refused(2, "stream", folder / "m", "--time", "T", says=["apply to ONNX models only"])


def refusals(folder):
    """a file that cannot be read, has no input to stream, or differs from its sample is refused; nothing is written"""
    def attempt(name, *says, code=2):
        refused(code, "import", GOLDEN / f"{name}.onnx", "--out", folder / "x", says=says)

    attempt("packed", "node '/Cast_1'", "Nor as a graph", "input 'h0' i32[1] needs a value")
    for option in (["--layers", "rnn,head"], ["--prefix", "rnn."], ["--batch-first"], ["--ignore-unused"]):
        refused(2, "import", GOLDEN / "gru_mean.onnx", "--out", folder / "x", *option, says=[option[0], "ONNX"])
    sample = GOLDEN / "gru_max.sample.safetensors"
    refused(9, "import", GOLDEN / "gru_mean.onnx", "--sample", sample, "--out", folder / "x",
            says=["the output differs"])
    save(folder / "s", x=("F32", [6, 3, 3], [0.0] * 54))
    refused(3, "import", GOLDEN / "gru_mean.onnx", "--sample", folder / "s", "--out", folder / "x",
            says=["tensor y is missing"])
    (folder / "bad.onnx").write_bytes(GOLDEN.joinpath("gru_mean.onnx").read_bytes()[:900])
    refused(3, "import", folder / "bad.onnx", "--out", folder / "x")
    assert not (folder / "x").exists()


with tempfile.TemporaryDirectory() as work:
    run_checks([models, tensors, other_commands, own_cells, graphs, refusals], work)
