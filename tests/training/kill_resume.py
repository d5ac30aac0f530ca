#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Kills a run with SIGKILL at random moments and resumes it: the files it leaves must be those of an undisturbed run,
# byte for byte. Kills are shared out among the kinds of runs whose state is more than parameters.
# usage: kill_resume.py UNROLL [--kills N] [--updates N] [--seed S] [--backend NAME] [--keep]
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

# What else is on in a kind of run; all carry state from window to window.
KINDS = {
    "batches made in time": ["train.prefetch=0"],
    "accumulation and an average": ["train.accumulate=3", "train.average=ema", "train.average_decay=0.9"],
    "batches made ahead and statistics": ["train.prefetch=16", "train.watch_every=13"],
    "f16 whose loss scale overflows": ["train.precision=f16", "train.loss_scale=16777216", "train.loss_scale_every=9"],
}


def digests(folder):
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def command(a, settings, folder, resume):
    line = [a.unroll, "train", str(a.config), "--out", str(folder), "--backend", a.backend, "--threads", "1"]
    return line + [word for s in settings for word in ("--set", s)] + (["--resume"] if resume else [])


def train(a, settings, folder, resume, kill_after=None):
    """True when the run ended by itself."""
    process = subprocess.Popen(command(a, settings, folder, resume), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, errors = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False
    if process.returncode != 0:
        sys.exit(f"unroll train failed with {process.returncode}:\n{errors.decode()}")
    return True


def kill_runs(a, kind, settings, wanted, root, moments):
    root.mkdir()
    start = time.monotonic()
    train(a, settings, root / "whole", resume=False)
    duration = time.monotonic() - start
    expected = digests(root / "whole")

    kills = runs = 0
    while kills < wanted:
        folder = root / f"killed{runs}"
        runs += 1
        killed_here = 0
        # Moments over the whole duration at first, then shorter ones so that a run is killed more than once.
        while True:
            kill_after = moments.uniform(0, duration) / (1 + killed_here)
            if train(a, settings, folder, resume=folder.exists(), kill_after=kill_after):
                break
            kills += 1
            killed_here += 1
            if killed_here == 4:
                train(a, settings, folder, resume=folder.exists())
                break
        names = [sorted(p.name for p in f.iterdir()) for f in (root / "whole", folder)]
        if names[0] != names[1]:
            sys.exit(f"{folder} holds {names[1]}, an undisturbed run leaves {names[0]}")
        got = digests(folder)
        for name in FILES:
            if got[name] != expected[name]:
                sys.exit(f"{folder / name} differs after {killed_here} kills ({kind}); repeat with --seed {a.seed} "
                         "--keep")
    print(f"{kind}: {kills} kills in {runs} runs of {duration:.2f} s: {', '.join(FILES)} are equal byte for byte",
          flush=True)


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
    a.config = root / "config.toml"
    a.config.write_text(CONFIG.format(text=root / "text.txt", updates=a.updates))

    for i, (kind, settings) in enumerate(KINDS.items()):
        share = a.kills * (i + 1) // len(KINDS) - a.kills * i // len(KINDS)
        kill_runs(a, kind, settings, share, root / str(i), moments)
    if not a.keep:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
