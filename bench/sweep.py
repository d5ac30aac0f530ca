#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How time follows one size while the others stay: recurrent stacks, or the products that they are made of.

usage: bench/sweep.py layers --vary batch=1,2,4,8,16,32,64,128 [--cells rnn,gru,lstm] [--hidden 256]
       bench/sweep.py gemm --vary hidden=64,128,256,512,1024 [--backends cpu,onednn] [--with openblas]
       bench/sweep.py gemm --vary hidden=256,512,1024,1028,1032,2048,4096 --backends cuda --precisions tf32,f16 --svg F
`layers` varies batch, steps, hidden, layers or input; `gemm` varies hidden, batch or steps. bench/README.md has the
meaning of the columns. T time, B batch, I input, H hidden, G gates.
"""
import argparse
import json
import pathlib
import sys

import sweep_picture
from run import FOLDER, Absent, best_of, timed

START = {"input": 128, "hidden": 256, "layers": 1, "batch": 32, "steps": 100}
GATES = {"rnn": 1, "gru": 3, "lstm": 4}

# NVIDIA, "Optimizing Recurrent Layers" user guide: what a layer of width H over inputs of width H multiplies, as
# M x K x N with how the operands are stored. The recurrent product runs once a step on B rows, the one from layer to
# layer once for all steps on T B rows; a weight gradient is one product over T B either way. Weights are known inside a
# loop.
PRODUCTS = {
    "recurrent, forward": lambda h, g, b, t: (b, h, g * h, ["--transpose-b", "--constant-b"]),
    "recurrent, activation gradient": lambda h, g, b, t: (b, g * h, h, ["--constant-b"]),
    "layer to layer, forward": lambda h, g, b, t: (b * t, h, g * h, ["--transpose-b"]),
    "layer to layer, activation gradient": lambda h, g, b, t: (b * t, g * h, h, []),
    "weight gradient": lambda h, g, b, t: (g * h, b * t, h, ["--transpose-a"]),
}


def interleaved(commands, rounds):
    """The best of each command over rounds in turns; None for those that a backend refuses."""
    results = [[] for _ in commands]
    for _ in range(rounds):
        for command, found in zip(commands, results):
            try:
                found.append(timed(command))
            except Absent as why:
                print(f"skipped: {' '.join(map(str, command))}: {why}", file=sys.stderr)
    return [best_of(found) if found else None for found in results]


def sweep_layers(o, name, values, common):
    """Per value and cell: time, time of a sequence, its speed-up over the first value, time against the plain rnn's."""
    cells = o.cells.split(",")
    points = [(value, cell) for value in values for cell in cells]
    commands = [[*common, "--cell", cell, *[part for n, v in {**START, name: value}.items() for part in (f"--{n}", v)],
                 "--mode", o.mode, "--backend", o.backends.split(",")[0]] for value, cell in points]
    found = dict(zip(points, interleaved(commands, o.rounds)))
    print(f"| cell | {name} | min / median ms | spread | GFLOP/s | ms a sequence | speed-up a sequence "
          "| cost, rnn = 1 |")
    print("|" + "---|" * 8)
    rows = []
    for cell in cells:
        for value in values:
            result = found[value, cell]
            if result is None:
                continue
            each = result["min_ms"] / result["batch"]
            first = found[values[0], cell]
            row = {"cell": cell, name: value, **result, "ms_a_sequence": each,
                   "speed_up_a_sequence": first["min_ms"] / first["batch"] / each if first else None,
                   "cost": result["min_ms"] / found[value, "rnn"]["min_ms"] if found.get((value, "rnn")) else None}
            rows.append(row)
            texts = [f"{row[key]:.2f}" if row[key] else "" for key in ("speed_up_a_sequence", "cost")]
            print(f"| {cell} | {value} | {result['min_ms']:.3f} / {result['median_ms']:.3f} | {result['spread']:.0%} "
                  f"| {result['gflops']:.0f} | {each:.4f} | {texts[0]} | {texts[1]} |", flush=True)
    return rows


def sweep_gemm(o, name, values, common):
    """Per product and value: GFLOP/s of each backend and peer."""
    precisions = o.precisions.split(",")
    sides = {backend + (f" {precision}" if len(precisions) > 1 or precision != "f32" else ""):
             [*common, "--backend", backend, "--precision", precision]
             for backend in o.backends.split(",") for precision in precisions}
    for peer in filter(None, o.peers.split(",")):
        sides[peer] = [o.python, FOLDER / f"peers/{peer}_peer.py", *common[2:]]
    print(f"| product, gates {GATES[o.gates]} | {name} | M x K x N | " +
          " | ".join(f"{side} GFLOP/s" for side in sides) + " |\n|" + "---|" * (3 + len(sides)))
    rows = []
    for product, sizes in PRODUCTS.items():
        for value in values:
            s = {**START, name: value}
            m, k, n, flags = sizes(s["hidden"], GATES[o.gates], s["batch"], s["steps"])
            options = ["--mode", "gemm", "--shape", f"{m}x{k}x{n}", *flags]
            results = interleaved([[*command, *options] for command in sides.values()], o.rounds)
            rows.append({"product": product, name: value, "m": m, "k": k, "n": n,
                         "gflops": {side: r and r["gflops"] for side, r in zip(sides, results)}})
            print(f"| {product} | {value} | {m} x {k} x {n} | " +
                  " | ".join(f"{r['gflops']:.0f}" if r else "" for r in results) + " |", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["layers", "gemm"])
    parser.add_argument("--vary", required=True, help="size=value,value,...")
    parser.add_argument("--cells", default="rnn,gru,lstm,lnlstm")
    parser.add_argument("--gates", default="lstm", choices=GATES, help="whose products `gemm` takes")
    parser.add_argument("--mode", default="train", choices=["infer", "train"])
    parser.add_argument("--backends", default="cpu", help="`layers` takes the first")
    parser.add_argument("--precisions", default="f32", help="`gemm`: of f32,tf32,bf16,f16; tf32 rounds both operands "
                                                            "in the measured time")
    parser.add_argument("--with", dest="peers", default="", help="openblas: `gemm` times it as well")
    parser.add_argument("--python", default="python3", help="an interpreter that has numpy, for the peer")
    parser.add_argument("--unroll", default="build/frontends/cli/unroll")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    for name, value in START.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--json", help="file that gets everything measured")
    parser.add_argument("--svg", help="`gemm`: file that gets a picture of the rates")
    o = parser.parse_args()
    START.update({name: getattr(o, name) for name in START})
    name, _, values = o.vary.partition("=")
    allowed = START if o.what == "layers" else ("hidden", "batch", "steps")
    if name not in allowed:
        parser.error(f"--vary {name}: one of {', '.join(allowed)}")
    common = [o.unroll, "bench", "--threads", o.threads, "--seconds", o.seconds, "--json"]
    sweep = sweep_layers if o.what == "layers" else sweep_gemm
    rows = sweep(o, name, [int(v) for v in values.split(",")], common)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps({"options": vars(o), "rows": rows}, indent=1))
    if o.svg and o.what == "gemm":
        pathlib.Path(o.svg).write_text(sweep_picture.svg(rows, name))
    return 0


sys.exit(main())
