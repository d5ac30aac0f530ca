#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a command works: progress, widths, redrawn lines.

usage: check_terminal.py UNROLL             the errors, one run and one narrowed window
       check_terminal.py UNROLL --long      the rest: every command at work, and all widths
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

from command import UNROLL, ok, run_checks
from screen import Screen

# Progress comes after 1.8 s of silence. The rest is what a busy machine may keep a ready thread waiting: these tests
# run beside others that use all cores.
LONGEST_SILENCE = 2.0
SCHEDULING = 0.8
REFERENCE = ["--backend", "reference"]  # slow by nature


class Watched:
    """A command whose output was read with the time of each piece; stdout and stderr together."""

    def __init__(self, *arguments, width=None, resize=None):
        """`width`: on a terminal of so many columns; `resize`: (seconds, columns) after which it has others."""
        ours, theirs = pty.openpty() if width else os.pipe()
        self.arguments = arguments
        self.screens = [Screen(width, rewraps) for rewraps in (True, False)] if width else []
        self.middle = None  # the screens' texts a second after the resize
        if width:
            set_width(ours, width)
        began = time.monotonic()
        process = subprocess.Popen([UNROLL, *map(str, arguments)], stdout=theirs, stderr=theirs,
                                   stdin=subprocess.DEVNULL,
                                   env={**os.environ, "COLUMNS": "80", "TERM": "xterm", "LINES": "50"})
        os.close(theirs)
        self.pieces = [(began, b"")]
        while True:
            if resize and time.monotonic() > began + resize[0]:
                set_width(ours, resize[1])
                for screen in self.screens:
                    screen.resize(resize[1])
                resized, resize = time.monotonic(), None
                self.middle = resized + 1
            if isinstance(self.middle, float) and time.monotonic() > self.middle:
                self.middle = [screen.text() for screen in self.screens]
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal's other end is closed
                part = b""
            if not part:
                break
            self.pieces.append((time.monotonic(), part))
            for screen in self.screens:
                screen.write(part)
        self.pieces.append((time.monotonic(), b""))
        os.close(ours)
        self.code = process.wait(timeout=60)
        self.seconds = self.pieces[-1][0] - began
        self.text = b"".join(part for _, part in self.pieces).decode()

    def silence(self):
        """The longest one in seconds, with what stood before it."""
        times = [at for at, _ in self.pieces]
        gap, at = max((b - a, i) for i, (a, b) in enumerate(zip(times, times[1:])))
        return gap, self.pieces[at][1].decode(errors="replace")[-100:]


def set_width(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))


def long_enough(least, line, hidden=128, **watched):
    """What is seen of a command that takes at least `least` seconds.

    `line` gives its arguments for a number of hidden units, which doubles until the work is long on this machine too.
    """
    while True:
        seen = Watched(*line(hidden), **watched)
        assert seen.code == 0, seen.text
        if seen.seconds >= least:
            return seen
        assert hidden < 4096, f"{seen.arguments} took {seen.seconds:.1f} s: too fast to show anything"
        hidden *= 2


def speaks(least, line, hidden=128):
    """The command takes at least `least` seconds, and is never silent for longer than two."""
    watched = long_enough(least, line, hidden)
    gap, before = watched.silence()
    assert gap <= LONGEST_SILENCE + SCHEDULING, f"{watched.arguments} was silent for {gap:.1f} s after {before!r}"
    line = " ".join(map(str, watched.arguments))[:60]
    print(f"     {watched.seconds:5.1f} s, longest silence {gap:.2f} s: {line}", flush=True)
    return watched


def config(folder, kind, *settings):
    folder.mkdir(exist_ok=True)
    ok("new", kind, folder / "demo", *settings)
    return folder / "demo" / "config.toml"


