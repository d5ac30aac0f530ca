#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The results of bench/gpu_cuda.sh as one JSON file and one Markdown table, beside PyTorch's where they are there.

Usage: gpu_table.py OUT. Reads OUT/results.jsonl and OUT/gpu_peers.jsonl; writes OUT/results.json and OUT/results.md.
"""
import json
import pathlib
import sys

PEER_CELL = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}
PEER_PRECISION = {"f32": "float32", "tf32": "tf32", "bf16": "bfloat16", "f16": "float16"}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def peer_of(run, peers):
    """The median of PyTorch's layer of the same shape and precision, or None."""
    cell = PEER_CELL.get(run["cell"])
    name = f"{cell} I{run['input']} H{run['hidden']} B{run['batch']} T{run['steps']} L{run['layers']} " \
           f"{PEER_PRECISION[run['precision']]} train"
    return next((peer["median_ms"] for peer in peers if peer["name"] == name and "median_ms" in peer), None)


def main():
    out = pathlib.Path(sys.argv[1])
    results, peers = lines_of(out / "results.jsonl"), lines_of(out / "gpu_peers.jsonl")
    checks = [row for row in results if "check" in row]
    runs = [row for row in results if "cell" in row]
    (out / "results.json").write_text(json.dumps({"checks": checks, "runs": runs, "peers": peers}, indent=1) + "\n")
    text = [runs[0]["device"] if runs else "no measurement", "", "| check | result | seconds |", "|---|---|---|"]
    text += [f"| {row['check']} | {row['result']} | {row['seconds']} |" for row in checks]
    text += ["", "| training | precision | ours, ms | PyTorch, ms | PyTorch / ours |", "|---|---|---|---|---|"]
    for run in runs:
        peer = peer_of(run, peers)
        loops = "".join(f", {form} loops" for form in ("whole", "resident") if f"{form} loops" in run["device"])
        loops += ", own layers" if "own layers" in run["device"] and not loops else ""
        size = f"I=H={run['hidden']} B={run['batch']} T={run['steps']}"
        ratio = f"{peer:.3f} | {peer / run['median_ms']:.2f}" if peer else "- | -"
        text.append(f"| {run['cell']} {size}{loops} | {run['precision']} | {run['median_ms']:.3f} | {ratio} |")
    (out / "results.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
