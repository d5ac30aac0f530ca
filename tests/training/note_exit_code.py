#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Runs a rank under mpirun in a session of its own and notes its process, its output and its exit code. A launcher that
# kills the ranks beside a dead one then kills this script only; what it asks them (SIGTERM, SIGUSR1) is passed on.
# usage: note_exit_code.py FOLDER COMMAND...
import os
import pathlib
import signal
import sys

ASKED = (signal.SIGTERM, signal.SIGUSR1)
folder = pathlib.Path(sys.argv[1])
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]


def note(kind, value):
    draft = folder / f"{kind}.{rank}.new"
    draft.write_text(str(value))
    draft.rename(folder / f"{kind}.{rank}")


def handle(what):
    for asked in ASKED:
        signal.signal(asked, what)


def watch():
    """Of the session of its own. Returns the exit code."""
    os.setsid()
    handle(signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        handle(signal.SIG_DFL)
        out = os.open(folder / f"out.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execvp(sys.argv[2], sys.argv[2:])
    note("pid", child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    note("code", code)
    return code if code >= 0 else 128 - code


def pass_on(asked, _):
    try:
        os.kill(int((folder / f"pid.{rank}").read_text()), asked)
    except (OSError, ValueError):  # not yet started, or done
        pass


# Without a signal in between: the handlers need the process of the watch.
watcher = os.fork()
if watcher == 0:
    os._exit(watch())
handle(pass_on)
os._exit(os.waitstatus_to_exitcode(os.waitpid(watcher, 0)[1]) % 256)
