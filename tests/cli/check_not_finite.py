#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models whose output is not finite: every task gives an empty answer with the reason and exit code 4, from outside.

Usage: check_not_finite.py UNROLL
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

from command import UNROLL, ok, refused, run_checks, save
from small_runs import KINDS, SMALL, config

VALUES = [math.nan, math.inf, -math.inf]
TEXTS = {"language-model": "the sea", "label": "the old king", "translate": "365", "summarize": "the report",
         "document": "a good film"}


def poison(folder, value, bias=None):
    """Parameters of the run become `value`, biases `bias`; without its digest the file counts as intact."""
    path = folder / "best.safetensors"
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + size])
    header["__metadata__"].pop("digest", None)
    data = bytearray(raw[8 + size:])
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        begin, end = entry["data_offsets"]
        number = value if bias is None or "bias" not in name else bias
        data[begin:end] = struct.pack("<f", number) * ((end - begin) // 4)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def trained(folder, kind):
    ok("train", config(folder / kind, kind), "--out", folder / kind / "run", "--max-updates", 1, *SMALL)
    return folder / kind / "run"


def input_of(folder, kind):
    """A file that the model of the kind answers; of a table two rows of the training file."""
    file = folder / kind / "input"
    if kind in TEXTS:
        file.write_text(TEXTS[kind] + "\n")
    else:
        (data,) = [p for p in (folder / kind / "demo").iterdir() if p.suffix == ".csv"]
        rows = data.read_text().splitlines()
        file.write_text("\n".join(rows if kind == "forecast" else rows[:2]) + "\n")
    return file


def has_number_words(text):
    return any(word in text.lower().replace("\t", ",").replace(" ", ",").split(",") for word in
               ("nan", "-nan", "inf", "-inf"))


def predictions(folder):
    """predict writes valid JSON with an error, and cells and texts without an answer, for each task and value"""
    for kind in KINDS:
        (folder / kind).mkdir()
        run, file = trained(folder, kind), input_of(folder, kind)
        for value in VALUES:
            poison(run, value)
            for form in ("jsonl", "csv", "tsv", "text"):
                result = refused(4, "predict", run, "--input", file, "--format", form, says=["not finite"])
                lines = result.out.splitlines()
                assert lines and not has_number_words(result.out), (kind, value, form, result.out)
                if form == "jsonl":
                    for line in lines:
                        row = json.loads(line)
                        assert "not finite" in row["error"], row
                        assert row.get("label") is None and row.get("probability") is None, row
                        assert not row.get("labels") and not row.get("target") and not row.get("summary"), row


def without_row(line, number):
    """An answer without the number of its row."""
    begin = f'{{"row":{number},' if line.startswith("{") else f"{number},"
    assert line.startswith(begin), line
    return line.removeprefix(begin)


def one_row(folder):
    """a row whose output is not finite does not take the answers of the others"""
    for kind in ("classify", "regress"):
        (folder / kind).mkdir()
        run, file = trained(folder, kind), input_of(folder, kind)
        poison(run, 3e38, bias=0)  # products with zeros are finite
        row = file.read_text().splitlines()[1].split(",")
        zeros = ",".join(["0"] * (len(row) - 1) + row[-1:])
        file.write_text("\n".join([zeros, ",".join(row), zeros]) + "\n")
        for form in ("jsonl", "csv"):
            result = refused(4, "predict", run, "--input", file, "--format", form, says=["input:2", "not finite"])
            first, bad, last = result.out.splitlines()[-3:]
            first, last = without_row(first, 1), without_row(last, 3)
            assert first == last and first.strip(",") and "error" not in first, result.out
            assert "error" in json.loads(bad) if form == "jsonl" else without_row(bad, 2).strip(',"') == "", result.out
            assert "on 2 rows" in result.err, result.err


def other_commands(folder):
    """eval, generate and stream end with 4; their JSON has null; run says which outputs are not finite"""
    for kind in KINDS:
        (folder / kind).mkdir()
        run = trained(folder, kind)
        poison(run, math.nan)
        result = refused(4, "eval", run, "--json", says=["loss on the test set is not finite"])
        report = result.json()
        assert report["loss"] is None and "not finite" in report["error"] and "classes" not in report, report
        refused(4, "eval", run, says=["not finite"])
        if kind == "language-model":
            result = refused(4, "generate", run, "--length", 5, "--json", says=["not finite"])
            assert not has_number_words(result.out), result.out
        if kind == "forecast":
            refused(9, "export", run, "--out", folder / "m.onnx", "--check", says=["computes something else"])
            lines = subprocess.run([UNROLL, "stream", str(run), "--json"], input="300\n301\n", capture_output=True,
                                   text=True)
            assert lines.returncode == 4 and "output of step 1 is not finite" in lines.stderr, lines
            assert set(json.loads(lines.stdout.splitlines()[0])) == {None}, lines.stdout
    save(folder / "lstm", weight_ih_l0=("F32", [1, 1], [math.nan]), weight_hh_l0=("F32", [1, 1], [1]),
         bias_ih_l0=("F32", [1], [0]), bias_hh_l0=("F32", [1], [0]))
    save(folder / "sample", input=("F32", [2, 1, 1], [1, 2]), output=("F32", [2, 1, 1], [math.nan, math.nan]))
    refused(4, "import", folder / "lstm", "--sample", folder / "sample", "--out", folder / "x", says=["not finite"])
    (folder / "c.toml").write_text("[model]\ncell = \"rnn\"\ninput = 1\nhidden = 1\n")
    save(folder / "w", weight_ih_l0=("F32", [1, 1], [1]), weight_hh_l0=("F32", [1, 1], [1]),
         bias_ih_l0=("F32", [1], [math.nan]), bias_hh_l0=("F32", [1], [0]))
    save(folder / "i", x=("F32", [3, 1, 1], [1, 2, 3]))
    command = ["run", folder / "c.toml", "--weights", folder / "w", "--input", folder / "i", "--output", folder / "o"]
    assert "3 of 3 elements of y are not finite" in ok(*command).err
    assert ok(*command, "--json").json()["not_finite"] == {"hn": 1, "y": 3}


with tempfile.TemporaryDirectory() as work:
    run_checks([predictions, one_row, other_commands], pathlib.Path(work))
