#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours and others in turns on the same workloads, with the same weights: times, ratios, and whether the results agree.

usage: bench/run.py --unroll build/frontends/cli/unroll --with torch,onnxruntime,jax,onednn,onednn-api
                    --python ENV/bin/python
A ratio is a peer's time by ours: above 1 we are faster. bench/README.md has the protocol.
Exit code 9: results differ, or with --strict a goal is missed.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from workloads import WORKLOADS

FOLDER = pathlib.Path(__file__).resolve().parent
PACKAGES = {"torch": ["torch", "numpy"], "onnxruntime": ["onnxruntime", "onnx", "numpy"], "jax": ["jax", "numpy"]}
MODES = {"onnxruntime": ("infer", "stream"), "onednn": ("infer", "train"), "jax": ("infer", "train"),
         "onednn-api": ("infer",)}


class Absent(Exception):
    """A peer that cannot do this workload, and why."""


def timed(command):
    """The JSON object that a command prints, times in milliseconds."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        wrapped = (done.stderr or done.stdout).strip()
        raise Absent(wrapped.replace("\n  ", " ").splitlines()[-1])
    found = json.loads(done.stdout)
    for name in ("min", "median", "p99"):
        if name + "_us" in found:
            found[name + "_ms"] = found.pop(name + "_us") / 1e3
    return found


def peer_threads(o):
    return o.threads or len(os.sched_getaffinity(0))


def api_peer(o):
    """The program that meson builds beside the command."""
    return pathlib.Path(o.unroll).resolve().parents[2] / "bench/onednn_peer"


def available(o):
    """The peers asked for that are here; says which are not."""
    here = []
    for peer in filter(None, o.peers.split(",")):
        if peer == "onednn":
            here_is = timed([o.unroll, "doctor", "--no-self-test", "--json"])["backends"]
            status = {b["name"]: b for b in here_is}["onednn"]
            missing = [] if status["available"] else [status["detail"]]
        elif peer == "onednn-api":
            missing = [] if api_peer(o).exists() else [f"{api_peer(o)}: ninja -C build bench/onednn_peer"]
        elif peer in PACKAGES:
            missing = [p for p in PACKAGES[peer] if subprocess.run([o.python, "-c", f"import {p}"],
                                                                   capture_output=True).returncode]
        else:
            raise SystemExit(f"run.py: no peer '{peer}': there are {', '.join(['onednn', 'onednn-api', *PACKAGES])}")
        if missing:
            print(f"skipped: {peer} (missing: {', '.join(missing)})", file=sys.stderr)
        else:
            here.append(peer)
    return here


def best_of(results):
    """The best minimum and the middle median of all rounds."""
    best = min(results, key=lambda r: r["min_ms"])
    return {**best, "median_ms": sorted(r["median_ms"] for r in results)[len(results) // 2]}


def sides_of(workload, mode, here, o, case):
    """Name: command, of every side that takes part."""
    common = ["--mode", mode, "--seconds", o.seconds]
    ours = [o.unroll, "bench", *workload.shape.split(), *shlex.split(workload.ours), *common, "--json"]
    threads = ["--threads", peer_threads(o)]
    saves = [] if mode == "stream" else ["--save", case]
    sides = {"unroll": [*ours, "--threads", o.threads, "--backend", o.backend, *saves]}
    for peer, options in workload.peers or [(peer, "") for peer in here]:
        if peer not in here or mode not in MODES.get(peer, (mode,)):
            continue
        check = [] if mode == "stream" else ["--check", case]
        if peer in ("onednn", "onednn-api"):  # the best of one thread and all
            for count in sorted({1, peer_threads(o)}):
                sides[f"{peer}, threads {count}"] = \
                    [*ours, "--threads", count, "--backend", "onednn"] if peer == "onednn" else \
                    [api_peer(o), *workload.shape.split(), *common, "--threads", count, *check]
            continue
        words = options.partition(" --front ")[0]  # the workload's name says what is in front
        name = " ".join(filter(None, [peer, words.replace("--cell ", "").replace("--", "")]))
        sides[name] = [o.python, FOLDER / f"peers/{peer}_peer.py", *workload.shape.split(), *shlex.split(options),
                       *common, *threads, *check]
    return sides


def measure(workload, mode, here, o):
    """All sides in turns, so that a slow spell of the machine hits all of them."""
    with tempfile.TemporaryDirectory() as folder:
        sides = sides_of(workload, mode, here, o, pathlib.Path(folder) / "case.safetensors")
        results, absent = {name: [] for name in sides}, {}
        for i in range(o.rounds):
            for name, command in sides.items():
                if name in absent or (i > 0 and "--compile" in command):  # compiling takes minutes
                    continue
                try:
                    results[name].append(timed(command))
                except Absent as why:
                    if name == "unroll":
                        raise SystemExit(f"run.py: {' '.join(map(str, command))}: {why}")
                    absent[name] = str(why)
        found = {name: best_of(r) for name, r in results.items() if r}
    ours = found.pop("unroll")
    row = {"workload": workload.name, "mode": mode, "unroll": ours, "peers": found, "absent": absent,
           "goal": workload.goals.get(mode)}
    torch = {name: f for name, f in found.items() if name.startswith("torch")}
    for against, peers in (("best", found), ("torch", torch)):
        row["ratios_to_" + against] = {which: min(f[which + "_ms"] for f in peers.values()) / ours[which + "_ms"]
                                       for which in ("min", "median") if peers}
    # Goals are set against the best peer for inference, against PyTorch for training.
    row["ratio"] = row["ratios_to_torch" if mode == "train" else "ratios_to_best"].get("min")
    row["relative_l2"] = max((f["relative_l2"] for f in found.values() if "relative_l2" in f), default=None)
    return row


def gemm_rates(here, o):
    """GFLOP/s of a product of 1024 x 1024 matrices, by side: the machine's rate, as far as anyone here shows it."""
    common = ["--mode", "gemm", "--shape", "1024x1024x1024", "--seconds", o.seconds]
    sides = {"unroll": [o.unroll, "bench", *common, "--threads", o.threads, "--backend", o.backend, "--json"]}
    if "torch" in here:
        sides["torch"] = [o.python, FOLDER / "peers/torch_peer.py", *common, "--threads", peer_threads(o)]
    rates = dict.fromkeys(sides, 0)
    for _ in range(o.rounds):
        for name, command in sides.items():
            rates[name] = max(rates[name], timed(command)["gflops"])
    return rates


