# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python module print and count."""
import sys

FAILED = []


def check(ok, what):
    print(("ok   " if ok else "FAIL ") + what, flush=True)
    if not ok:
        FAILED.append(what)


def refused(kind, text, call, *arguments, **options):
    """The call raises this class with this text."""
    try:
        call(*arguments, **options)
    except Exception as error:
        check(type(error) is kind and text in str(error), f"{type(error).__name__}: {error}")
    else:
        check(False, f"{kind.__name__} with '{text}' is raised")


def finish():
    sys.exit(1 if FAILED else 0)
