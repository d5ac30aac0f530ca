#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streaming steps, ours and ONNX Runtime's in turns; prints one line per workload, thread count and weight format.

usage: bench/stream.py --unroll build/frontends/cli/unroll --python ENV/bin/python [--rounds 3] [--seconds 1]
The ratio is their time by ours: above 1 we are faster.
"""
import argparse
import json
import pathlib
import subprocess
import sys

WORKLOADS = {
    "lstm I40 H64": "--cell lstm --input 40 --hidden 64",
    "lstm L2 I128 H256": "--cell lstm --input 128 --hidden 256 --layers 2",
    "lstm L2 I256 H512": "--cell lstm --input 256 --hidden 512 --layers 2",
    "gru I40 H64": "--cell gru --input 40 --hidden 64",
}
FORMATS = ["f32", "bf16", "int8"]


def timed(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def best_of(results):
    """The best minimum, the middle median."""
    return min(r["min_us"] for r in results), sorted(r["median_us"] for r in results)[len(results) // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unroll", default="build/frontends/cli/unroll")
    parser.add_argument("--python", default="python3", help="an interpreter that has onnx and onnxruntime")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    peer = pathlib.Path(__file__).parent / "peers/onnxruntime_peer.py"
    print("| workload | threads | weights | unroll min / median / p99 µs | ONNX Runtime min / median µs | ratio of min "
          "| of median | relative L2 to f32 |")
    print("|---|---|---|---|---|---|---|---|")
    for name, text in WORKLOADS.items():
        if o.only not in name:
            continue
        for threads in o.threads:
            options = [*text.split(), "--threads", str(threads), "--seconds", str(o.seconds)]
            ours, theirs = {f: [] for f in FORMATS}, []
            for _ in range(o.rounds):  # in turns, so that a slow spell of the machine hits all
                theirs.append(timed([o.python, peer, *options]))
                for f in FORMATS:
                    ours[f].append(timed([o.unroll, "bench", "--mode", "stream", *options, "--weights-dtype", f,
                                          "--json"]))
            peer_min, peer_median = best_of(theirs)
            for f in FORMATS:
                least, median = best_of(ours[f])
                p99 = sorted(r["p99_us"] for r in ours[f])[len(ours[f]) // 2]
                loss = ours[f][0].get("relative_l2_difference", 0)
                print(f"| {name} | {threads} | {f} | {least:.2f} / {median:.2f} / {p99:.2f} "
                      f"| {peer_min:.1f} / {peer_median:.1f} | {peer_min / least:.2f} | {peer_median / median:.2f} "
                      f"| {loss:.1e} |", flush=True)
    return 0


sys.exit(main())
