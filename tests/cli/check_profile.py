#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`unroll profile`: its parts add up, and its trace is one that viewers open. usage: check_profile.py UNROLL"""
import json
import pathlib
import resource
import signal
import subprocess
import tempfile

from command import UNROLL, ok, refused, run_checks

BARE = '[model]\ncell = "gru"\ninput = 16\nhidden = 32\n[data]\nsteps = 20\n[train]\nbatch = 8\n'


def bare(folder):
    path = pathlib.Path(folder) / "bare.toml"
    path.write_text(BARE)
    return path


def phases(folder):
    """phases are parts of an update and add up to it; forward and backward take time"""
    found = ok("profile", bare(folder), "--updates", 5, "--threads", 2, "--json").json()
    milliseconds = {row["phase"]: row["milliseconds"] for row in found["phases"]}
    assert 0 < found["min_ms"] <= found["update_ms"], found
    phases = ["data", "forward", "backward", "update", "between calls", "transfer", "host"]
    assert list(milliseconds) == phases, milliseconds
    assert milliseconds["forward"] > 0 and milliseconds["backward"] > 0 and milliseconds["update"] > 0, milliseconds
    assert abs(sum(milliseconds.values()) / found["update_ms"] - 1) < 0.02, (milliseconds, found["update_ms"])


def calls(folder):
    """each call has its place, its work and what it was predicted to take; those of a loop are deeper"""
    found = ok("profile", bare(folder), "--updates", 5, "--threads", 1, "--json").json()["calls"]
    loops = [i for i, call in enumerate(found) if call["kernel"].startswith("loop of 20")]
    assert len(loops) == 2, found  # forward and backward
    for i in loops:
        assert found[i]["layer"] == "l0" and found[i]["depth"] == 0, found[i]
        inside = found[i + 1]
        assert inside["depth"] == 1 and inside["phase"] == found[i]["phase"], inside
        assert found[i]["milliseconds"] > 0 and found[i]["predicted_ms"] > 0, found[i]
    products = [call for call in found if call["depth"] == 1 and "matmul" in call["step"]]
    assert sum(call["flop"] for call in products if call["phase"] == "forward") == 20 * 2 * 8 * 32 * 96, products
    total = sum(call["milliseconds"] for call in found if call["depth"] == 0)
    assert total > 0


def every_model(folder):
    """a task, a run folder, another precision and other backends"""
    ok("new", "language-model", pathlib.Path(folder) / "lm")
    config = pathlib.Path(folder) / "lm/config.toml"
    small = ("--set", "model.hidden=16", "--updates", 2)
    ok("profile", config, *small)
    ok("train", config, "--set", "model.hidden=16", "--max-updates", 3, "--out", pathlib.Path(folder) / "run")
    before = sorted((pathlib.Path(folder) / "run").iterdir())
    ok("profile", pathlib.Path(folder) / "run", "--updates", 2)
    assert sorted((pathlib.Path(folder) / "run").iterdir()) == before  # it writes nothing there
    ok("profile", bare(folder), "--updates", 2, "--precision", "f16")
    ok("profile", bare(folder), "--updates", 2, "--set", "train.accumulate=2")
    found = ok("profile", bare(folder), "--updates", 2, "--backend", "reference", "--json").json()
    times = {row["phase"]: row["milliseconds"] for row in found["phases"]}
    assert times["forward"] > 0 and times["backward"] > 0, found["phases"]


def trace(folder):
    """the trace has a lane for each thread, the trainer and the loader, and no more events than it may"""
    path = pathlib.Path(folder) / "trace.json"
    for most, dropped in ((20000, False), (10, True)):
        found = ok("profile", bare(folder), "--updates", 2, "--threads", 2, "--trace", path, "--trace-events", most,
                   "--json").json()
        told = json.loads(path.read_text())
        assert (told["otherData"]["dropped"] > 0) == dropped and found["trace_dropped"] == told["otherData"]["dropped"]
        events = told["traceEvents"]
        lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        assert list(lanes.values()) == ["trainer", "loader", "thread 0", "thread 1"], lanes
        spans = [e for e in events if e["ph"] == "X"]
        assert all(e["ts"] >= 0 and e["dur"] >= 0 and e["name"] for e in spans)
        for lane, name in lanes.items():
            mine = [e for e in spans if e["tid"] == lane]
            assert name == "loader" or mine, name
            if name.startswith("thread"):
                assert len(mine) <= most
        assert {"run", "upload"} <= {e["name"] for e in spans if lanes[e["tid"]] == "trainer"}
        assert any("matmul" in e["name"] for e in spans)


def storage(folder):
    """a trace that cannot be written is told with exit code 6, after the tables, and an older one stays"""
    refused(6, "profile", bare(folder), "--updates", 1, "--trace", pathlib.Path(folder) / "none/trace.json",
            says=["trace.json"])
    path = pathlib.Path(folder) / "old.json"
    path.write_text("old")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = subprocess.run([UNROLL, "profile", bare(folder), "--updates", "1", "--trace", path],
                          capture_output=True, text=True, preexec_fn=small_files)
    assert done.returncode == 6 and "old.json" in done.stderr, (done.returncode, done.stderr)
    assert "forward" in done.stdout and path.read_text() == "old"
    assert sorted(p.name for p in pathlib.Path(folder).iterdir()) == ["bare.toml", "old.json"]  # nothing half-written


def bad_input(folder):
    """what is not there or cannot be is named"""
    refused(3, "profile", pathlib.Path(folder) / "no.toml", says=["no.toml"])
    refused(5, "profile", bare(folder), "--backend", "tpu", says=["tpu", "cpu"])
    (pathlib.Path(folder) / "half").mkdir()
    refused(3, "profile", pathlib.Path(folder) / "half", says=["half"])
    assert subprocess.run([UNROLL, "profile", bare(folder), "--updates", "0"], capture_output=True).returncode == 2


with tempfile.TemporaryDirectory() as work:
    run_checks([phases, calls, every_model, trace, storage, bad_input], work)
