#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a step of `unroll export --format cpp` beside a step of `unroll bench --mode stream`.

usage: cxx_step.py UNROLL [--cell lstm] [--input 40] [--hidden 64] [--rounds 9]

Each round runs the stream and the header compiled by g++ and clang++ with -O3 -march=native, one behind the other.
Prints the minimum and median of the rounds' median steps in microseconds, and their ratio to the stream.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

PROGRAM = r"""
#include "model.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>
int main() {
  static Model model;
  static float x[Model::inputs], y[Model::outputs];
  std::vector<double> times;
  for (int block = 0; block < 2000; ++block) {
    const auto begin = std::chrono::steady_clock::now();
    for (int t = 0; t < 10; ++t) {
      x[0] = y[0];
      model.step(x, y);
    }
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / 10);
  }
  std::nth_element(times.begin(), times.begin() + 1000, times.end());
  std::printf("%.4f\n", times[1000]);
}
"""


def run(*command):
    return subprocess.run([str(c) for c in command], text=True, capture_output=True, check=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("unroll")
    parser.add_argument("--cell", default="lstm")
    parser.add_argument("--input", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        (work / "c.toml").write_text(f'[model]\ncell = "{o.cell}"\ninput = {o.input}\nhidden = {o.hidden}\n')
        run(o.unroll, "export", work / "c.toml", "--format", "cpp", "--name", "Model", "--out", work / "model.h")
        (work / "main.cc").write_text(PROGRAM)
        ways = {}
        for compiler in filter(shutil.which, ("g++", "clang++")):
            run(compiler, "-std=c++17", "-O3", "-march=native", work / "main.cc", "-o", work / compiler)
            ways[compiler] = lambda program=work / compiler: float(run(program))
        ways["stream"] = lambda: json.loads(
            run(o.unroll, "bench", "--cell", o.cell, "--input", o.input, "--hidden", o.hidden, "--mode", "stream",
                "--threads", 1, "--seconds", 0.05, "--json"))["median_us"]
        times = {way: [] for way in ways}
        for _ in range(o.rounds):
            for way, measure in ways.items():
                times[way].append(measure())
    for way, found in times.items():
        ratios = [a / b for a, b in zip(found, times["stream"])]
        print(f"{o.cell} I{o.input} H{o.hidden} {way}: {min(found):.3f} us, median {statistics.median(found):.3f};"
              f" by the stream {min(ratios):.2f}, median {statistics.median(ratios):.2f}")


main()