def missed(row):
    return row["goal"] and row["ratio"] and row["ratio"] < row["goal"]


def times_text(result):
    digits = 4 if result["min_ms"] < 0.1 else 3 if result["min_ms"] < 10 else 1
    return f"{result['min_ms']:.{digits}f} / {result['median_ms']:.{digits}f}"


def fastest_text(peers, kind):
    """The fastest peer whose name begins with `kind`."""
    some = {name: r for name, r in peers.items() if name.startswith(kind)}
    if not some:
        return ""
    name = min(some, key=lambda n: some[n]["min_ms"])
    seconds = some[name].get("compile_ms", 0) / 1e3
    return f"{name} {times_text(some[name])}" + (f", compiled in {seconds:.0f} s" if seconds > 10 else "")


def markdown(row, rate):
    """One line of the table; the JSON file has all peers."""
    ours = row["unroll"]
    flops = ours.get("gflops")
    speed = f"{flops:.0f} ({flops / rate:.0%})" if flops else ""
    fastest = [fastest_text(row["peers"], which) for which in ("", "torch")]
    ratios = [" / ".join(f"{r:.2f}" for r in row["ratios_to_" + a].values()) for a in ("best", "torch")]
    verdict = "" if not row["ratio"] else "no" if missed(row) else "yes"
    if verdict == "no" and flops:  # what a run would reach that does nothing but its products, at the machine's rate
        verdict += f", {row['ratio'] * rate / flops:.2f} at 100 %"
    goal = "" if row["goal"] is None else f"{row['goal']} {verdict}"
    difference = row.get("relative_l2") or ours.get("relative_l2_difference")
    spread = f"{ours['spread']:.0%}" if "spread" in ours else ""
    return (f"| {row['workload']} | {row['mode']} | {times_text(ours)} | {spread} | {speed} "
            f"| {fastest[0]} | {fastest[1]} | {ratios[0]} | {ratios[1]} | {goal} "
            f"| {'' if difference is None else f'{difference:.0e}'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", default="build/frontends/cli/unroll")
    parser.add_argument("--with", dest="peers", default="torch",
                        help="torch,onnxruntime,jax,onednn,onednn-api; those absent are skipped")
    parser.add_argument("--python", default="python3", help="an interpreter that has the peers' packages")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--threads", type=int, default=0,
                        help="0: ours chooses, peers get all that the process may use")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="", help="workloads with this in their name")
    parser.add_argument("--without", default="", help="leave out workloads with this in their name")
    parser.add_argument("--mode", choices=["infer", "train", "stream"])
    parser.add_argument("--json", help="file that gets everything measured")
    parser.add_argument("--strict", action="store_true", help="a missed goal is exit code 9")
    o = parser.parse_args()
    here = available(o)
    rates = gemm_rates(here, o)
    print("SGEMM 1024³, GFLOP/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()) + "\n")
    print("| workload | mode | unroll min / median ms | spread | GFLOP/s (of SGEMM) | fastest peer min / median ms "
          "| torch | fastest / unroll, min / median | torch / unroll | goal | relative L2 |\n|" + "---|" * 11,
          flush=True)
    rows, wrong = [], []
    for workload in WORKLOADS:
        if o.only not in workload.name or (o.without and o.without in workload.name):
            continue
        for mode in workload.modes:
            if o.mode not in (None, mode):
                continue
            row = measure(workload, mode, here, o)
            rows.append(row)
            print(markdown(row, max(rates.values())), flush=True)
            if (row.get("relative_l2") or 0) > workload.difference:
                wrong.append(f"{workload.name} {mode}: results differ by {row['relative_l2']:.1e}")
            if o.strict and missed(row):
                wrong.append(f"{workload.name} {mode}: ratio {row['ratio']:.2f} is below {row['goal']}")
    again = gemm_rates(here, o)
    print("\nSGEMM 1024³ at the end: " + ", ".join(f"{name} {rate:.0f}" for name, rate in again.items()))
    rates = {name: max(rate, again[name]) for name, rate in rates.items()}
    for row in rows:
        for peer, why in row["absent"].items():
            print(f"skipped: {row['workload']} {row['mode']}: {peer}: {why}", file=sys.stderr)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps({"options": vars(o), "sgemm_gflops": rates, "rows": rows}, indent=1))
    for line in wrong:
        print(line, file=sys.stderr)
    return 9 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
