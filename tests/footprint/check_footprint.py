#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams a trained LSTM with a C program of the files that inference needs, and measures a build of them alone.

usage: check_footprint.py UNROLL STREAM_PROGRAM CONFIG

With UNROLL_FOOTPRINT=1 it builds the library with inference_only (some minutes), prints the sizes of a stripped C
program and of a generated C++ file, and fails above the limits. The test passes without it, and says what it left out.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_PROGRAM, MOST_GENERATED = 1_500_000, 30_000  # bytes: one LSTM model on cpu, and the code of one C++ file
GOAL = 600_000  # of the program; docs/embedding.md lists what takes the bytes
NUMBERS = "\n".join(str(315 + t * 0.1) for t in range(40))
# Two builds of the same arithmetic, without and with fused multiply-adds, printed with six digits.
TOLERANCE = 2e-5
PROGRAM = """
#include "model.h"
static Model model;
int main() {
  float x[Model::inputs] = {}, y[Model::outputs];
  model.step(x, y);
  return y[0] > 1e30f;
}
"""


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check(ok, what):
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    if not ok:
        sys.exit(1)


def stripped_size(program):
    small = program.with_suffix(".stripped")
    run("strip", "-o", small, program)
    return small.stat().st_size


def check_stream(program, expected, model, what):
    got = [float(y) for y in run(program, model, input=NUMBERS).split()]
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, expected, strict=True))
    check(len(got) == 40 and worst <= TOLERANCE, f"{what} gives the forecasts of `unroll stream` within {worst:.1g}")


def check_small_build(work, expected, model):
    build, prefix = work / "build", work / "prefix"
    flags = os.environ.get("UNROLL_FOOTPRINT_FLAGS", "")
    run("meson", "setup", build, ROOT, "-Dinference_only=true", "-Ddefault_library=static", "-Dbuildtype=minsize",
        f"-Dcpp_args={flags}", f"--prefix={prefix}", "--libdir=lib")
    run("ninja", "-C", build)
    run("meson", "install", "-C", build, "--no-rebuild")
    environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "unroll-c", env=environment).split()
    program = work / "stream"
    run("cc", "-std=c11", "-Os", ROOT / "docs/examples/stream.c", "-o", program, "-Wl,--gc-sections", *flags)
    check_stream(program, expected, model, "inference_only")
    size = stripped_size(program)
    check(size <= MOST_PROGRAM, f"a C program with inference_only takes {size / 1e3:.0f} kB, stripped")
    print(f"     the goal is {GOAL / 1e3:.0f} kB: {'reached' if size <= GOAL else 'not reached'}", flush=True)


def check_generated(unroll, run_folder, work):
    run(unroll, "export", run_folder, "--format", "cpp", "--name", "Model", "--out", work / "model.h")
    (work / "main.cc").write_text(PROGRAM)
    compiler = os.environ.get("CXX", "c++").split()
    run(*compiler, "-std=c++17", "-O2", "-c", work / "main.cc", "-o", work / "main.o")
    text = sum(int(row.split()[1]) for row in run("size", "-A", work / "main.o").splitlines()
               if row.startswith(".text"))
    check(text <= MOST_GENERATED, f"the code of the generated C++ file takes {text / 1e3:.1f} kB besides its weights")


def main():
    unroll, program, config = (pathlib.Path(a) for a in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        run(unroll, "train", config, "--out", work / "run", "--set", "train.max_updates=2", "--threads", "1")
        model = work / "run/best.safetensors"
        expected = [float(line.split()[0]) for line in run(unroll, "stream", work / "run", input=NUMBERS).splitlines()]
        check_stream(program, expected, model, "a program of the files of inference")
        print(f"     it takes {stripped_size(program) / 1e3:.0f} kB, stripped, in this build", flush=True)
        check_generated(unroll, work / "run", work)
        if os.environ.get("UNROLL_FOOTPRINT"):
            check_small_build(work, expected, model)
        else:
            print("skip the build with inference_only: set UNROLL_FOOTPRINT=1")


main()
