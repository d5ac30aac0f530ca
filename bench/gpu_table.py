#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The results of bench/gpu_cuda.sh as one JSON file and one Markdown table, beside PyTorch's and what is expected.

Usage: gpu_table.py OUT CHOICES [PRODUCTS.json]... Reads OUT/results.jsonl, the algorithms that were chosen in the
folder CHOICES, and what bench/sweep.py measured; writes OUT/results.json and OUT/results.md.
"""
import json
import pathlib
import sys

import gpu_choices
import gpu_floors

CELLS = {"lstm": "LSTM", "gru": "GRU", "lnlstm": "layer-norm LSTM"}
FORMATS = {"bf16": "f16"}
# Options of the backend in words.
FORMS = {"rnn=own": "own kernels", "exchange=global": "states in memory", "wgmma=true": "wgmma"}


def expected_ms(run):
    """Of a persistent kernel on an H100, by bench/gpu_floors.py."""
    if run["cell"] not in CELLS:
        return None
    step = gpu_floors.training_ms(gpu_floors.DEVICES["H100 SXM"], CELLS[run["cell"]], run["hidden"], run["batch"],
                                  FORMATS.get(run["precision"], run["precision"]))
    return step * run["steps"] / gpu_floors.STEPS


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def main():
    out = pathlib.Path(sys.argv[1])
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines() if line.strip()]
    checks = [row for row in rows if "check" in row]
    runs = [row for row in rows if row.get("by") == "unroll"]
    peers = [row for row in rows if row.get("by", "unroll") != "unroll"]
    products = [json.loads(pathlib.Path(path).read_text()) for path in sys.argv[3:]]
    choices = gpu_choices.choices_of(sys.argv[2])
    everything = {"checks": checks, "runs": runs, "peers": peers, "products": products, "choices": choices}
    (out / "results.json").write_text(json.dumps(everything, indent=1) + "\n")
    by = [next((row[key] for row in some if key in row), "") for some, key in ((runs, "device"), (peers, "by"))]
    text = [", ".join(part for part in by if part) or "no measurement", ""]
    text += ["| check | result | seconds |", "|---|---|---|"]
    text += [f"| {row['check']} | {row['result']} | {row['seconds']} |" for row in checks]
    text += ["", "| training | precision | ours, ms | PyTorch, ms | PyTorch / ours | H100 on paper, ms |",
             "|---|---|---|---|---|---|"]
    same = ("cell", "hidden", "batch", "steps", "precision")
    for run in runs:
        peer = next((p.get("median_ms") for p in peers if all(p[key] == run[key] for key in same)), None)
        mine = run.get("median_ms")
        options = [option for option in run["form"].split(":") if option]
        form = "".join(", " + FORMS.get(each, each.removeprefix("loops=") + " loops") for each in options)
        size = f"{run['cell']} I=H={run['hidden']} B={run['batch']} T={run['steps']}{form}"
        ratio = peer / mine if peer and mine else None
        text.append(f"| {size} | {run['precision']} | {number(mine) if mine else run['failed'].splitlines()[-1:]} | "
                    f"{number(peer)} | {number(ratio, 2)} | {number(expected_ms(run), 2)} |")
    text += ["", *gpu_choices.markdown(choices)]
    (out / "results.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
