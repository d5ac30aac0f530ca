#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no number of a message or file depends on the locale that a host program has set.

usage: check_locale.py LOCALE_TEXTS
"""
import os
import pathlib
import subprocess
import sys
import tempfile

COMMA = "de_DE.UTF-8"


def texts(locale, folder):
    run = folder / locale
    done = subprocess.run([sys.argv[1], locale, str(run)], text=True, capture_output=True,
                          env=dict(os.environ, LOCPATH=str(folder / "locales")))
    assert done.returncode == 0, (locale, done)
    return done.stdout.splitlines()


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "locales").mkdir()
    try:
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "locales" / COMMA)],
                       check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("skip: localedef cannot make a locale with a decimal comma (Debian: apt-get install locales)")
        sys.exit(77)
    point, comma = texts("C", folder), texts(COMMA, folder)
    assert (point[0], comma[0]) == ("0.5", "0,5"), (point[0], comma[0])
    different = [(a, b) for a, b in zip(point[1:], comma[1:]) if a != b]
    assert not different and len(point) == len(comma), different[:5]
    for expected in ("trainer.validation_loss=", "got 1.25", "got -0.5 and 0.25"):
        assert any(expected in line for line in point), (expected, point[:20], point[-10:])
    print(f"{len(point) - 1} lines are equal")
