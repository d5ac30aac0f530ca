#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training updates of the full pointer-generator summarizer, ours and PyTorch's in turns, and where our time goes.

usage: bench/summarizer.py --unroll build/frontends/cli/unroll --python ENV/bin/python [--batches 1,4] [--rounds 3]
The model has 23 million parameters: embedding 128, hidden 256, two bidirectional LSTM layers over 768 source words in
6 chunks, 192 target words, 50,000 words, Adam, clipping at 2, f32. Each round runs `unroll profile`, then updates of
both PyTorch forms (bench/peers/torch_summarizer.py). Times are the least and the median of all updates; ratios are
PyTorch's time by ours. --precision bf16 adds ours in bf16. --breakdown prints the calls that take 2 % of an update.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE, TARGET, WORDS = 768, 192, 50000
CONFIG = """[task]
kind = "summarize"
[data]
path = "pairs.tsv"
vocabulary = {words}
min_count = 1
source_tokens = {source}
target_tokens = {steps}
[model]
cell = "lstm"
embedding = 128
hidden = 256
layers = 2
chunk = {chunk}
[train]
batch = {batch}
optimizer = "adam"
lr = 0.001
clip_norm = 2.0
max_updates = 10000
"""


def write_pairs(path, rows=240):
    """Sources together have every word; half of a summary is copied. With its end a summary has TARGET steps."""
    draw = random.Random(0)
    words = [f"w{i}" for i in range(WORDS + 400)]
    stream = []
    while len(stream) < rows * SOURCE:
        stream += draw.sample(words, len(words))
    with open(path, "w", encoding="utf-8") as file:
        for row in range(rows):
            source = stream[row * SOURCE:(row + 1) * SOURCE]
            copied = (TARGET - 1) // 2
            summary = draw.choices(source, k=copied) + draw.choices(words, k=TARGET - 1 - copied)
            draw.shuffle(summary)
            file.write(" ".join(source) + "\t" + " ".join(summary) + "\n")


def ours(o, config, precision):
    command = [o.unroll, "profile", config, "--updates", o.updates, "--threads", o.threads, "--precision", precision,
               "--json", "--quiet"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"summarizer.py: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def memory(o, config, folder):
    """Peak memory of a run of three updates, and its estimate."""
    command = [o.unroll, "train", config, "--out", f"{folder}/run", "--max-updates", 3, "--threads", o.threads,
               "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    return found.get("peak_bytes"), found.get("estimated_bytes")


class Peer:
    """A PyTorch process that waits between its rounds."""
    def __init__(self, o, form, batch):
        command = [o.python, FOLDER / "peers/torch_summarizer.py", "--form", form, "--batch", batch, "--threads",
                   o.threads, "--source", SOURCE, "--target", TARGET, "--words", WORDS, "--chunk", o.chunk]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, updates):
        self.process.stdin.write(f"{updates}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(o, batch):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.toml"
        write_pairs(config.with_name("pairs.tsv"))
        config.write_text(CONFIG.format(words=WORDS, source=SOURCE, steps=TARGET - 1, batch=batch, chunk=o.chunk),
                          encoding="utf-8")
        precisions = ["f32"] + [p for p in o.precision.split(",") if p]
        own = {p: [] for p in precisions}
        peers = {form: Peer(o, form, batch) for form in ("expert", "plain")} if o.python else {}
        times, peaks = {form: [] for form in peers}, {}
        for _ in range(o.rounds):
            for precision in precisions:
                own[precision].append(ours(o, config, precision))
            for form, peer in peers.items():
                found = peer.run(o.updates if form == "expert" else max(1, o.updates // 4))
                times[form] += found["times_ms"]
                peaks[form] = found["peak_bytes"]
        for peer in peers.values():
            peer.end()
        return own, times, peaks, memory(o, config, folder)


def gib(count):
    return f"{count / 2**30:.2f} GiB" if count else "-"


def show(o, batch):
    own, times, peaks, (peak, estimate) = measure(o, batch)
    least = min(run["min_ms"] for run in own["f32"])
    median = statistics.median(run["median_ms"] for run in own["f32"])
    print(f"\nB {batch}: peak memory {gib(peak)}, estimated {gib(estimate)}\n")
    print("| | min ms | median ms | ratio of minima | ratio of medians | peak memory |\n" + "|---" * 6 + "|")
    for precision, runs in own.items():
        print(f"| unroll {precision} | {min(r['min_ms'] for r in runs):.0f} | "
              f"{statistics.median(r['median_ms'] for r in runs):.0f} | | | "
              f"{gib(peak) if precision == 'f32' else ''} |")
    for form, values in times.items():
        print(f"| PyTorch, {form} | {min(values):.0f} | {statistics.median(values):.0f} | {min(values) / least:.2f} | "
              f"{statistics.median(values) / median:.2f} | {gib(peaks[form])} |")
    if o.breakdown:
        breakdown(min(own["f32"], key=lambda run: run["min_ms"]))


def breakdown(run):
    print(f"\nroofline {run['gflops_of_roofline']:.0f} GFLOP/s, {run['gbps_of_roofline']:.0f} GB/s\n")
    print("| phase | layer | call | ms | GFLOP | MB | of roofline |\n" + "|---" * 7 + "|")
    for call in run["calls"]:
        if call["depth"] == 0 and call["milliseconds"] >= 0.02 * run["update_ms"]:
            kernel = call["kernel"].split(";")[0]
            print(f"| {call['phase']} | {call['layer']} | {call['step']}: {kernel} | "
                  f"{call['milliseconds']:.1f} | {call['flop'] / 1e9:.2f} | {call['bytes'] / 1e6:.0f} | "
                  f"{call['of_roofline']:.0%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--python", help="interpreter with torch; without it only ours is measured")
    parser.add_argument("--batches", default="1,4", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=8, help="of each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=128, help="source words that the encoder reads from a zero state")
    parser.add_argument("--precision", default="", help="further precisions of ours, comma-separated")
    parser.add_argument("--breakdown", action="store_true")
    o = parser.parse_args()
    o.unroll = pathlib.Path(o.unroll).resolve()
    print(f"{o.threads} threads, {o.rounds} rounds of {o.updates} updates")
    for batch in map(int, o.batches.split(",")):
        show(o, batch)


if __name__ == "__main__":
    main()
