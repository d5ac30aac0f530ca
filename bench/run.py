#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours and PyTorch in turns on the same workloads; prints one line per workload with the ratio of the times.

usage: bench/run.py --unroll build/frontends/cli/unroll --python ENV/bin/python [--rounds 3] [--seconds 1] [--only TEXT]
A ratio below 1 means that we are faster. Exit code 9 when a ratio is above --limit.
"""
import argparse
import json
import pathlib
import subprocess
import sys

# name: options that both sides take
WORKLOADS = {
    "lstm B1": "--cell lstm --input 128 --hidden 256 --batch 1 --steps 100",
    "lstm B8": "--cell lstm --input 128 --hidden 256 --batch 8 --steps 100",
    "lstm B32": "--cell lstm --input 128 --hidden 256 --batch 32 --steps 100",
    "lstm B128": "--cell lstm --input 128 --hidden 256 --batch 128 --steps 100",
    "lstm B32 bidirectional": "--cell lstm --input 128 --hidden 256 --batch 32 --steps 100 --bidirectional",
    "lstm small": "--cell lstm --input 32 --hidden 64 --batch 16 --steps 50",
    "lstm H512 B64": "--cell lstm --input 256 --hidden 512 --batch 64 --steps 200",
    "lstm L2 H512": "--cell lstm --input 256 --hidden 512 --layers 2 --batch 32 --steps 100",
    "gru L2 H512": "--cell gru --input 256 --hidden 512 --layers 2 --batch 32 --steps 100",
    "rnn L2 H512": "--cell rnn --input 256 --hidden 512 --layers 2 --batch 32 --steps 100",
    "lstm L2 PTB": "--cell lstm --input 650 --hidden 650 --layers 2 --batch 20 --steps 35",
    "gru B32": "--cell gru --input 128 --hidden 256 --batch 32 --steps 100",
    "gru small": "--cell gru --input 32 --hidden 64 --batch 16 --steps 50",
    "rnn B32": "--cell rnn --input 128 --hidden 256 --batch 32 --steps 100",
    "lnlstm B32": "--cell lnlstm --input 128 --hidden 256 --batch 32 --steps 100",
    "lnlstm small": "--cell lnlstm --input 32 --hidden 64 --batch 16 --steps 50",
}


def timed(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare(o, options):
    """The best minimum and the middle median of all rounds, for both sides."""
    ours, theirs = [], []
    for _ in range(o.rounds):  # in turns, so that a slow spell of the machine hits both
        ours.append(timed([o.unroll, "bench", *options, "--backend", o.backend, "--json"]))
        theirs.append(timed([o.python, pathlib.Path(__file__).parent / "peers/torch_peer.py", *options]))
    best = [min(r["min_ms"] for r in side) for side in (ours, theirs)]
    median = [sorted(r["median_ms"] for r in side)[len(side) // 2] for side in (ours, theirs)]
    return best, median, max(r["gflops"] for r in ours)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unroll", default="build/frontends/cli/unroll")
    parser.add_argument("--python", default="python3", help="an interpreter that has torch")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", choices=["infer", "train"])
    parser.add_argument("--limit", type=float, default=float("inf"))
    o = parser.parse_args()
    worst = 0
    print("| workload | mode | unroll min / median ms | torch min / median ms | ratio of min | of median | GFLOP/s |")
    print("|---|---|---|---|---|---|---|")
    for name, text in WORKLOADS.items():
        if o.only not in name:
            continue
        for mode in [o.mode] if o.mode else ["infer", "train"]:
            options = [*text.split(), "--mode", mode, "--threads", str(o.threads), "--seconds", str(o.seconds)]
            best, median, rate = compare(o, options)
            worst = max(worst, best[0] / best[1])
            print(f"| {name} | {mode} | {best[0]:.3f} / {median[0]:.3f} | {best[1]:.3f} / {median[1]:.3f} "
                  f"| {best[0] / best[1]:.2f} | {median[0] / median[1]:.2f} | {rate:.0f} |", flush=True)
    return 9 if worst > o.limit else 0


sys.exit(main())
