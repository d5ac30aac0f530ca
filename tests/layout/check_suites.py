#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No test is lost between `.ci/test` and `.ci/test --all`: the short list and the suite "long" are the whole list.

usage: check_suites.py BUILD
"""
import collections
import subprocess
import sys


def listed(*options):
    done = subprocess.run(["meson", "test", "-C", sys.argv[1], "--no-rebuild", "--list", *options],
                          capture_output=True, text=True, check=True)
    return collections.Counter(line.split(" / ", 1)[1] for line in done.stdout.splitlines() if " / " in line)


def main():
    every, short, long = listed(), listed("--no-suite", "long"), listed("--suite", "long")
    wrong = [f"{name}: two tests have this name" for name, count in every.items() if count > 1]
    wrong += [f"{name}: runs neither in the short list nor in the suite long" for name in every - (short + long)]
    wrong += [f"{name}: runs in both lists" for name in short & long]
    print("\n".join(wrong + [f"{sum(short.values())} short tests and {sum(long.values())} long ones of "
                             f"{sum(every.values())}, {len(wrong)} wrong"]))
    return 1 if wrong or not short or not long else 0


sys.exit(main())
