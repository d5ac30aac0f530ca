#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the compiler cannot: where files are, who includes whom, how long they are, whether every op is complete.

Usage: check_layout.py ROOT. Prints one line per finding; ends with 1 when one of them is an error.
"""
import fnmatch
import pathlib
import re
import sys

TOP_LEVEL = {"meson.build", "meson_options.txt", "core", "backends", "frontends", "tests", "bench", "docs", "README.md",
             "LICENSE"}
OPTIONAL_TOP_LEVEL = {"subprojects"}  # wrap files only; dotfiles are free
SOURCE = {".cc", ".h", ".cu", ".comp", ".py"}
WARN_LINES, FAIL_LINES, FAIL_COLUMNS = 500, 800, 120
GENERATED = ("_generated.h", "_generated.cc")

# Which folders of core a folder may include, besides itself, support and the public headers.
CORE_MAY_INCLUDE = {
    "support": set(),
    "ir": set(),
    "autodiff": {"ir"},
    "passes": {"ir", "autodiff"},
    "io": set(),
    "train": {"ir", "autodiff", "passes", "io"},
}
# A backend that runs what it does not claim as another one does.
BUILT_ON = {"onednn": "cpu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# Written so that this file does not find itself.
PLACES = re.compile(r"(?<![\w.~}])/(?:work|home|root)/\w|local" r"host|127\.0\.0\.1|artifact" r"ory|/tm" r"p/\w")
MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
# Such a table overflows when an op is appended: core/ir/op_map.h has the size of the op table.
SIZED_BY_AN_OP = re.compile(r"\(Op::\w+\)\s*\+\s*1\b")
ENDS_PROCESS = re.compile(r"(?<![\w.>])(?:std::)?(abort|exit|_Exit|quick_exit|terminate|assert)\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def is_script(name):
    return name.endswith((".sh", "meson.build", "meson_options.txt"))


def is_build_folder(path):
    return (path / "build.ninja").exists() or (path / "meson-private").is_dir()


def entries_of(folder, ignored=()):
    """What belongs to the project in one folder: no dotfiles but .ci, no build folder, nothing of the names ignored."""
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name != ".ci"
        skipped = path.name == "__pycache__" or any(fnmatch.fnmatch(path.name, p) for p in ignored)
        if not (path.is_symlink() or hidden or skipped or is_build_folder(path)):
            yield path


def files_of(entries):
    for path in entries:
        if path.is_file():
            yield path
        else:
            yield from files_of(entries_of(path))


class Checker:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.errors = []
        self.warnings = []
        self.texts = {}
        ignore_file = self.root / ".gitignore"
        ignored = ignore_file.read_text().split() if ignore_file.exists() else []
        self.top = list(entries_of(self.root, [p.strip("/") for p in ignored if p.startswith("/")]))
        for path in files_of(self.top):
            name = path.relative_to(self.root).as_posix()
            try:
                self.texts[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # data
        self.sources = {n: t for n, t in self.texts.items() if pathlib.Path(n).suffix in SOURCE}

    def error(self, name, what):
        self.errors.append(f"{name}: {what}")

    def code_of(self, name):
        return COMMENT.sub("", self.texts[name])

    def joined(self, pattern):
        return "\n".join(self.code_of(n) for n in self.texts if re.fullmatch(pattern, n))

    def check_top_level(self):
        found = {p.name for p in self.top if not p.name.startswith(".")}
        for name in sorted(found - TOP_LEVEL - OPTIONAL_TOP_LEVEL):
            self.error(name, "has no place at the top level")
        for name in sorted(TOP_LEVEL - found):
            self.error(name, "is missing at the top level")
        for name in self.texts:
            if name.startswith("subprojects/") and not name.endswith(".wrap"):
                self.error(name, "subprojects holds wrap files only")

    def check_includes(self):
        for name, text in self.sources.items():
            if not name.startswith(("core/", "backends/", "frontends/")):
                continue
            for target in INCLUDE.findall(COMMENT.sub("", text)):
                reason = include_refusal(name, target)
                if reason:
                    self.error(name, f'includes "{target}": {reason}')

    def check_umbrella(self):
        folder, umbrella = "core/include/unroll/", "core/include/unroll/unroll.h"
        included = set(INCLUDE.findall(self.texts.get(umbrella, "")))
        for name in self.sources:
            if name.startswith(folder) and name.endswith(".h") and name != umbrella:
                if "unroll/" + name[len(folder):] not in included:
                    self.error(umbrella, f"does not include {name[len(folder):]}")

    def check_backend_names(self):
        names = {p.name for p in (self.root / "backends").iterdir() if p.is_dir()}
        names -= {"common", "null"}  # null: JSON's word
        for name in self.sources:
            if not name.startswith(("core/", "backends/")) or name == "backends/registry.cc":
                continue
            for backend in sorted(names):
                if not name.startswith(f"backends/{backend}/") and f'"{backend}"' in self.code_of(name):
                    self.error(name, f'names the backend "{backend}": only backends/registry.cc does')

    def check_length(self):
        for name, text in self.sources.items():
            if name.endswith(GENERATED):
                continue
            lines = text.splitlines()
            if len(lines) > FAIL_LINES:
                self.error(name, f"has {len(lines)} lines, at most {FAIL_LINES}")
            elif len(lines) > WARN_LINES:
                self.warnings.append(f"{name}: has {len(lines)} lines, better at most {WARN_LINES}")
        for name, text in self.texts.items():
            if not (name in self.sources or is_script(name)) or name.endswith(GENERATED):
                continue
            for i, line in enumerate(text.splitlines()):
                if len(line) > FAIL_COLUMNS:
                    self.error(f"{name}:{i + 1}", f"has {len(line)} columns, at most {FAIL_COLUMNS}")

    def check_text(self):
        scripts = {n: t for n, t in self.texts.items() if n.endswith((".sh", ".def")) or t.startswith("#!")}
        for name, text in {**self.sources, **scripts}.items():
            if not any("SPDX-License-Identifier: Apache-2.0" in line for line in text.splitlines()[:3]):
                self.error(name, "lacks its SPDX line")
        for name, text in self.texts.items():
            if is_data(name):
                continue
            for i, line in enumerate(text.splitlines()):
                for what, pattern in (("a place on one machine", PLACES), ("an open mark", MARKS)):
                    found = pattern.search(line)
                    if found:
                        self.error(f"{name}:{i + 1}", f"has {what}: {found.group(0)}")

    def check_calls(self):
        for name in self.sources:
            if name.startswith(("core/", "backends/", "frontends/data/", "frontends/model/")):
                found = ENDS_PROCESS.search(self.code_of(name))
                if found:
                    self.error(name, f"calls {found.group(1)}: the library throws Error and never ends the process")

    def check_op_tables(self):
        for name in self.sources:
            if SIZED_BY_AN_OP.search(self.code_of(name)):
                self.error(name, "sizes a table by the name of an op: use core/ir/op_map.h")

    def check_ops(self):
        table = self.texts["core/include/unroll/op_table.def"]
        rows = re.findall(r"^UNROLL_OP\((\w+),\s*(\w+),\s*(\w+),\s*-?\d+,\s*-?\d+,\s*(\w+),", table, re.M)
        if not rows:
            self.error("core/include/unroll/op_table.def", "has no rows this script can read")
        shape_rules = self.joined(r"core/ir/shape_rules\w*\.cc")
        gradients = self.joined(r"core/autodiff/rules_\w+\.cc")
        reference = self.joined(r"backends/reference/\w+\.cc")
        bodies = self.joined(r"core/ir/composite\.cc")
        cases = self.joined(r"tests/conformance/cases_\w+\.cc")
        reference_page = self.texts.get("docs/conventions.md", "")
        for op, tier, _, gradient in rows:
            row = re.compile(r"\{Op::" + op + r",")
            word = re.compile(r"\b" + op + r"\b")
            wanted = {
                "shape rule in core/ir/shape_rules*.cc": bool(row.search(shape_rules)),
                "case in tests/conformance/cases_*.cc": bool(word.search(cases)) or op == "gradient",
                "line in the op reference of docs/conventions.md": f"`{op}`" in reference_page,
            }
            if gradient == "yes":
                wanted["gradient row in core/autodiff/rules_*.cc"] = bool(row.search(gradients))
            elif row.search(gradients):
                self.error(op, "has a gradient row but says none in the table")
            if tier == "composite":
                wanted["body in core/ir/composite.cc"] = bool(row.search(bodies))
            elif op != "gradient":
                wanted["kernel in backends/reference"] = bool(re.search(r"\bOp::" + op + r"\b", reference))
            for what, there in wanted.items():
                if not there:
                    self.error(op, f"has no {what}")

    def run(self):
        self.check_top_level()
        self.check_includes()
        self.check_umbrella()
        self.check_backend_names()
        self.check_length()
        self.check_text()
        self.check_calls()
        self.check_op_tables()
        self.check_ops()
        return self.errors


def is_data(name):
    return "/data/" in name and name.endswith((".csv", ".txt")) or "/corpus/" in name


def include_refusal(name, target):
    """Why the file `name` may not include "target", or None."""
    from_parts, parts = name.split("/"), target.split("/")
    if parts[0] == "tests":
        return "nothing but tests sees tests"
    if name.startswith("core/include/"):
        return None if parts[0] == "unroll" else "a public header includes public headers only"
    if parts[0] == "backends":
        if target == "backends/registry.h" and from_parts[0] == "backends":
            return None
        if from_parts[0] != "backends":
            return "only the registry sees backends"
        if name == "backends/registry.cc" or parts[1] in ("common", from_parts[1], BUILT_ON.get(from_parts[1])):
            return None
        return "a backend sees itself, backends/common and the one it is built on"
    if parts[0] == "frontends":
        return None if from_parts[0] == "frontends" else "frontends is the outermost layer"
    if parts[0] == "core":
        if from_parts[0] == "backends":
            return None if parts[1] == "support" else "a backend sees public headers, backends/common and core/support"
        allowed = CORE_MAY_INCLUDE.get(from_parts[1], set()) | {from_parts[1], "support"}
        if from_parts[0] == "core" and parts[1] not in allowed:
            return "include direction is ir <- autodiff <- passes <- train <- frontends"
    return None


def main():
    checker = Checker(sys.argv[1])
    errors = checker.run()
    for line in checker.warnings:
        print("warning:", line)
    for line in errors:
        print("error:", line)
    print(f"layout: files={len(checker.texts)} errors={len(errors)} warnings={len(checker.warnings)}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
