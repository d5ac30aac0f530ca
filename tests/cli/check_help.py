#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help texts. usage: check_help.py UNROLL SOURCE_ROOT"""
import pathlib
import re
import sys
import tempfile

from command import call, ok, run_checks

GROUPS = {"Start here": ["new", "data", "train", "eval", "backtest", "predict", "generate"],
          "Understand a model": ["inspect", "explain", "profile", "compare", "report", "ablation"],
          "Deploy": ["stream", "run", "export", "import", "bench"],
          "Machine": ["doctor", "completion"]}
COMMANDS = [name for names in GROUPS.values() for name in names]
VERBS = {"Create", "Check", "Train", "Evaluate", "Forecast", "Predict", "Generate", "Show", "Explain", "Measure",
         "Write", "Run", "Import", "Print"}


# Values without a default: nothing happens unless they are given.
NO_DEFAULT = {"FILE", "FOLDER", "SECTION.KEY=VALUE", "NAMES", "COMMAND", "MxKxN", "MIN:MAX:MEAN"}


def overview():
    """command -> its line in `unroll help`, joined"""
    found, name = {}, None
    for line in ok("help").out.split("\nExamples:\n")[0].splitlines():
        if start := re.fullmatch(r"  (\w+) +(\S.*)", line):
            name = start[1]
            found[name] = start[2]
        elif name and line.startswith(" " * 14):
            found[name] += " " + line.strip()
        else:
            name = None
    return found


def rows_of(text):
    """The options of a help text, each joined to one line: "--length N  Number of tokens ... [0 to 9; default: 4]"."""
    rows = []
    for line in text.splitlines():
        if re.match(r"  -", line):
            rows.append(line.strip())
        elif rows and line.startswith(" " * 28):
            rows[-1] += "  " * (len(rows[-1]) < 28) + " " + line.strip()
    return rows


def program_help(folder):
    """help lists all commands by group; no command at all prints the same on stderr with exit code 2"""
    text = ok("help").out
    headings = [text.index(f"\n{group}:\n") for group in GROUPS]
    assert headings == sorted(headings), text
    for group, names in GROUPS.items():
        block = text[text.index(f"\n{group}:\n"):].split("\n\n")[0]
        assert re.findall(r"^  (\w+) ", block, re.M) == names, block
    assert ok("--help").out == ok("-h").out == text
    bare = call()
    assert (bare.code, bare.out, bare.err) == (2, "", text), bare.err


def command_help(folder):
    """each command's help starts with a verb, has usage and examples, and a default of each value that has one"""
    for name in COMMANDS:
        text = ok(name, "--help").out
        assert ok("help", name).out == text, name
        lines = text.splitlines()
        assert lines[0].split()[0].rstrip(":") in VERBS, lines[0]
        assert f"\nUsage: unroll {name}" in text and f"\nExamples:\n  " in text and "unroll" in text, text
        rows = rows_of(text)
        assert any(row.startswith("-h, --help") for row in rows), text
        for row in rows:
            option, doc = re.split(r"  +", row, maxsplit=1)
            assert re.match(r"[A-Z]|infer:|gemm:", doc) and "." in doc, f"{name}: {row}"
            if not option.split()[-1].startswith("-"):
                assert not re.search(r"default: (none)?\]$", row), f"{name}: this default says nothing: {row}"
                assert option.split()[-1] in NO_DEFAULT or re.search(r"\[.*(default: \S|required).*\]$", row), \
                    f"{name}: {row}"
    assert ok("ablation", "--help").out == ok("ablate", "--help").out == ok("lever", "--help").out


def width(folder):
    """help fits 80 columns, and a narrower or wider terminal"""
    for columns in (80, 60, 120):
        for words in (["help"], *([name, "--help"] for name in COMMANDS)):
            text = ok(*words, COLUMNS=str(columns)).out
            for line in text.splitlines():
                example = line.startswith("  unroll ") or line.startswith("      --") or columns < 80
                assert len(line) <= max(columns, 80 if example else 0), f"{words}: {line!r}"


def documentation(folder):
    """the table of docs/cli.md names each command with the sentence of its help"""
    text = (pathlib.Path(sys.argv[2]) / "docs/cli.md").read_text()
    table = text[text.index("| command | purpose |"):].split("\n\n")[0]
    rows = {row[1]: row[2] for row in re.finditer(r"^\| `(\w+)[^`]*` \| (.*) \|$", table, re.M)}
    docs = overview()
    assert list(rows) == list(docs) == COMMANDS, (list(rows), list(docs))
    for name, doc in docs.items():
        assert rows[name].startswith(doc), f"docs/cli.md: {name} starts with {rows[name][:60]!r}, not {doc!r}"


with tempfile.TemporaryDirectory() as work:
    run_checks([program_help, command_help, width, documentation], work)
