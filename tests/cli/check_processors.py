#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command on processors without some instructions, as qemu-user has them: no backend ends the process.

Usage: check_processors.py UNROLL
"""
import shutil
import subprocess
import sys

from command import UNROLL

QEMU = shutil.which("qemu-x86_64")
BENCH = ["bench", "--backend", "onednn", "--cell", "lstm", "--hidden", "8", "--batch", "2", "--seconds", "0.01"]


def on(processor, *arguments):
    return subprocess.run([QEMU, "-cpu", processor, UNROLL, *arguments], text=True, capture_output=True, timeout=200)


if not QEMU:
    print("skip: qemu-x86_64 is not installed (Debian: apt-get install qemu-user)")
    sys.exit(77)
for processor, missing in (("core2duo", "SSE4.1"), ("Haswell,-fma", "FMA"), ("Penryn", "")):
    done = on(processor, *BENCH)
    said = " ".join(done.stderr.split())
    assert done.returncode == (5 if missing else 0), (processor, done)
    assert not missing or f"this processor has no {missing}, which oneDNN's kernels need" in said, (processor, said)
    print(f"{processor}: {'refused' if missing else 'runs'}")
listed = on("core2duo", "doctor", "--no-self-test")
assert listed.returncode == 0 and "this processor has no SSE4.1" in listed.stdout, listed
print("doctor lists the reason")
