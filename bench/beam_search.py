#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Beam search with a trained summarizer, ours and PyTorch's in turns, with the same weights on the same texts.

usage: bench/beam_search.py RUN --unroll build/frontends/cli/unroll --python ENV/bin/python [--lines 200] [--rounds 3]
RUN is the folder of a summarize run; the texts are the first ones of its test set. `unroll predict` is timed as a
whole process, less its time for a single line (start, loading, compilation of one size). PyTorch's time is that of its
search alone, in batches of 32 texts sorted by length (bench/peers/torch_quality_summaries.py). Prints sentences per
second, their ratio, and the share of texts that both write alike.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

PEER = pathlib.Path(__file__).resolve().parent / "peers"


def peer(o):
    """Runs in the interpreter with torch: decodes once for each line of stdin."""
    sys.path.insert(0, str(PEER))
    import torch
    import torch_quality_summaries as summaries
    torch.set_num_threads(o.threads)
    run = pathlib.Path(o.run)
    config = tomllib.loads((run / "config.toml").read_text())
    job = summaries.Summarize(config, run / config["data"]["path"])
    job.net.load_unroll(run / f"{o.checkpoint}.safetensors")
    job.net.eval()
    rows = job.parts["test"][:o.lines]
    print(json.dumps([source for source, _ in job.texts["test"][:o.lines]]), flush=True)
    with torch.no_grad():
        for _ in sys.stdin:
            start = time.perf_counter()
            texts = job.decode(rows, o.beam)
            print(json.dumps({"seconds": time.perf_counter() - start, "texts": texts}), flush=True)


def ours(o, path):
    command = [o.unroll, "predict", o.run, "--input", path, "--beam", o.beam, "--threads", o.threads, "--checkpoint",
               o.checkpoint]
    start = time.perf_counter()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--unroll")
    parser.add_argument("--python", help="interpreter with torch")
    parser.add_argument("--checkpoint", default="best", choices=("best", "last"))
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.as_peer:
        return peer(o)
    command = [o.python, __file__, o.run, "--lines", o.lines, "--beam", o.beam, "--threads", o.threads, "--checkpoint",
               o.checkpoint, "--as-peer"]
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    sources = json.loads(process.stdout.readline())
    with tempfile.TemporaryDirectory() as folder:
        many, one = pathlib.Path(folder) / "many.txt", pathlib.Path(folder) / "one.txt"
        many.write_text("\n".join(sources) + "\n", encoding="utf-8")
        one.write_text(sources[0] + "\n", encoding="utf-8")
        rows = []
        for _ in range(o.rounds):
            start, _ = ours(o, one)
            whole, written = ours(o, many)
            process.stdin.write("\n")
            process.stdin.flush()
            theirs = json.loads(process.stdout.readline())
            rows.append((whole, whole - start, theirs["seconds"]))
            print(f"unroll {whole:.2f} s, {whole - start:.2f} s without start; PyTorch {theirs['seconds']:.2f} s",
                  flush=True)
    process.stdin.close()
    process.wait()
    n = len(sources)
    alike = sum(a == b for a, b in zip(written, theirs["texts"]))
    print(f"{n} texts, beam {o.beam}, {o.threads} threads; {alike} written alike")
    print("| | best, texts/s | median, texts/s |\n|---|---|---|")
    for k, name in enumerate(["unroll, whole process", "unroll, without start", "PyTorch, search alone"]):
        times = [row[k] for row in rows]
        print(f"| {name} | {n / min(times):.1f} | {n / statistics.median(times):.1f} |")
    ratios = [row[2] / row[1] for row in rows]
    print(f"ratio without start: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}; "
          f"whole process: median {statistics.median(row[2] / row[0] for row in rows):.2f}")


if __name__ == "__main__":
    main()
