#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation shows: a block after <!-- test: run --> is run by bash with `unroll` in the path,
one after <!-- test: compile --> is compiled; one after <!-- test: file PATH --> is that file, without its SPDX line;
every relative link and picture leads to a file, and #NAME in a link to a source to a file with that name in it.

usage: check_docs.py SOURCE_ROOT UNROLL      with UNROLL_CASES in the environment only blocks of README.md are run
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT, UNROLL = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
BLOCK = re.compile(r"<!-- test: (run|compile|file \S+) -->\n```(\w+)\n(.*?)^```$", re.S | re.M)
MARK = re.compile(r"<!-- test:")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#([^)]*))?\)")
PICTURE = re.compile(r'\b(?:src|srcset)="([^":]+)"')
COMPILER = shlex.split(os.environ.get("CXX", "c++"))


def run(block, folder):
    environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")
    return subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment,
                          capture_output=True, text=True)


def compile_only(block, folder):
    source = pathlib.Path(folder) / "block.cc"
    source.write_text(block)
    flags = ["-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", f"-I{ROOT}/core/include"]
    return subprocess.run([*COMPILER, *flags, source], capture_output=True, text=True)


def same_as_file(block, path):
    """The page and the file must not drift apart; the file itself is compiled and run by another test."""
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    text = "".join(line for line in lines if "SPDX-License-Identifier" not in line)
    same = text == block
    return subprocess.CompletedProcess([], 0 if same else 1, "", "" if same else f"differs from {path.name}\n")


def fault_of_link(folder, link, within):
    target = folder / link
    if not target.exists():
        return f"no file {link}"
    is_source = target.suffix in (".cc", ".h", ".def")
    if within and is_source and not re.search(rf"\b{re.escape(within)}\b", target.read_text()):
        return f"{link} does not have {within}"
    return ""


def check(page):
    """Number of blocks tried and a list of what is wrong."""
    text = page.read_text()
    name = page.relative_to(ROOT)
    links = LINK.findall(text) + [(picture, "") for picture in PICTURE.findall(text)]
    wrong = [f"{name}: {fault}" for link in links if (fault := fault_of_link(page.parent, *link))]
    blocks = BLOCK.findall(text)
    if len(blocks) != len(MARK.findall(text)):
        wrong.append(f"{name}: a mark is not followed by a block")
    with tempfile.TemporaryDirectory() as folder:  # one for the page: its blocks build on each other
        (pathlib.Path(folder) / "bin").mkdir()
        (pathlib.Path(folder) / "bin/unroll").symlink_to(UNROLL)
        if page.parent.name == "tutorials":  # which ask for their data file in the current folder
            for file in [*(page.parent / "data").glob("*.?sv"), ROOT / "docs/examples/data/kjv-genesis-mark.txt"]:
                shutil.copy(file, folder)
        for kind, _, block in blocks:
            if kind == "run" and "UNROLL_CASES" in os.environ and page.name != "README.md":
                continue
            if kind.startswith("file "):
                done = same_as_file(block, page.parent / kind.removeprefix("file "))
            else:
                done = (run if kind == "run" else compile_only)(block, folder)
            if done.returncode:
                wrong.append(f"{name}: this block gave {done.returncode}:\n{block}{done.stdout}{done.stderr}")
    return len(blocks), wrong


def keys_without_advice():
    """Keys of [train] that the guide to training does not mention."""
    rows = re.search(r"^## \[train\]$(.*?)^## ", (ROOT / "docs/config.md").read_text(), re.S | re.M)[1]
    guide = (ROOT / "docs/training.md").read_text()
    return [key for key in re.findall(r"^\| `(\w+)` ", rows, re.M) if not re.search(rf"\b{key}\b", guide)]


def main():
    blocks, wrong = 0, [f"docs/training.md: nothing about train.{key}" for key in keys_without_advice()]
    for page in [ROOT / "README.md", *sorted((ROOT / "bench").rglob("*.md")),
                 *sorted((ROOT / "docs").rglob("*.md"))]:
        n, found = check(page)
        blocks += n
        wrong += found
    if blocks == 0:
        wrong.append("no block was tried")
    first = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[:2]
    if first != [".ci/demo\n", ".ci/test\n"]:
        wrong.append(f"README.md: its first two shell blocks are {first}")
    print("\n".join(wrong + [f"{blocks} blocks tried, {len(wrong)} wrong"]))
    return 1 if wrong else 0


sys.exit(main())
