#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How alike the starts of a process are: each start chooses schedules by timing, and a wrong choice stays for a while.

usage: bench/starts.py --unroll build/frontends/cli/unroll [--starts 20] [--threads 2] [--seconds 1]
Starts of all models take turns, so that a slow phase of the machine meets all of them. One row per model: the median
over its starts, and the slowest start by the fastest, of the fastest run of each start and of its median run. The
fastest run shows the schedule that a start chose; the median run shows other programs, too. "machine" is a matrix
product, which has no schedules: its row says how alike starts can be. Exit code 9: by its fastest run, the slowest
start of a model took more than 10 % longer than the fastest.
"""
import argparse
import json
import statistics
import subprocess
import sys

MODELS = {
    "machine": "--mode gemm --shape 768x768x768",
    "gru I128 H256 B1 T100 infer": "--cell gru --mode infer --input 128 --hidden 256 --batch 1 --steps 100",
    "lstm I256 H512 B64 T60 infer": "--cell lstm --mode infer --input 256 --hidden 512 --batch 64 --steps 60",
    "lstm I32 H64 B16 T50 train": "--cell lstm --mode train --input 32 --hidden 64 --batch 16 --steps 50",
    "lnlstm I32 H64 B16 T50 train": "--cell lnlstm --mode train --input 32 --hidden 64 --batch 16 --steps 50",
    "bi-lstm I24 H32 B1 T63 infer":
        "--cell lstm --mode infer --input 24 --hidden 32 --batch 1 --steps 63 --bidirectional",
    "gru I128 H256 B32 T100 train": "--cell gru --mode train --input 128 --hidden 256 --batch 32 --steps 100",
}
ALLOWED = 0.10


def milliseconds(o, options):
    command = [o.unroll, "bench", *options.split(), "--threads", str(o.threads), "--seconds", str(o.seconds)]
    done = subprocess.run(command + ["--json", "-q"], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    return result["min_ms"], result["median_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    o = parser.parse_args()
    times = {name: [] for name in MODELS}
    for _ in range(o.starts):
        for name, options in MODELS.items():
            times[name].append(milliseconds(o, options))
    print(f"{o.starts} starts, {o.threads} threads, {o.seconds:g} s each")
    print(f"{'':30} {'fastest run':^22} {'median run':^22}")
    print(f"{'model':30} {'ms':>9} {'slow / fast':>12} {'ms':>9} {'slow / fast':>12}")
    good = True
    for name, pairs in times.items():
        columns = list(zip(*pairs))  # fastest runs, median runs
        ratios = [max(column) / min(column) for column in columns]
        good = good and (name == "machine" or ratios[0] <= 1 + ALLOWED)
        cells = [f"{statistics.median(column):9.3f} {ratio:12.2f}" for column, ratio in zip(columns, ratios)]
        print(f"{name:30} {' '.join(cells)}")
    return 0 if good else 9


if __name__ == "__main__":
    sys.exit(main())
