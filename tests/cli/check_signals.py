#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals: a training run is saved, and no command leaves a temporary file. With time limits.

Usage: check_signals.py UNROLL
"""
import os
import signal
import subprocess
import tempfile
import time

from command import UNROLL, ok, run_checks
from small_runs import KINDS, SMALL

STOPS = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
ENDS = [*STOPS, signal.SIGQUIT, signal.SIGPIPE]
LIMIT = 60  # seconds


def wait_for(what, process):
    start = time.monotonic()
    while not what():
        assert process.poll() is None, f"ended with {process.returncode}: {process.stderr.read()}"
        assert time.monotonic() - start < LIMIT, "nothing came"
        time.sleep(0.01)


def started(*arguments, **more):
    return subprocess.Popen([UNROLL, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **more)


def training(folder, name, **more):
    run = folder / name
    process = started("train", folder / "demo/config.toml", "--out", run, *SMALL, "--set", "train.max_updates=1000000",
                      "--set", "train.patience=0", **more)
    wait_for((run / "last.safetensors").exists, process)
    return run, process


def saved(folder):
    """train: SIGHUP, SIGINT and SIGTERM save a checkpoint, which --resume continues"""
    ok("new", "classify", folder / "demo")
    for stop in STOPS:
        run, process = training(folder, stop.name)
        process.send_signal(stop)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 128 + stop, (stop, process.returncode, err)
        assert f"unroll train --resume --out {run}" in err, (stop, err)
        updates = int(err.split("stopped after update ")[1].split(";")[0].replace(",", ""))
        resumed = ok("train", "--resume", "--out", run, "--max-updates", updates + 3, "--json")
        assert resumed.json()["updates"] == updates + 3, resumed.out
        assert not list(run.glob("*.tmp")), list(run.iterdir())


def ignored(folder):
    """train: a run under nohup goes on after SIGHUP"""
    ok("new", "classify", folder / "demo")
    run, process = training(folder, "run", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    size = (run / "metrics.jsonl").stat().st_size
    wait_for(lambda: (run / "metrics.jsonl").stat().st_size > size, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGTERM


def twice(folder):
    """train: the second signal ends the process at once, and leaves no temporary file"""
    ok("new", "classify", folder / "demo")
    run, process = training(folder, "run")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert not list(run.glob("*.tmp")), list(run.iterdir())


def predicting(folder):
    """predict: any signal that ends it removes the temporary file, and the file from before stays"""
    lines = {"label": "the sea again\n", "document": "a lamp today.\n", "translate": "17\n", "language-model": "a\n",
             "summarize": "on monday venba opened the tower .\n", "classify": None, "regress": None}
    for kind in KINDS:
        if kind == "forecast":
            continue  # it reads all of its input before it writes
        ok("new", kind, folder / kind / "demo")
        run, out = folder / kind / "run", folder / kind / "out.txt"
        ok("train", folder / kind / "demo/config.toml", "--out", run, "--max-updates", 1, *SMALL)
        line = lines[kind] or next((folder / kind / "demo").glob("*.csv")).read_text().splitlines()[0] + "\n"
        for end in ENDS if kind == "label" else ENDS[2:3]:
            out.write_text("before")
            process = started("predict", run, "--output", out)
            process.stdin.write(line)
            process.stdin.flush()
            wait_for((folder / kind / "out.txt.tmp").exists, process)
            process.send_signal(end)
            process.wait(timeout=LIMIT)
            assert process.returncode == -end, (kind, end, process.returncode, process.stderr.read())
            assert [p.name for p in out.parent.glob("out*")] == ["out.txt"] and out.read_text() == "before", (kind, end)
            for pipe in (process.stdin, process.stdout, process.stderr):
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_checks([saved, ignored, twice, predicting], work)
