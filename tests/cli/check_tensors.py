#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensor files that people bring: lengths, types, ties and names in `run`, `import` and `inspect`, from outside.

Usage: check_tensors.py UNROLL
"""
import sys
import tempfile

from command import call, load, ok, refused, run_checks, save
from small_runs import SMALL, config

STEPS = 5
LSTM = {"weight_ih_l0": ("F32", [8, 2], [0.5] * 16), "weight_hh_l0": ("F32", [8, 2], [0.25] * 16),
        "bias_ih_l0": ("F32", [8], [0] * 8), "bias_hh_l0": ("F32", [8], [0] * 8)}


def lstm_named(prefix, **changed):
    return {prefix + name: tensor for name, tensor in {**LSTM, **changed}.items()}


def lengths(folder):
    """run refuses a length that is no number of steps: of a run folder, a config and an ONNX model"""
    ok("train", config(folder, "label"), "--out", folder / "run", "--max-updates", 1, *SMALL)
    ok("export", folder / "run", "--out", folder / "m.onnx")
    (folder / "c.toml").write_text("[model]\ncell = \"lstm\"\ninput = 2\nhidden = 2\n")
    save(folder / "w", **LSTM)
    ids, x = {"ids": ("I32", [STEPS, 2], [1] * 10)}, {"x": ("F32", [STEPS, 2, 2], [0.5] * 20)}
    for model, more, inputs in [(folder / "run", [], ids), (folder / "m.onnx", [], ids),
                                (folder / "c.toml", ["--weights", folder / "w"], x)]:
        command = ["run", model, *more, "--input", folder / "i", "--output", folder / "o"]
        for length in [-1, 0, STEPS, STEPS + 1]:
            save(folder / "i", **inputs, lengths=("I32", [2], [STEPS, length]))
            if 0 <= length <= STEPS:
                ok(*command)
            else:
                refused(3, *command, says=[f"[{folder}/i] input 'lengths' has {length} as element 1",
                                           "between 0 and 5, the number of steps"])


TYPES = {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "I64": 8, "U64": 8, "F8_E4M3": 1, "F8_E5M2": 1}
UNUSABLE = {"F8_E4M3", "F8_E5M2"}


def types(folder):
    """inspect lists a tensor of any type; import skips it where no layer reads it, and names it otherwise"""
    file = folder / "w.safetensors"
    for dtype in TYPES:
        text = "b8" if dtype == "BOOL" else dtype.lower()
        save(file, **lstm_named("model.rnn."), **{"more.t": (dtype, [2], [0, 1])})
        rows = {row["name"]: row for row in ok("inspect", file, "--json").json()["tensors"]}
        assert rows["more.t"]["type"] == f"{text}[2]" and rows["more.t"]["elements"] == 2, rows
        assert ("unusable" in rows["more.t"]) == (dtype in UNUSABLE), rows
        assert ("CANNOT BE USED" in ok("inspect", file).out) == (dtype in UNUSABLE)
        refused(3, "import", file, "--out", folder / "x", says=[f"no layer of the model: more.t {text}"])
        for k, option in enumerate([["--prefix", "model."], ["--ignore-unused"]]):
            out = folder / f"{dtype}-{k}"
            report = ok("import", file, *option, "--out", out, "--json").json()
            assert report["unused"] == [{"name": "more.t", "type": f"{text}[2]"}], report
        save(file, **lstm_named("rnn.", weight_hh_l0=(dtype, [8, 2], [1] * 16)))
        why = f"has the type '{dtype}', which unroll cannot use" if dtype in UNUSABLE else f"is {text}[8,2]"
        refused(3, "import", file, "--out", folder / "x", says=["rnn.weight_hh_l0", why])
    save(file, **lstm_named("rnn."), big=("I64", [1], [2**40]))
    ok("import", file, "--ignore-unused", "--out", folder / "big")
    assert "1099511627776 as element 0" in ok("inspect", file, "--json").json()["tensors"][0]["unusable"]


def forms(folder):
    """scalars, tensors without elements, empty metadata and tensors in any order of the data are read"""
    file = folder / "w.safetensors"
    save(file, metadata={}, **lstm_named("rnn."), s=("F32", [], [1]), e=("F64", [0, 3], []))
    report = ok("import", file, "--ignore-unused", "--out", folder / "r", "--json").json()
    assert {row["type"] for row in report["unused"]} == {"f32[]", "f64[0,3]"}, report
    (folder / "n.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    assert ok("inspect", folder / "n.safetensors", "--json").json()["tensors"] == []


def ties(folder):
    """tensors that safetensors.torch.save_model dropped because they are tied are there again, and are named"""
    file = folder / "w.safetensors"
    embedding = ("F32", [5, 2], [0.1 * k for k in range(10)])
    save(file, metadata={"format": "pt", "head.weight": "embedding.weight"}, **lstm_named("rnn."),
         **{"embedding.weight": embedding, "head.bias": ("F32", [5], [0] * 5)})
    report = ok("import", file, "--out", folder / "lm", "--json").json()
    assert report["layers"] == ["embedding 5 -> 2", "lstm 2", "linear -> 5"], report
    assert {"in_the_file": "head.weight", "type": "f32[5,2], tied to embedding.weight", "parameter": "head.weight",
            "shape": "[5,2]"} in report["mapping"], report
    best = load(folder / "lm/best.safetensors")
    assert best["head.weight"] == best["embedding.weight"]
    # the other one is kept
    save(file, metadata={"embedding.weight": "head.weight"}, **lstm_named("rnn."),
         **{"head.weight": embedding, "head.bias": ("F32", [5], [0] * 5)})
    ok("import", file, "--out", folder / "lm2")
    assert load(folder / "lm2/best.safetensors") == best
    # two layers that share all weights
    save(file, metadata={f"second.{name}": f"first.{name}" for name in LSTM}, **lstm_named("first."))
    report = ok("import", file, "--layers", "first,second", "--out", folder / "two", "--json").json()
    assert report["layers"] == ["lstm 2", "lstm 2"] and len(report["mapping"]) == 8, report
    save(file, metadata={"second.weight_hh_l0": "third.weight_hh_l0"}, **lstm_named("first."))
    refused(3, "import", file, "--out", folder / "x", says=["'second.weight_hh_l0'", "'third.weight_hh_l0'"])
    # weights of a config
    (folder / "c.toml").write_text("[model]\ncell = \"lstm\"\ninput = 2\nhidden = 2\nlayers = 2\n")
    save(folder / "w", metadata={name.replace("l0", "l1"): name for name in LSTM}, **LSTM)
    save(folder / "i", x=("F32", [STEPS, 1, 2], [0.5] * 10))
    ok("run", folder / "c.toml", "--weights", folder / "w", "--input", folder / "i", "--output", folder / "o")


def names(folder):
    """names in files cannot write to the terminal, neither in listings nor in errors"""
    file, evil = folder / "w.safetensors", "rnn.\x1b[31mred\x07\n.weight"
    save(file, metadata={"\x1b]0;title\x07": "\x1b[2J"}, **lstm_named("rnn."), **{evil: ("F32", [1], [1])})
    for result in (ok("inspect", file), refused(3, "import", file, "--out", folder / "x"),
                   ok("import", file, "--ignore-unused", "--out", folder / "y")):
        text = result.out + result.err
        assert "\x1b" not in text and "\x07" not in text and "\\x1b[31mred\\x07" in text, text
    assert ok("inspect", file, "--json").json()["tensors"][0]["name"] == evil


def words(folder):
    """run says nothing with --quiet, and names a folder that is not there"""
    (folder / "c.toml").write_text("[model]\ncell = \"lstm\"\ninput = 2\nhidden = 2\n")
    save(folder / "w", **LSTM)
    save(folder / "i", x=("F32", [STEPS, 1, 2], [0.5] * 10))
    files = ["--input", folder / "i", "--output", folder / "o"]
    assert "wrote 3 tensors" in ok("run", folder / "c.toml", "--weights", folder / "w", *files).err
    assert ok("run", "-q", folder / "c.toml", "--weights", folder / "w", *files).err == ""
    assert ok("new", "-q", "forecast", folder / "demo").err == ""
    for missing, says in {"runs/none": "no such file", "none.toml": "no such file", "none.onnx": "cannot open"}.items():
        refused(3, "run", folder / missing, *files, says=[missing, says])
    assert call("run", folder / "c.toml", *files).code == 2  # --weights


with tempfile.TemporaryDirectory() as work:
    run_checks([lengths, types, forms, ties, names, words], work)
