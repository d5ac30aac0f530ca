#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good the estimate before a run is: starts of example jobs, with the actual time and memory beside the estimate.

usage: bench/estimate.py --unroll build/frontends/cli/unroll [--starts 30] [--threads 1,2,4] [--busy 1] [CONFIG ...]
Each start trains for a bounded number of updates. With --busy N, N busy loops run beside it. One row per config and
number of threads: starts that were refused, shares of starts within the limits, and the extreme errors. "alike" is the
share of starts whose time is within the limit of the row's median time: where the machine's speed changes from start to
start, no estimate can be expected to do better.
--json prints one object per start instead. Exit code 9: a start was refused, or fewer than 9 in 10 are within.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "examples"
# Updates that take some seconds on one thread.
JOBS = {"digits": 2000, "char-lm": 40, "co2": 1500, "sunspots": 3000, "restore": 150, "weather": 2500}
TIME, MEMORY, WANTED = 0.25, 0.10, 0.9


class Busy:
    """Busy loops for as long as the block lasts."""
    def __init__(self, n):
        self.n = n

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.n)]

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def start(o, config, threads):
    """One start: errors of time and memory, relative to the estimate; or the message of the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        command = [o.unroll, "train", config, "--out", f"{folder}/run", "--json", "--threads", threads, "--max-updates",
                   o.updates or JOBS.get(pathlib.Path(config).stem, 200)]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        return {"refused": done.stderr.strip().replace("\n  ", " ").splitlines()[-1:]}
    report = json.loads(done.stdout)
    off = lambda name: report[name] / report["estimated_" + name] - 1
    return {"seconds": report["seconds"], "time_off": off("seconds"),
            "memory_off": report["peak_bytes"] / report["estimated_bytes"] - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--starts", type=int, default=3, help="starts per config and number of threads")
    parser.add_argument("--threads", default="1,2,4", help="comma-separated")
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside the runs")
    parser.add_argument("--updates", type=int, help="updates of each run; default: a few seconds of them")
    parser.add_argument("--json", action="store_true", help="one object per start")
    parser.add_argument("configs", nargs="*", help="config files; default: six examples")
    o = parser.parse_args()
    configs = o.configs or [str(EXAMPLES / f"{name}.toml") for name in JOBS]
    good = True
    if not o.json:
        print(f"{o.starts} starts each, {o.busy} busy loops; time within {TIME:.0%}, memory within {MEMORY:.0%}")
        print(f"{'config':12} {'threads':>7} {'refused':>7} {'time':>5} {'alike':>5} {'memory':>6} "
              f"{'time off':>15} {'memory off':>15} {'seconds':>7}")
    for config in configs:
        for threads in map(int, o.threads.split(",")):
            with Busy(o.busy):
                starts = [start(o, config, threads) for _ in range(o.starts)]
            done = [s for s in starts if "refused" not in s]
            if o.json:
                for s in starts:
                    print(json.dumps({"config": config, "threads": threads, "busy": o.busy, **s}), flush=True)
            time, memory = [[s[key] for s in done] for key in ("time_off", "memory_off")]
            within = [sum(abs(x) <= limit for x in values) / o.starts
                      for values, limit in ((time, TIME), (memory, MEMORY))]
            middle = statistics.median(s["seconds"] for s in done) if done else 1
            alike = sum(abs(s["seconds"] / middle - 1) <= TIME for s in done) / o.starts
            good = good and len(done) == o.starts and min(within) >= WANTED
            if o.json:
                continue
            span = [f"{min(v):+.0%} to {max(v):+.0%}" if v else "" for v in (time, memory)]
            seconds = sum(s["seconds"] for s in done) / max(len(done), 1)
            print(f"{pathlib.Path(config).stem:12} {threads:7} {o.starts - len(done):7} {within[0]:5.0%} {alike:5.0%} "
                  f"{within[1]:6.0%} {span[0]:>15} {span[1]:>15} {seconds:7.1f}", flush=True)
            for s in starts:
                for line in s.get("refused", []):
                    print(f"  refused: {line}", flush=True)
    return 0 if good else 9


if __name__ == "__main__":
    sys.exit(main())
