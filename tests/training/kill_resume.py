#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Kills a run with SIGKILL at random moments and resumes it: the files it leaves must be those of an undisturbed run,
# byte for byte. usage: kill_resume.py UNROLL [--kills N] [--seed S] [--backend NAME] [--keep]
import argparse
import hashlib
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FILES = ("last.safetensors", "best.safetensors", "metrics.jsonl")
CONFIG = """
[task]
kind = "language-model"
[data]
path = "{text}"
steps = 8
[model]
hidden = 12
layers = 2
embedding = 6
dropout = 0.2
[train]
batch = 4
lr = 0.01
schedule = "cosine"
max_updates = {updates}
validate_every = 35
checkpoint_every = 10
log_every = 7
"""


def digests(folder):
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def command(a, config, folder, resume):
    line = [a.unroll, "train", str(config), "--out", str(folder), "--backend", a.backend, "--threads", "1"]
    return line + (["--resume"] if resume else [])


def train(a, config, folder, resume, kill_after=None):
    """True when the run ended by itself."""
    process = subprocess.Popen(command(a, config, folder, resume), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, errors = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False
    if process.returncode != 0:
        sys.exit(f"unroll train failed with {process.returncode}:\n{errors.decode()}")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("unroll")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--keep", action="store_true", help="leave the folders there")
    a = parser.parse_args()
    moments = random.Random(a.seed)
    root = pathlib.Path(tempfile.mkdtemp(prefix="unroll-kill-"))
    print(f"kill_resume: seed {a.seed}, backend {a.backend}", flush=True)
    (root / "text.txt").write_text("".join(f"the {i % 13} of {i * i % 97} and so on;\n" for i in range(150)))
    config = root / "config.toml"
    config.write_text(CONFIG.format(text=root / "text.txt", updates=a.updates))

    start = time.monotonic()
    train(a, config, root / "whole", resume=False)
    duration = time.monotonic() - start
    expected = digests(root / "whole")

    kills = runs = 0
    while kills < a.kills:
        folder = root / f"killed{runs}"
        runs += 1
        killed_here = 0
        # Moments over the whole duration at first, then shorter ones so that a run is killed more than once.
        while True:
            kill_after = moments.uniform(0, duration) / (1 + killed_here)
            if train(a, config, folder, resume=folder.exists(), kill_after=kill_after):
                break
            kills += 1
            killed_here += 1
            if killed_here == 4:
                train(a, config, folder, resume=folder.exists())
                break
        names = [sorted(p.name for p in f.iterdir()) for f in (root / "whole", folder)]
        if names[0] != names[1]:
            sys.exit(f"{folder} holds {names[1]}, an undisturbed run leaves {names[0]}")
        got = digests(folder)
        for name in FILES:
            if got[name] != expected[name]:
                sys.exit(f"{folder / name} differs after {killed_here} kills; repeat with --seed {a.seed} --keep")
    print(f"kill_resume: {kills} kills in {runs} runs of {duration:.2f} s: {', '.join(FILES)} are equal byte for byte")
    if not a.keep:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
