#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the library's instructions in ten small runs and compares them with counts.json: a gate on speed that a busy
machine cannot move.

usage: check_instructions.py UNROLL BUILDTYPE [--renew]      --renew writes counts.json anew
Valgrind runs `unroll bench` on one thread. It has no AVX-512, so that the kernels' dispatch takes AVX2 on every machine
that has it. Counted is what libunroll executes inside the timed calls: not the C library, whose routines differ between
versions, and not what compiling the plan takes. UNROLL_CASES=n counts every n-th of the runs.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

UNROLL, BUILDTYPE = sys.argv[1:3]
RECORD = pathlib.Path(__file__).with_name("counts.json")
SKIPPED = 77
# The same compiler gives the same counts; 2 % is what the spread of a timing hides (bench/README.md).
TOLERANCE = 0.02

RUN = "unroll::Program::run(unroll::Bindings const&)"
STEP = "unroll::Stream::step(std::span<float const, 18446744073709551615ul>, std::span<float, 18446744073709551615ul>)"
SMALL = "--input 16 --hidden 32 --batch 4 --steps 10"
CASES = {
    "rnn train": (RUN, f"--cell rnn {SMALL} --mode train"),
    "gru infer": (RUN, f"--cell gru {SMALL} --mode infer"),
    "gru train": (RUN, f"--cell gru {SMALL} --mode train"),
    "lstm infer": (RUN, f"--cell lstm {SMALL} --mode infer"),
    "lstm train": (RUN, f"--cell lstm {SMALL} --mode train"),
    "lstm train, odd sizes": (RUN, "--cell lstm --input 7 --hidden 37 --batch 3 --steps 7 --mode train"),
    "lstm train, two layers, both directions": (RUN, f"--cell lstm {SMALL} --layers 2 --bidirectional --mode train"),
    "lstm train, lengths": (RUN, f"--cell lstm {SMALL} --lengths 1:10:4 --mode train"),
    "lnlstm train": (RUN, f"--cell lnlstm {SMALL} --mode train"),
    "lstm stream": (STEP, "--cell lstm --input 16 --hidden 32 --mode stream"),
}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def own_instructions(path):
    """The self cost of functions of libunroll in a callgrind file: cost lines but those that follow `calls=`."""
    total, own, names, called = 0, False, {}, False
    for line in path.read_text().splitlines():
        if line.startswith("ob="):
            number, _, name = line[3:].partition(" ")
            names.setdefault(number, name)
            own = pathlib.Path(names[number]).name.startswith("libunroll")
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            names.setdefault(number, name)
        elif line.startswith("calls="):
            called = True
        elif re.match(r"[\d+*-]", line):
            total += int(line.split()[1]) if own and not called else 0
            called = False
    return total


def count(function, options, folder):
    """Instructions of the library in all calls of `function` that a bench of three repeats makes."""
    out = pathlib.Path(folder) / "callgrind.out"
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                           f"--toggle-collect={function}", UNROLL, "bench", *options.split(), "--threads", "1",
                           "--seconds", "0", "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{options}: {done.stderr}")
    target = json.loads(done.stdout)["device"].split()[-1]
    if target != "AVX2":
        skip(f"the kernels run as {target} here and the counts are of AVX2")
    return own_instructions(out)


def main():
    if not shutil.which("valgrind"):
        skip("valgrind is missing (Debian: valgrind)")
    compiler = json.loads(subprocess.run([UNROLL, "doctor", "--no-self-test", "--json"], check=True,
                                         capture_output=True, text=True).stdout)["compiler"]
    made_by = {"compiler": compiler, "buildtype": BUILDTYPE}
    record = json.loads(RECORD.read_text())
    renew = "--renew" in sys.argv
    if not renew and record["made_by"] != made_by:
        skip(f"this build is of {made_by}, the counts are of {record['made_by']}")
    counts, wrong = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (function, options) in list(CASES.items())[::int(os.environ.get("UNROLL_CASES", "1"))]:
            counts[name] = count(function, options, folder)
            if renew:
                print(f"{name}: {counts[name]}")
                continue
            change = counts[name] / record["counts"][name] - 1
            verdict = "MORE" if change > TOLERANCE else "fewer: renew the record" if change < -TOLERANCE else "ok"
            wrong += change > TOLERANCE
            print(f"{name}: {counts[name]}, recorded {record['counts'][name]} ({change:+.2%}) {verdict}", flush=True)
    if renew:
        RECORD.write_text(json.dumps({"made_by": made_by, "counts": counts}, indent=1) + "\n")
    elif wrong:
        print(f"{wrong} cases need more instructions. Where that is meant: {sys.argv[0]} UNROLL {BUILDTYPE} --renew")
    return 1 if wrong else 0


sys.exit(main())