def wide(text, columns=80):
    """Lines that are too wide, but for those with a path or another word that is as wide itself."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")
    return [line for line in lines if len(line) > columns and max(map(len, re.split(r"\s+", line))) < columns // 2]


def slow_evaluation(folder):
    """eval says every two seconds how far it is, and --quiet takes that away"""
    source = config(folder, "language-model")
    long = [*REFERENCE, "--split", "train"]

    def evaluation(hidden):
        run = folder / f"run{hidden}"
        ok("train", source, "--out", run, "--max-updates", 2, "--set", "run.estimate_seconds=0",
           "--set", f"model.hidden={hidden}")
        return ["eval", run, *long]

    seen = speaks(3, evaluation)
    assert re.search(r"evaluating \d+/\d+, \d+ s\n", seen.text), seen.text
    quiet = Watched(*seen.arguments, "--quiet")
    assert quiet.code == 0 and "evaluating" not in quiet.text, quiet.text


def slow_training(folder):
    """train speaks while it estimates, updates and validates; so do its checks of precision, resume and rate"""
    source = config(folder, "language-model")

    def training(*options):
        return lambda hidden: ["train", source, *options, *REFERENCE, "--set", f"model.hidden={hidden}",
                               "--set", "train.batch=32"]

    seen = speaks(4, lambda hidden: training("--max-updates", 6, "--out", folder / f"run{hidden}")(hidden))
    assert "training " in seen.text and wide(seen.text) == [], wide(seen.text)
    seen = speaks(4, training("--verify-resume", "--max-updates", 4))
    assert "comparing a resumed run with a straight one: " in seen.text, seen.text
    speaks(4, training("--check-precision", 3, "--set", "train.precision=bf16"))
    speaks(4, training("--find-lr"), hidden=32)


def slow_measurements(folder):
    """compare, explain, profile, bench and ablation speak while they measure"""
    def stack(hidden):
        file = folder / f"lstm{hidden}.toml"
        file.write_text(f'[model]\ncell = "lstm"\ninput = 64\nhidden = {hidden}\n[data]\nsteps = 80\n'
                        '[train]\nbatch = 16\n')
        return file

    seen = speaks(4, lambda hidden: ["compare", stack(hidden), "--grad"])
    assert "comparing backends: " in seen.text, seen.text
    speaks(4, lambda hidden: ["explain", stack(hidden), *REFERENCE, "--seconds", 1])
    speaks(4, lambda hidden: ["profile", stack(hidden), *REFERENCE, "--updates", 3])
    speaks(3, lambda hidden: ["bench", "--cell", "lstm", "--seconds", 3])
    classes = config(folder / "ablation", "classify")
    speaks(3, lambda hidden: ["ablation", classes, "batch=8", "--minutes", 0.1, "--seeds", 1])


SMALL = ["--set", "model.hidden=8", "--threads", 1]


def lines_of(folder, kinds):
    """For each kind of run: the commands that train it and look at it."""
    for kind in kinds:
        run, source = folder / kind / "run", config(folder / kind, kind)
        yield ["train", source, "--out", run, "--max-updates", 20, "--set", "train.watch_every=10", *SMALL]
        yield from (["eval", run], ["inspect", run], ["data", "check", source])


def check_widths(lines):
    for line in lines:
        seen = Watched(*line)
        assert seen.code == 0, (line, seen.text)
        assert wide(seen.text) == [], (line, wide(seen.text)[:3])
        if line[0] == "train" and "--out" in line:
            continue  # the folder is there
        seen = Watched(*line, width=60)
        assert seen.code == 0 and wide(seen.text, 60) == [], (line, wide(seen.text, 60)[:3])


def widths_of_a_run(folder):
    """no line of a run and of the commands that look at it is wider than 80 columns, and none than a terminal of 60"""
    check_widths(lines_of(folder, ["classify"]))


def widths(folder):
    """the same of every kind of run and of every command"""
    check_widths(lines_of(folder, ["language-model", "forecast", "classify", "label", "translate", "summarize",
                                   "document"]))
    stack = folder / "lstm.toml"
    stack.write_text('[model]\ncell = "lstm"\ninput = 4\nhidden = 8\n[data]\nsteps = 5\n[train]\nbatch = 4\n')
    text, classes = folder / "language-model" / "run", folder / "classify" / "demo" / "config.toml"
    check_widths([
        ["doctor"], ["compare", text, "--grad", "--updates", 1], ["explain", text, "--seconds", 0],
        ["explain", text, "--seconds", 0, "--full"], ["profile", text, "--updates", 2],
        ["ablation", classes, "batch=8", "batch=16,lr=0.002", "--minutes", 0.02, "--seeds", 2, *SMALL],
        ["train", classes, "--find-lr", *SMALL], ["train", classes, "--verify-resume", *SMALL],
        ["train", classes, "--check-precision", 40, "--set", "train.precision=bf16", *SMALL],
        ["bench", "--hidden", 8, "--seconds", 0.1], ["bench", "--hidden", 8, "--seconds", 0.1, "--explain"],
        ["bench", "--mode", "stream", "--hidden", 8, "--seconds", 0.1], ["inspect", stack],
        ["report", text, folder / "classify" / "run", "--output", folder / "report.html"]])


def errors_are_wrapped(folder):
    """an error fits 80 columns and a terminal of 60; its further lines begin with two spaces"""
    source = config(folder, "classify")
    wrapped = 0
    for line in (["train", source, "--set", "model.hidden=many"], ["train", source, "--out"],
                 ["eval", "nowhere"], ["bench", "--mode", "fast"], ["evaluate", source]):
        for width in (80, 60):
            seen = Watched(*line, width=width)
            first, *more = seen.text.replace("\r", "").rstrip("\n").split("\n")
            assert seen.code in (2, 3) and first.startswith("unroll: error: "), (line, seen.text)
            wrapped += len(more)
            assert all(part.startswith("  ") for part in more), (line, seen.text)
            assert wide(seen.text, width) == [], (line, seen.text)
    assert wrapped >= 5, "most messages are longer than a line"


def narrowed_window(folder):
    """a terminal that is made narrower shows one bar, without fragments, and nothing of it at the end"""
    source = config(folder, "language-model")
    slow = [*REFERENCE, "--set", "train.batch=32", "--set", "train.log_every=1", "--set", "run.estimate_seconds=0"]
    seen = long_enough(4, lambda hidden: ["train", source, "--out", folder / f"run{hidden}", "--max-updates", 12,
                                          *slow, "--set", f"model.hidden={hidden}"], width=100, resize=(2.5, 45))
    for screen, middle in zip(seen.screens, seen.middle):
        assert middle.count("eta") <= 1 and middle.count("loss") <= 1, middle
        assert max(map(len, middle.split("\n"))) <= 45, middle
        assert "eta" not in screen.text() and "stopped early" in screen.text(), screen.text()


CHECKS = {"": [errors_are_wrapped, widths_of_a_run, narrowed_window],
          "--long": [slow_evaluation, slow_training, slow_measurements, widths]}
with tempfile.TemporaryDirectory() as work:
    run_checks(CHECKS["".join(sys.argv[2:])], work)
