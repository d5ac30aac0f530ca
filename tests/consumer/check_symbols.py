#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that whatever the public headers declare is exported by the shared library, and what the library calls.

usage: check_symbols.py SOURCE_ROOT LIBRARY
"""
import pathlib
import re
import subprocess
import sys

ROOT, LIBRARY = pathlib.Path(sys.argv[1]), sys.argv[2]
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\)*", re.M)
OPENS = re.compile(r"\s*(inline )?namespace\b")
TYPE = re.compile(r"\s*(class|struct|enum|union)\b")
NOT_A_FUNCTION = re.compile(r"(inline|template|constexpr|using|static|enum|typedef|friend|class|struct)\b")
TABLE_ROW = re.compile(r"^UNROLL_(?:UNARY|BINARY|COMPOSITE)\((\w+)", re.M)


def statements(text):
    """The declarations of a namespace or of a class, each with its body."""
    current, depth, parens = "", 0, 0
    for c in text:
        parens += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if c == "{" and parens == 0:
            if depth == 0 and OPENS.match(current):
                current = ""
                continue
            depth += 1
        if c == "}" and parens == 0:
            if depth == 0:
                current = ""
                continue
            depth -= 1
            if depth == 0 and not TYPE.match(current) and "=" not in current.split("{")[0].split(")")[-1]:
                yield current + c
                current = ""
                continue
        current += c
        if c == ";" and depth == 0 and parens == 0:
            yield current
            current = ""


def functions(text):
    for statement in statements(text):
        statement = re.sub(r"^\s*(public|private|protected):", "", statement).strip()
        is_declared = statement.endswith(";") and re.search(r"\b~?\w+\(", statement.split("=")[0].split("{")[0])
        if is_declared and not NOT_A_FUNCTION.match(statement):
            yield statement


def name_of(statement):
    return re.search(r"(~?\w+)\(", statement.replace("__attribute__", "")).group(1)


def declared():
    """(header, name, is marked) of each public function, and of each class with functions that have no body."""
    for path in sorted((ROOT / "core/include/unroll").rglob("*.h")):
        text = DIRECTIVE.sub("", COMMENT.sub("", path.read_text()))
        for statement in functions(text):
            yield path.name, name_of(statement), "UNROLL_API" in statement
        for statement in statements(text):
            if not re.match(r"\s*(class|struct)\b", statement) or "{" not in statement:
                continue
            head, body = statement.split("{", 1)
            name = re.findall(r"[A-Za-z_]\w*", re.sub(r"\bfinal\b", "", head.split(":")[0]))[-1]
            no_symbol = re.compile(r"\(\*\w+\)|std::function<|= (0|default|delete);")
            for member in filter(lambda m: not no_symbol.search(m), functions(body)):
                marked = "UNROLL_API" in head or "UNROLL_API" in member
                yield path.name, f"{name}::{name_of(member)}", marked


def symbols(*options):
    return subprocess.run(["nm", "-DC", *options, LIBRARY], text=True, capture_output=True, check=True).stdout


def main():
    exported = set(re.findall(r"unroll::([\w:~]+?)(?:\[abi:\w+\])?\(", symbols("--defined-only")))
    exported |= {name.split("::", 1)[1] for name in exported if "::" in name}
    public = list(declared())
    assert len(public) > 200, len(public)
    rows = TABLE_ROW.findall((ROOT / "core/include/unroll/ir/op_table.def").read_text())
    public += [("op_table.def", name, True) for name in rows if name not in ("round_bf16", "round_f16", "round_tf32")]
    wrong = [f"{header}: {name} is not marked UNROLL_API" for header, name, is_marked in public if not is_marked]
    wrong += [f"{header}: {name} is not exported" for header, name, _ in public if name not in exported]
    # std::to_string of a float calls it: such a number depends on the locale (core/support/text/exact_text.h).
    if re.search(r"\bU vsnprintf\b", symbols("--undefined-only")):
        wrong.append("the library calls vsnprintf, as std::to_string of a float does: use exact_text")
    print("\n".join(wrong) or f"all of {len(public)} public functions are exported")
    sys.exit(bool(wrong))


main()
