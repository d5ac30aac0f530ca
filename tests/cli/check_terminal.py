#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a command works: progress, widths, redrawn lines. usage: check_terminal.py UNROLL"""
import os
import pty
import select
import subprocess
import tempfile
import time

from command import UNROLL, ok, run_checks

# Progress comes every 1.8 s. The rest is what a busy machine may keep a thread waiting.
LONGEST_SILENCE = 2.0
SCHEDULING = 0.7


class Watched:
    """A command whose output was read with the time of each piece; stdout and stderr together."""

    def __init__(self, *arguments, **environment):
        ours, theirs = os.pipe()
        began = time.monotonic()
        process = subprocess.Popen([UNROLL, *map(str, arguments)], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL,
                                   env={**os.environ, "COLUMNS": "80", **environment})
        os.close(theirs)
        self.pieces = [(began, b"")]
        while part := os.read(ours, 65536):
            self.pieces.append((time.monotonic(), part))
        self.pieces.append((time.monotonic(), b""))
        os.close(ours)
        self.code = process.wait(timeout=60)
        self.seconds = self.pieces[-1][0] - began
        self.text = b"".join(part for _, part in self.pieces).decode()

    def silence(self):
        """The longest one in seconds, with what stood before it."""
        times = [at for at, _ in self.pieces]
        gap, at = max((b - a, i) for i, (a, b) in enumerate(zip(times, times[1:])))
        return gap, self.pieces[at][1].decode()[-100:]


def speaks(least, *arguments, **environment):
    """The command takes at least `least` seconds, and is never silent for longer than two."""
    watched = Watched(*arguments, **environment)
    assert watched.code == 0, watched.text
    gap, before = watched.silence()
    assert watched.seconds >= least, f"{arguments} took {watched.seconds:.1f} s: too fast to show anything"
    assert gap <= LONGEST_SILENCE + SCHEDULING, f"{arguments} was silent for {gap:.1f} s after {before!r}"
    return watched


def config(folder, kind, *settings):
    ok("new", kind, folder / "demo", *settings)
    return folder / "demo" / "config.toml"


def slow_evaluation(folder):
    """eval says every two seconds how long it has been at work, and --quiet takes that away"""
    source = config(folder, "language-model")
    ok("train", source, "--out", folder / "run", "--max-updates", 2, "--set", "run.estimate_seconds=0")
    wide = ["--backend", "reference", "--split", "train"]
    seen = speaks(3, "eval", folder / "run", *wide)
    assert "evaluating, " in seen.text, seen.text
    quiet = Watched("eval", folder / "run", "--quiet", *wide)
    assert quiet.code == 0 and "evaluating" not in quiet.text, quiet.text


with tempfile.TemporaryDirectory() as work:
    run_checks([slow_evaluation], work)
