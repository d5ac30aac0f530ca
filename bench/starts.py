#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How alike the starts of a process are: each start chooses schedules by timing, and a wrong choice stays for a while.

usage: bench/starts.py --unroll build/frontends/cli/unroll [--starts 20] [--threads 2] [--seconds 1]
Starts of all models take turns, so that a slow phase of the machine meets all of them. One row per model: the median
time of its starts, and the fastest and the slowest relative to it. "machine" is a matrix product, which has no
schedules: its row says how alike starts can be. Exit code 9: the slowest start of a model took more than 10 % longer
than its fastest.
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
    return json.loads(done.stdout)["median_ms"]


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
    print(f"{'model':30} {'median ms':>9} {'fastest':>7} {'slowest':>7} {'slowest / fastest':>17}")
    good = True
    for name, list_ in times.items():
        middle, least, most = statistics.median(list_), min(list_), max(list_)
        good = good and (name == "machine" or most <= (1 + ALLOWED) * least)
        print(f"{name:30} {middle:9.3f} {least / middle:7.2f} {most / middle:7.2f} {most / least:17.2f}")
    return 0 if good else 9


if __name__ == "__main__":
    sys.exit(main())
