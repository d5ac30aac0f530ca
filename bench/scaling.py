#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weak scaling of training over ranks that are pinned to one core each, beside what a model of the time predicts.

usage: bench/scaling.py --unroll build/frontends/cli/unroll [--ranks 2] [--rounds 5] [--updates 40]
       bench/scaling.py --table
First: ninja -C build bench/exchange. Every rank has an LSTM I128 H256 B16 T100, one batch of each update, on one
thread. A round starts, one after the other: one process (on core 0); several ranks; and as many processes that do not
communicate, side by side, which shows how fast the cores can be together. Printed are the fastest update of all rounds,
which other programs have disturbed least, and the median over rounds of the mean update. Speedup is the number of ranks
times the time of one process divided by the time of the ranks.
The model: an update of the ranks takes the time of one process, and the messages of core/parallel/sum_plan.h: twice
f - 1 for each prime factor f of the number of ranks, with twice (ranks - 1) / ranks of the gradient. Latency and
bandwidth are those that bench/exchange measures in the same rounds. --table computes this for networks.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

CONFIG = """
[model]
cell = "lstm"
input = 128
hidden = 256
[data]
steps = 100
[train]
batch = 16
accumulate = {ranks}
[run]
threads = 1
"""
ALONE = 40  # ms
PARAMETERS = 4 * 256 * (128 + 256 + 2)
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def exchange_ms(ranks, bytes_, latency_ms, gbps):
    """Of an update: the messages of one rank, one after the other."""
    messages, left = 0, ranks
    for factor in range(2, ranks + 1):
        while left % factor == 0:
            messages += 2 * (factor - 1)
            left //= factor
    return messages * latency_ms + 2 * (ranks - 1) / ranks * bytes_ / gbps / 1e6


def json_of(lines):
    """The objects that programs print when they run at the same time."""
    running = [subprocess.Popen([str(part) for part in line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=ENVIRONMENT) for line in lines]
    said = [process.communicate() for process in running]
    for process, (_, error) in zip(running, said):
        if process.returncode != 0:
            sys.exit(error)
    return [json.loads(out) for out, _ in said]


def mpirun(ranks, *line):
    return ["mpirun", "-n", ranks, "--bind-to", "core", *line]


def times(profiled):
    """The fastest update, and the mean."""
    return [profiled["min_ms"], profiled["update_ms"]]


def measure_round(o, work):
    profile = [o.unroll, "profile", "--json", "--updates", o.updates]
    alone, shared = work / "1.toml", work / "ranks.toml"
    one = json_of([["taskset", "-c", 0, *profile, alone]])[0]
    ranks = json_of([mpirun(o.ranks, *profile, shared)])[0]
    beside = json_of([["taskset", "-c", core, *profile, alone] for core in range(o.ranks)])
    exchange = json_of([mpirun(o.ranks, pathlib.Path(o.unroll).resolve().parents[2] / "bench/exchange")])[0]
    return {"one": times(one), "ranks": times(ranks), "communication": ranks["communication_ms"],
            "waiting": ranks["waiting_ms"],
            "beside": [max(pair) for pair in zip(*map(times, beside))], "sent": ranks["communication_bytes"],
            "small": [us / 1e3 for us in exchange["small_us"]], "large": [us / 1e3 for us in exchange["large_us"]],
            "bytes": exchange["bytes"]}


def report(o, rounds):
    for index, (name, pick) in enumerate((("fastest update", min), ("median of mean updates", statistics.median))):
        one, ranks, beside = (pick([row[key][index] for row in rounds]) for key in ("one", "ranks", "beside"))
        communication, waiting = (pick([row[key] for row in rounds]) for key in ("communication", "waiting"))
        latency = pick([row["small"][index] for row in rounds]) / (o.ranks - 1)
        large = pick([row["large"][index] for row in rounds]) / (o.ranks - 1)
        gbps = rounds[0]["bytes"] / (large - latency) / 1e6
        exchange = exchange_ms(o.ranks, 4 * PARAMETERS, latency, gbps)
        off = [100 * ((base + exchange) / ranks - 1) for base in (one, beside)]
        print(f"{name} of {len(rounds)} rounds: one process {one:.2f} ms, {o.ranks} ranks {ranks:.2f} ms, "
              f"{o.ranks} processes side by side {beside:.2f} ms\n"
              f"  speedup {o.ranks * one / ranks:.3f}; of processes side by side {o.ranks * one / beside:.3f}\n"
              f"  communication with waiting, {'least' if pick is min else 'median'} of means: {communication:.2f} ms, "
              f"of these waiting {waiting:.2f} ms\n"
              f"  latency {1e3 * latency:.1f} us, bandwidth {gbps:.2f} GB/s: predicted {one + exchange:.2f} ms, "
              f"{off[0]:+.1f} % from measured; from side by side {beside + exchange:.2f} ms, {off[1]:+.1f} %")


def table():
    """Exchanges of this LSTM, and the speedup per process if an update of one process takes ALONE ms."""
    print("| processes | 10 Gb/s (b = 1.2 GB/s, a = 30 µs) | 100 Gb/s (b = 12 GB/s, a = 5 µs) |\n|---|---|---|")
    for ranks in (8, 16, 32, 64, 128, 256, 512, 1024):
        cells = []
        for latency_ms, gbps in ((0.030, 1.2), (0.005, 12)):
            ms = exchange_ms(ranks, 4 * PARAMETERS, latency_ms, gbps)
            cells.append(f"{ms:.{1 if ms < 10 else 0}f} ms, {100 * ALONE / (ALONE + ms):.0f} %")
        print(f"| {ranks:,} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--table", action="store_true")
    o = parser.parse_args()
    if o.table:
        return table()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "1.toml").write_text(CONFIG.format(ranks=1))
        (work / "ranks.toml").write_text(CONFIG.format(ranks=o.ranks))
        rounds = []
        for _ in range(o.rounds):
            rounds.append(measure_round(o, work))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    report(o, rounds)


if __name__ == "__main__":
    main()
