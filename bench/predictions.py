#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the cost model of the cpu backend predicts of many models, beside what they take.

usage: bench/predictions.py --unroll build/frontends/cli/unroll [--threads 1] [--seconds 0.4]
Predictions are made before the first run, from rates that are measured on the machine when the backend opens.
Exit code 9: a model is further than 25 % from its prediction, of which --strict tells.
"""
import argparse
import json
import subprocess
import sys

# cell, mode, batch, input, hidden, steps, further options
MODELS = [
    ("lstm", "infer", 32, 128, 256, 100), ("lstm", "train", 32, 128, 256, 100), ("gru", "train", 32, 128, 256, 100),
    ("rnn", "train", 32, 128, 256, 100), ("lstm", "infer", 1, 128, 256, 100), ("lstm", "train", 1, 128, 256, 100),
    ("lstm", "train", 16, 32, 64, 50), ("gru", "infer", 16, 32, 64, 50), ("lstm", "train", 64, 256, 512, 60),
    ("lstm", "infer", 32, 128, 256, 100, "--layers", "2"), ("gru", "train", 32, 128, 256, 100, "--layers", "2"),
    ("lstm", "train", 32, 128, 256, 100, "--bidirectional"), ("lnlstm", "train", 32, 128, 256, 100),
    ("lnlstm", "infer", 32, 128, 256, 100), ("mgu", "train", 32, 128, 256, 200), ("indrnn", "infer", 32, 128, 256, 200),
    ("lstm", "infer", 8, 64, 128, 200), ("lstm", "train", 20, 100, 200, 70), ("gru", "train", 128, 64, 128, 50),
    ("rnn", "infer", 4, 64, 512, 100), ("peephole_lstm", "train", 32, 64, 128, 100),
    ("lstm", "train", 20, 650, 650, 35),
    ("ligru", "train", 24, 40, 96, 120), ("janet", "infer", 12, 80, 160, 90),
]
ALLOWED = 0.25


def measured(o, model):
    cell, mode, batch, width, hidden, steps, *rest = model
    sizes = ["--batch", batch, "--input", width, "--hidden", hidden, "--steps", steps]
    command = [o.unroll, "bench", "--cell", cell, "--mode", mode, *sizes, *rest, "--threads", o.threads,
               "--seconds", o.seconds, "--explain", "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--strict", action="store_true")
    o = parser.parse_args()
    near = 0
    print(f"{'model':40} {'predicted':>10} {'min ms':>10} {'median':>10} {'ratio':>6}")
    for model in MODELS:
        found = measured(o, model)
        ratio = found["predicted_ms"] / found["min_ms"]
        near += abs(ratio - 1) <= ALLOWED
        print(f"{' '.join(map(str, model)):40} {found['predicted_ms']:10.3f} {found['min_ms']:10.3f} "
              f"{found['median_ms']:10.3f} {ratio:6.2f}", flush=True)
    print(f"{near} of {len(MODELS)} within {ALLOWED:.0%}, {o.threads} threads")
    return 9 if o.strict and near < len(MODELS) else 0


sys.exit(main())
