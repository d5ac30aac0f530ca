#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with train_your_own and with the command, then runs load_and_run on every model file that they wrote.

usage: check_load_and_run.py TRAIN_YOUR_OWN LOAD_AND_RUN UNROLL FORECAST_CONFIG
"""
import pathlib
import re
import subprocess
import sys
import tempfile

TRAIN, LOAD, UNROLL, CONFIG = sys.argv[1:]


def run(*command):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True)
    print("$", " ".join(pathlib.Path(c).name for c in map(str, command)), f"\n{done.stdout}{done.stderr}", flush=True)
    return done


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        trained = run(TRAIN, work / "model.safetensors")
        assert trained.returncode == 0, trained.returncode
        assert re.search(r"^test loss 0\.0", trained.stdout, re.M)
        # The mark is on 0.2 and 0.5: an untrained network does not add them up.
        loaded = run(LOAD, work / "model.safetensors")
        value = float(re.fullmatch(r"prediction (-?[0-9.]+)\n", loaded.stdout)[1])
        assert abs(value - 0.7) < 0.3, value

        done = run(UNROLL, "train", CONFIG, "--out", work / "run", "--max-updates", 3)
        assert done.returncode == 0, done.returncode
        # A checkpoint with optimizer state is a model file too.
        for target in ("run", "run/config.toml"):
            done = run(UNROLL, "eval", work / target, "--weights", work / "run/last.safetensors")
            assert done.returncode == 0 and "mase" in done.stdout, done.returncode
        for name in ("best", "last"):
            done = run(LOAD, work / f"run/{name}.safetensors")
            assert done.returncode == 0 and done.stdout.count("first output") == 5
        absent = run(LOAD, work / "absent.safetensors")
        assert absent.returncode == 3 and "cannot open" in absent.stderr


main()
