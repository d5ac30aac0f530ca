#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of bench/ on the smallest workloads. usage: check_bench.py UNROLL SOURCE_ROOT"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from command import UNROLL, run_checks

BENCH = pathlib.Path(sys.argv[2]) / "bench"
QUICK = ["--unroll", UNROLL, "--rounds", 1, "--seconds", 0, "--threads", 1]


def script(name, *arguments):
    return subprocess.run([sys.executable, *map(str, [BENCH / name, *arguments])], capture_output=True, text=True,
                          timeout=300)


def stand_in(folder, text):
    """Something to give as --python, which says `text` in the place of every peer."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\nimport sys\nif sys.argv[1] != '-c':\n    print('''{text}''')\n"
                    if text else "#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def absent_peers(folder):
    """a peer whose package is absent is skipped and named, and ours is timed all the same"""
    done = script("run.py", *QUICK, "--only", "lstm small", "--with", "torch,jax", "--python", stand_in(folder, ""),
                  "--json", folder / "o.json")
    assert done.returncode == 0, done.stderr
    assert "skipped: torch" in done.stderr and "skipped: jax" in done.stderr, done.stderr
    found = json.loads((folder / "o.json").read_text())
    assert [(r["workload"], r["mode"]) for r in found["rows"]] == [("lstm small", "infer"), ("lstm small", "train")]
    assert all(r["unroll"]["min_ms"] > 0 and r["peers"] == {} for r in found["rows"]), found
    assert found["sgemm_gflops"]["unroll"] > 0
    assert done.stdout.count("\n| lstm small |") == 2, done.stdout


def peers(folder):
    """a peer's times become a ratio; a result that differs, and with --strict a missed goal, are exit code 9"""
    def run(*more, seconds=1e3, difference=1e-7):
        text = json.dumps({"min_ms": seconds * 1e3, "median_ms": seconds * 2e3, "gflops": 1, "relative_l2": difference})
        return script("run.py", *QUICK, "--only", "lstm small", "--mode", "infer", "--with", "torch", "--python",
                      stand_in(folder, text), "--json", folder / "o.json", *more)
    assert run("--strict").returncode == 0
    (row,) = json.loads((folder / "o.json").read_text())["rows"]
    assert row["ratio"] > 1 and abs(row["ratio"] * row["unroll"]["min_ms"] / 1e6 - 1) < 1e-9, row
    differs = run(difference=0.5)
    assert differs.returncode == 9 and "differ by 5.0e-01" in differs.stderr, differs.stderr
    slow = run("--strict", seconds=1e-9)
    assert slow.returncode == 9 and "is below 2" in slow.stderr, slow.stderr


def sweeps(folder):
    """sweeps print a line for each cell and value, and for each product and value"""
    done = script("sweep.py", "layers", "--vary", "batch=1,2", "--cells", "rnn,gru", "--hidden", 8, "--input", 4,
                  "--steps", 3, *QUICK, "--json", folder / "o.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "o.json").read_text())["rows"]
    assert [(r["cell"], r["batch"]) for r in rows] == [("rnn", 1), ("rnn", 2), ("gru", 1), ("gru", 2)], rows
    assert rows[0]["speed_up_a_sequence"] == rows[0]["cost"] == 1, rows
    assert abs(rows[3]["cost"] * rows[1]["min_ms"] / rows[3]["min_ms"] - 1) < 1e-9, rows
    done = script("sweep.py", "gemm", "--vary", "steps=2,3", "--hidden", 8, "--batch", 2, "--gates", "gru", *QUICK,
                  "--backends", "cpu,reference", "--json", folder / "o.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "o.json").read_text())["rows"]
    assert [r["m"] for r in rows if r["product"] == "layer to layer, forward"] == [4, 6], rows
    assert all(g > 0 for r in rows for g in r["gflops"].values()) and len(rows) == 10, rows
    done = script("sweep.py", "gemm", "--vary", "hidden=4,8", "--batch", 2, "--steps", 2, *QUICK, "--precisions",
                  "tf32,bf16", "--json", folder / "o.json", "--svg", folder / "o.svg")
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "o.json").read_text())["rows"]
    assert list(rows[0]["gflops"]) == ["cpu tf32", "cpu bf16"], rows
    picture = xml.etree.ElementTree.parse(folder / "o.svg").getroot()
    lines = [line for line in picture.iter() if line.tag.endswith("polyline")]
    assert len(lines) == 10 and all(len(line.get("points").split()) == 2 for line in lines), len(lines)


def installed(folder):
    """compare --with finds the scripts of an installed tree, and says that they are missing before it runs Python"""
    command, ran, python = folder / "bin/unroll", folder / "ran", folder / "python"
    command.parent.mkdir()
    shutil.copy(UNROLL, command)
    python.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    python.chmod(0o755)
    (folder / "l.toml").write_text("[model]\ninput = 4\nhidden = 4\n")
    library = str(pathlib.Path(UNROLL).parents[2])

    def compared():
        return subprocess.run([command, "compare", folder / "l.toml", "--with", "torch", "--python", python],
                              capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LD_LIBRARY_PATH": library})
    missing = compared()
    assert missing.returncode == 2 and "share/unroll/peers" in missing.stderr and not ran.exists(), missing.stderr
    shutil.copytree(BENCH / "peers", folder / "share/unroll/peers")
    found = compared()
    assert found.returncode == 2 and "cannot import" in " ".join(found.stderr.split()) and ran.exists(), found.stderr


with tempfile.TemporaryDirectory() as work:
    run_checks([absent_peers, peers, sweeps, installed], work)
