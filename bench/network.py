#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training over a network of a limited rate: how much of the communication is hidden behind the backward pass.

usage: bench/network.py UNROLL... [--rate 1gbit] [--rounds 5] [--updates 20] [--hidden 256] [--layers 2]
As root. Two network namespaces stand for two hosts (tests/training/check_network.py); `tc` limits what each sends.
Several commands are measured in turn, such as one from before a change. Printed are minimum and median over rounds.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/training"))
import check_mpi as mpi  # noqa: E402
import check_network as network  # noqa: E402

CONFIG = """
[task]
kind = "language-model"
[data]
path = "{text}"
steps = 32
shards = 2
[model]
cell = "lstm"
hidden = {hidden}
embedding = 128
layers = {layers}
[train]
batch = 16
accumulate = 2
[run]
threads = 1
"""
SHOWN = ("update_ms", "min_ms", "communication_ms", "waiting_ms", "hidden_ms", "communication_bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unroll", nargs="+", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    a = parser.parse_args()
    rows = {command: [] for command in a.unroll}
    with tempfile.TemporaryDirectory() as folder:
        a.work = pathlib.Path(folder)
        (a.work / "text.txt").write_text("".join(f"line {i} of a text, {i * i % 97}\n" for i in range(20000)))
        config = a.work / "config.toml"
        config.write_text(CONFIG.format(text=a.work / "text.txt", hidden=a.hidden, layers=a.layers))
        try:
            network.set_up(2)
            for host in (1, 2):
                subprocess.run(["tc", "-n", f"unroll{100 + host}", "qdisc", "add", "dev", network.LINK, "root", "tbf",
                                "rate", a.rate, "burst", "256kb", "latency", "100ms"], check=True)
            network.launcher_on(a, 2)
            for _ in range(a.rounds):
                for command in rows:
                    a.unroll = command
                    job = mpi.Job(a, "network", 2, "profile", config, "--updates", a.updates, "--json")
                    if job.end(300) != [0, 0]:
                        sys.exit(job.text)
                    rows[command].append(json.loads("{" + job.said(0).partition("{")[2]))
        finally:
            network.take_down(2)
    for command, found in rows.items():
        print(command)
        for name in SHOWN:
            values = [row[name] for row in found if name in row]
            if values:
                print(f"  {name:20} min {min(values):12.2f}  median {statistics.median(values):12.2f}")


if __name__ == "__main__":
    main()
