#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the algorithms of cuDNN and cuBLASLt that the cuda backend has measured and kept.

Usage: gpu_choices.py [FOLDER]. FOLDER is "choices" in the cache folder of unroll, by default that of the user. A file
is the mark and version, the hash, the bytes of what the choice depends on, these bytes, and a line for each algorithm
with nanoseconds (backends/common).
"""
import os
import pathlib
import re
import sys

HEAD = re.compile(rb"unroll kernel 1 [0-9a-f]{16} ([0-9a-f]{16})\n")


def read_choice(path):
    """The device, the operation, and (algorithm, nanoseconds or None, whether it is chosen); None: no choice."""
    data = path.read_bytes()
    head = HEAD.match(data)
    if not head:
        return None
    size = int(head.group(1), 16)
    about = data[head.end():head.end() + size].decode(errors="replace").splitlines()
    lines = data[head.end() + size:].decode(errors="replace").splitlines()
    if len(about) != 2 or not lines or lines[0] != "choice 1":
        return None
    rows = [line.split(" ") for line in lines[1:]]
    if any(len(row) != 3 for row in rows):
        return None
    return {"device": about[0], "operation": about[1],
            "algorithms": [(name, None if time == "refused" else int(time), mark == "+") for mark, name, time in rows]}


def choices_of(folder):
    files = sorted(pathlib.Path(folder).glob("*.choice"))
    found = [choice for choice in map(read_choice, files) if choice]
    return sorted(found, key=lambda choice: choice["operation"])


def markdown(choices):
    text = ["| operation | chosen | of all, ms |", "|---|---|---|"]
    for choice in choices:
        names = [name if len(name) < 40 else f"proposal {k + 1}" for k, (name, _, _) in enumerate(choice["algorithms"])]
        chosen = next(name for name, row in zip(names, choice["algorithms"]) if row[2])
        times = [f"{name} {'refused' if row[1] is None else f'{row[1] / 1e6:.3f}'}"
                 for name, row in zip(names, choice["algorithms"])]
        text.append(f"| {choice['operation']} | {chosen} | {', '.join(times)} |")
    return text


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    choices = choices_of(sys.argv[1] if len(sys.argv) > 1 else f"{cache}/unroll/choices")
    for device in sorted({choice["device"] for choice in choices}):
        print("\n".join([device, "", *markdown([choice for choice in choices if choice["device"] == device]), ""]))


if __name__ == "__main__":
    main()
