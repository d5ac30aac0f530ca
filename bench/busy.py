#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training beside other programs: the time of a run on several threads, relative to the same run on one.

usage: bench/busy.py --unroll build/frontends/cli/unroll [--busy 0,2] [--threads 1,2,4] [--rounds 3] [CONFIG ...]
For each number of busy loops, the runs of all thread counts take turns; the median of the rounds counts. The results
of all runs are the same in every bit. Exit code 9: beside busy loops, more threads take more than --factor times the
time of one.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from estimate import EXAMPLES, JOBS, Busy


def seconds(o, config, threads):
    with tempfile.TemporaryDirectory() as folder:
        command = [o.unroll, "train", config, "--out", f"{folder}/run", "--json", "--threads", threads, "--max-updates",
                   o.updates or JOBS.get(pathlib.Path(config).stem, 200), "--set", "run.estimate_seconds=0"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--busy", default=f"0,{os.cpu_count()}", help="numbers of busy loops, comma-separated")
    parser.add_argument("--threads", default="1,2", help="comma-separated; others are compared with the first one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, help="updates of each run; default: a few seconds of them")
    parser.add_argument("--factor", type=float, default=1.3)
    parser.add_argument("configs", nargs="*", help="config files; default: digits and char-lm")
    o = parser.parse_args()
    good = True
    print(f"{'config':12} {'busy loops':>10} {'threads':>7} {'seconds':>8} {'ratio':>6}")
    for config in o.configs or [str(EXAMPLES / f"{name}.toml") for name in ("digits", "char-lm")]:
        for busy in map(int, o.busy.split(",")):
            counts = [int(n) for n in o.threads.split(",")]
            taken = {n: [] for n in counts}
            with Busy(busy):
                for _ in range(o.rounds):
                    for n in counts:
                        taken[n].append(seconds(o, config, n))
            for n in counts:
                ratio = statistics.median(taken[n]) / statistics.median(taken[counts[0]])
                good = good and (busy == 0 or ratio <= o.factor)
                print(f"{pathlib.Path(config).stem:12} {busy:10} {n:7} {statistics.median(taken[n]):8.2f} {ratio:6.2f}",
                      flush=True)
    return 0 if good else 9


if __name__ == "__main__":
    sys.exit(main())
