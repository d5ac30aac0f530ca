#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No test is lost between `.ci/test` and `.ci/test --all`: the short list and the suite "long" are the whole list, and
what the short list leaves out of a program (UNROLL_CASES=..., --test-case-exclude=...) another test runs.

usage: check_suites.py BUILD
"""
import collections
import json
import subprocess
import sys

LIMITS = ("UNROLL_CASES", "UNROLL_POOLS", "UNROLL_GRAPHS", "UNROLL_SCANS")


def listed(*options):
    done = subprocess.run(["meson", "test", "-C", sys.argv[1], "--no-rebuild", "--list", *options],
                          capture_output=True, text=True, check=True)
    return collections.Counter(line.split(" / ", 1)[1] for line in done.stdout.splitlines() if " / " in line)


def lost(every, short, long):
    """Each line is a fault of the three lists of names."""
    yield from (f"{name}: two tests have this name" for name, count in every.items() if count > 1)
    yield from (f"{name}: runs neither in the short list nor in the suite long" for name in every - (short + long))
    yield from (f"{name}: runs in the short list and in the suite long" for name in short & long)


def limited(tests):
    """Names of short tests with a limit for which no long test runs the same command without it."""
    def same(test):
        return test["cmd"], {key: value for key, value in test["env"].items() if key not in LIMITS}

    free = [same(test) for test in tests if "UNROLL_CASES" not in test["env"]]
    return [test["name"] for test in tests if "UNROLL_CASES" in test["env"] and same(test) not in free]


def without_slow_cases(tests):
    """Names of tests that leave out cases that no test runs."""
    commands = [test["cmd"] for test in tests]
    for test in tests:
        slow = [word.replace("--test-case-exclude", "--test-case") for word in test["cmd"]]
        if slow not in commands:
            yield test["name"]


def main():
    every, short, long = listed(), listed("--no-suite", "long"), listed("--suite", "long")
    tests = json.loads(subprocess.check_output(["meson", "introspect", "--tests", sys.argv[1]]))
    wrong = [*lost(every, short, long), *(f"{name}: no test tries all of it" for name in limited(tests)),
             *(f"{name}: no test runs the cases it leaves out" for name in without_slow_cases(tests))]
    print("\n".join(wrong + [f"{sum(short.values())} short tests and {sum(long.values())} long ones of "
                             f"{sum(every.values())}, {len(wrong)} wrong"]))
    return 1 if wrong or not short or not long else 0


sys.exit(main())
