#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Paths that the system refuses, for every command that reads or writes one: the exit code is that of the file, and the
message names the path and what to do. Printed commands can be pasted.

Usage: check_paths.py UNROLL
"""
import itertools
import os
import pathlib
import re
import resource
import shlex
import subprocess
import tempfile

from command import UNROLL, Result, chosen, ok, run_checks, save
from small_runs import SMALL

NOBODY = 65534
# What is wrong with a path, and what a message has to say of it.
FAULTS = {
    "no rights": ["Permission denied", "Check the permissions"],
    "256 letters": ["File name too long", "Use a shorter path"],
    "a loop of links": ["Too many levels of symbolic links", "its symbolic links form a loop"],
    "a file as a folder": ["Not a directory", "a part of it is a file where a folder must be"],
}
# {c}: a config, {r}: a run folder, {m}: its model, {x}: inputs, {d}: a file of lines, {o}: a free path, {P}: the path.
READS = ["train {P} --out {o}", "train {c} --out {o} --set data.path={P}", "train {c} --out {o} --set data.test={P}",
         "train {P} --find-lr", "eval {P}", "eval {c} --weights {P}", "predict {P}", "predict {r} --input {P}",
         "predict {c} --weights {P}", "generate {P}", "stream {P}", "stream {r} --input {P}", "report {P}", 
         "inspect {P}", "inspect {P}.safetensors", "inspect {P}.toml", "ablation {P} batch=8", "export {P} --out {o}",
         "export {c} --weights {P} --out {o}", "import {P} --out {o}", "run {P} --input {m} --output {o}",
         "run {c} --weights {P} --input {x} --output {o}",
         "compare {P}", "explain {P}", "profile {P}", "data check {P}", "data check {c} --set data.path={P}",
         "bench --config {P}"]
WRITES = ["train {c} --out {P}", "new classify {P}", "new classify {P}.toml", "predict {r} --input {d} --output {P}",
          "predict {r} --input {d} --svg {P}", "eval {r} --svg {P}", "report {r} --output {P}",
          "ablation {c} batch=8 --minutes 0.01 --seeds 1 --out {P}", "export {r} --out {P}",
          "import {m} --out {P}", "explain {r} --seconds 0.01 --svg {P}", "explain {r} --seconds 0.01 --out {P}",
          "profile {r} --updates 1 --trace {P}", "bench --seconds 0 --save {P}"]


def as_user(user, *words, cwd=None, limit=None):
    """The command as a user without the rights of root."""
    def limited():
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    done = subprocess.run([UNROLL, *words], capture_output=True, text=True, errors="replace", timeout=120, cwd=cwd,
                          stdin=subprocess.DEVNULL, preexec_fn=limited, **user)
    return Result(done.returncode, done.stdout, done.stderr)


def plain_user(folder):
    """How to run without the rights of root; None where that is impossible, as rights mean nothing to root."""
    if os.geteuid() != 0:
        return {}
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    for path in [folder, *folder.parents]:
        if str(path).startswith(tempfile.gettempdir()) and path != pathlib.Path(tempfile.gettempdir()):
            path.chmod(0o755)
    try:
        return user if as_user(user, "--version").code == 0 else None
    except OSError:
        return None


def make_paths(folder):
    (folder / "locked").mkdir()
    (folder / "loop").symlink_to(folder / "loop2")
    (folder / "loop2").symlink_to(folder / "loop")
    (folder / "file").write_text("a\n")
    return {"no rights": folder / "locked/x", "256 letters": folder / "home" / ("n" * 256),
            "a loop of links": folder / "loop/x", "a file as a folder": folder / "file/x"}


def made(folder):
    """A config, a run and lines, which anybody may read, and a folder in which anybody may write."""
    ok("new", "classify", folder / "demo")
    ok("train", folder / "demo/config.toml", "--out", folder / "run", "--max-updates", 1, *SMALL)
    lines = (folder / "demo/patterns.csv").read_text().splitlines(keepends=True)[:5]
    (folder / "lines.csv").write_text("".join(lines))
    (folder / "home").mkdir()
    (folder / "home").chmod(0o777)
    save(folder / "x.safetensors", x=("F32", [2, 1, 1], [0.5, 1.5]))
    return {"c": folder / "demo/config.toml", "x": folder / "x.safetensors", "r": folder / "run",
            "m": folder / "run/best.safetensors", "d": folder / "lines.csv", "o": folder / "home/out"}


def check(folder, commands, code):
    places = made(folder)
    user = plain_user(folder)
    paths = make_paths(folder)
    (folder / "locked").chmod(0)
    wrong, skipped = [], 0
    for command, fault in chosen(itertools.product(commands, paths)):
        if fault == "no rights" and user is None:
            skipped += 1
            continue
        words = [word.format(P=paths[fault], **places) for word in command.split()]
        result = as_user(user or {}, *words, cwd=folder / "home")
        said = "\n".join(result.messages())
        missing = [text for text in FAULTS[fault] if text not in said]
        if fault == "a file as a folder" and "there is no such file" in said:
            missing = []
        if result.code != code or missing or "unexpected" in said:
            wrong.append(f"{command} on {fault}: {result.code}, {said[-300:]}")
        subprocess.run(["rm", "-rf", places["o"]], check=True)
    (folder / "locked").chmod(0o755)
    if skipped:
        print(f"     skipped {skipped} cases: no user without the rights of root can run the command")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


def reads(folder):
    """every command that reads a path ends with code 3 where the system refuses it"""
    check(folder, READS, 3)


def writes(folder):
    """every command that writes to a path ends with code 6 where the system refuses it"""
    check(folder, WRITES, 6)


def full(folder):
    """every command that writes ends with code 6 where no byte can be written, and leaves no temporary file"""
    places = made(folder)
    wrong = []
    for command in WRITES:
        words = [word.format(P=folder / "home/new", **places) for word in command.split()]
        result = as_user({}, *words, cwd=folder / "home", limit=16)
        said = "\n".join(result.messages())
        left = [str(p) for p in (folder / "home").rglob("*.tmp")]
        if result.code != 6 or "File too large" not in said or "ulimit -f" not in said or left:
            wrong.append(f"{command}: {result.code}, {left}, {said[-300:]}")
        subprocess.run(f"rm -rf {folder}/home/*", shell=True, check=True)
    for command in [c for c in WRITES if "{P}" in c.split() and not c.startswith(("train", "new", "import", "ablation",
                                                                                 "explain {r} --seconds 0.01 --out"))]:
        words = [word.format(P="/dev/full", **places) for word in command.split()]
        result = as_user({}, *words, cwd=folder / "home")
        if result.code != 6 or "No space left on device" not in result.err.replace("\n  ", " "):
            wrong.append(f"{command} on /dev/full: {result.code}, {result.err[-300:]}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


def long_names(folder):
    """a name of 255 letters is written, although a temporary name beside it would be longer"""
    places = made(folder)
    for name in ("n" * 255, "n" * 250 + ".csv"):
        path = folder / name
        ok("predict", places["r"], "--input", places["d"], "--output", path)
        assert path.exists() and not list(folder.glob("*.tmp"))
        path.unlink()
        ok("eval", places["r"], "--svg", path)
        assert path.exists() and not list(folder.glob("*.tmp"))


def pasted(folder):
    """the commands that new, train, eval and errors print can be pasted, for a folder with blanks and a quote"""
    home = folder / "my run's"
    home.mkdir()
    def command_in(text):
        found = re.findall(r"(unroll (?:train|eval|predict|inspect|run) .*)", text)
        assert found, text
        return shlex.split(found[0])[1:]
    made = ok("new", "classify", home / "a demo")
    train = command_in(made.err)
    assert train[:2] == ["train", str(home / "a demo/config.toml")], train
    run = home / "a run"
    trained = ok(*train[:2], "--out", run, "--max-updates", 2, *SMALL)
    assert command_in(trained.out) == ["eval", str(run)], trained.out
    evaluated = ok(*command_in(trained.out))
    assert command_in(evaluated.out)[:2] == ["predict", str(run)], evaluated.out
    refused = [(["eval", home / "a demo/config.toml"], ["train", str(home / "a demo/config.toml")]),
               (["train", run / "best.safetensors", "--out", home / "x"], ["inspect", str(run / "best.safetensors")]),
               ([home / "a demo/config.toml"], ["train", str(home / "a demo/config.toml")]),
               (["train", run, "--resume"], ["train", "--resume", "--out", str(run)]),
               (["predict", run, "--svg", "x.svg", "--input", "/dev/null"], None)]
    for words, wanted in refused[:4]:
        result = subprocess.run([UNROLL, *map(str, words)], capture_output=True, text=True, timeout=60)
        assert result.returncode in (2, 3), (words, result.stderr)
        found = command_in(result.stderr)  # on one line: a command is not broken
        assert found[:len(wanted)] == wanted, (words, found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_checks([reads, writes, full, long_names, pasted], work)
