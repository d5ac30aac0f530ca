#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the compiler cannot: where files are, who includes whom, how long they are, whether every op is complete.

Usage: check_layout.py ROOT. Prints the order of folders and one line per finding; ends with 1 when one of them is an
error.
"""
import fnmatch
import pathlib
import re
import sys

TOP_LEVEL = {"meson.build", "meson_options.txt", "core", "backends", "frontends", "tests", "bench", "docs", "README.md",
             "LICENSE"}
OPTIONAL_TOP_LEVEL = {"subprojects"}  # wrap files only; dotfiles are free
SOURCE = {".cc", ".h", ".cu", ".comp", ".py"}
WARN_LINES, FAIL_LINES, FAIL_COLUMNS = 500, 800, 120  # of tests
FAIL_SOURCE_LINES = 400  # of other files
BINDING = re.compile(r"( *)for \(.*\bauto&? \[([^]]+)\] :")
GENERATED = ("_generated.h", "_generated.cc")

# The rooms of core, bottom up: each may include itself and those before it. core/include/unroll/ROOM holds the public
# headers that core/ROOM implements; unroll.h includes all of them but BACKEND_HEADERS.
ROOMS = ["support", "io", "parallel", "ir", "nn", "autodiff", "passes", "train", "data", "model", "tasks"]
PUBLIC = "core/include/unroll/"
# Read by passes and backends, not by programs that use the library.
BACKEND_HEADERS = {"ir/per_node.h", "ir/row_sums.h", "ir/strided_read.h", "passes/plan_hash.h",
                   "passes/product_groups.h", "passes/scan_form.h", "passes/work.h"}
BACKENDS_MAY_SEE = {"support", "parallel", "ir", "passes"}
# Folders of frontends: the other folders of frontends that each may include.
FRONTENDS_MAY_INCLUDE = {"checkpoint": set(), "onnx": set(), "config": set(), "c": set(),
                         "python": {"checkpoint", "config"},
                         "cli": {"config", "checkpoint", "onnx"}}
MOST_FILES = 20  # of a folder
# Private headers of core that frontends use, besides core/support.
FRONTENDS_SEAM = {
    "core/data/corpus/text_column.h", "core/data/file/gzip.h", "core/data/text/encoding.h",
    "core/data/text/entry_lines.h", "core/io/npy_header.h", "core/io/safetensors_header.h", "core/ir/input_range.h",
    "core/passes/forwarding_backend.h", "core/tasks/common/split_records.h", "core/train/advice/baseline_advice.h",
    "core/train/device/options.h", "core/train/device/plan_training.h", "core/train/update/loss_weight.h",
    "core/train/update/update_graph.h", "core/train/verify/exposed_values.h",
}
# A backend that runs what it does not claim as another one does.
BUILT_ON = {"onednn": "cpu"}
SHARED_BY_BACKENDS = ("common", "device")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# Written so that this file does not find itself.
PLACES = re.compile(r"(?<![\w.~}])/(?:work|home|root)/\w|local" r"host|127\.0\.0\.1|artifact" r"ory|/tm" r"p/\w")
MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
# Such a table overflows when an op is appended: core/ir/ops/op_map.h has the size of the op table.
SIZED_BY_AN_OP = re.compile(r"\(Op::\w+\)\s*\+\s*1\b")
ENDS_PROCESS = re.compile(r"(?<![\w.>])(?:std::)?(abort|exit|_Exit|quick_exit|terminate|assert)\s*\(")
OPENS_NAMESPACE = re.compile(r"namespace ([\w:]+) \{")
DEFINES_TYPE = re.compile(r"(?:class|struct|enum class)(?: UNROLL_\w*API)? (\w+)\b(?!::)[^;(]*\{")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def room_of(name):
    """The room of a file of core, or None: of a public header that of its folder, of unroll.h none."""
    parts = name.removeprefix(PUBLIC).split("/") if name.startswith(PUBLIC) else name.split("/")[1:]
    return parts[0] if len(parts) > 1 else None


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
                if target.startswith("unroll/") and path_of(target) not in self.texts:
                    self.error(name, f'includes "{target}": there is no such public header')
        for name, target, reason in self.back_edges():
            self.error(name, f'includes "{target}": {reason}')

    def back_edges(self):
        """Includes that go against the order of the rooms, as (file, target, reason)."""
        edges = []
        for name, text in self.sources.items():
            if not name.startswith(("core/", "backends/", "frontends/")):
                continue
            for target in INCLUDE.findall(COMMENT.sub("", text)):
                reason = include_refusal(name, target)
                if reason:
                    edges.append((name, target, reason))
        return edges

    def includes(self):
        """(file, file that it includes) of the library and its frontends."""
        for name, text in self.sources.items():
            if name.startswith(("core/", "backends/", "frontends/")):
                for target in INCLUDE.findall(COMMENT.sub("", text)):
                    if path_of(target) in self.texts:
                        yield name, path_of(target)

    def cycles(self):
        """Sets of files that include each other, a source and its header taken as one, without suffix."""
        return cycles_of((stem(name), stem(target)) for name, target in self.includes())

    def folder_cycles(self):
        return cycles_of((folder_of(name), folder_of(target)) for name, target in self.includes())

    def folder_order(self):
        """The folders level by level: each includes only folders of the levels before its own."""
        below = {}
        for name, target in self.includes():
            below.setdefault(folder_of(name), set()).add(folder_of(target))
            below.setdefault(folder_of(target), set())
        levels, placed = [], set()
        while len(placed) < len(below):
            level = sorted(f for f in below.keys() - placed if below[f] - {f} <= placed)
            if not level:
                break  # a cycle, which is an error of its own
            levels.append(level)
            placed.update(level)
        return levels

    def check_cycles(self):
        for kind, groups in (("includes", self.cycles()), ("folders", self.folder_cycles())):
            for group in sorted(sorted(group) for group in groups):
                self.error(group[0], f"is in a cycle of {kind}: {', '.join(group)}")

    def check_umbrella(self):
        umbrella = PUBLIC + "unroll.h"
        for name in self.sources:
            if name.startswith(PUBLIC) and name != umbrella and room_of(name) not in ROOMS:
                self.error(name, f"stands in no room of {PUBLIC}: {', '.join(ROOMS)}")
            elif name.startswith(PUBLIC) and name.endswith(".h") and name != umbrella:
                is_included = name[len("core/include/"):] in self.reached_from(umbrella, "unroll/tasks/")
                if is_included == (name[len(PUBLIC):] in BACKEND_HEADERS):
                    self.error(umbrella, f"{'includes' if is_included else 'does not include'} {name[len(PUBLIC):]}")

    def reached_from(self, name, through):
        """What a public header includes, itself or through headers whose names begin with `through`."""
        found, waiting = set(), [name]
        while waiting:
            for header in INCLUDE.findall(self.texts.get(waiting.pop(), "")):
                if header not in found:
                    found.add(header)
                    waiting += [f"core/include/{header}"] if header.startswith(through) else []
        return found

    def check_backend_names(self):
        names = {p.name for p in (self.root / "backends").iterdir() if p.is_dir()}
        names -= set(SHARED_BY_BACKENDS)
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
            most = FAIL_LINES if name.startswith("tests/") else FAIL_SOURCE_LINES
            if len(lines) > most:
                self.error(name, f"has {len(lines)} lines, at most {most}")
            elif len(lines) > WARN_LINES:
                self.warnings.append(f"{name}: has {len(lines)} lines, better at most {WARN_LINES}")
        for name, text in self.texts.items():
            if not (name in self.sources or is_script(name)) or name.endswith(GENERATED):
                continue
            for i, line in enumerate(text.splitlines()):
                if len(line) > FAIL_COLUMNS:
                    self.error(f"{name}:{i + 1}", f"has {len(line)} columns, at most {FAIL_COLUMNS}")

    def check_rooms(self):
        folders = {}
        for name in self.sources:
            if name.startswith(("core/", "backends/", "frontends/")):
                folders.setdefault(name.rsplit("/", 1)[0], []).append(name)
        for folder, names in folders.items():
            if len(names) > MOST_FILES:
                self.error(folder, f"has {len(names)} files, at most {MOST_FILES}")

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
            if name.startswith(("core/", "backends/")):
                found = ENDS_PROCESS.search(self.code_of(name))
                if found:
                    self.error(name, f"calls {found.group(1)}: the library throws Error and never ends the process")

    def check_captures(self):
        for name in self.sources:
            lines = self.code_of(name).splitlines()
            for i, line in enumerate(lines):
                bound = BINDING.match(line)
                names = "|".join(re.findall(r"\w+", bound.group(2))) if bound else ""
                for behind in lines[i + 1:] if names else []:
                    if behind.strip() and len(behind) - len(behind.lstrip()) <= len(bound.group(1)):
                        break
                    if re.search(rf"\b(CAPTURE|INFO)\(.*(?<![\w.])({names})\b", behind):
                        self.error(f"{name}:{i + 1}", "clang 14 captures no structured binding: "
                                                      "CAPTURE and INFO take a variable or a member")
                        break

    def check_type_names(self):
        """Two types of one name in a program share their inline functions: the linker keeps those of one."""
        places = {}
        for name in sorted(self.sources):
            if not name.endswith(".h"):
                continue
            for space, kind in set(types_of(self.code_of(name))):
                places.setdefault((space, kind), []).append(name)
        for (space, kind), names in places.items():
            library = [n for n in names if not n.startswith("tests/")]
            if library and len(names) > 1:
                self.error(names[-1], f"defines {space}::{kind}, as {names[0]} does")

    def check_op_tables(self):
        for name in self.sources:
            if SIZED_BY_AN_OP.search(self.code_of(name)):
                self.error(name, "sizes a table by the name of an op: use core/ir/ops/op_map.h")

    def check_ops(self):
        rows = rows_of(self.texts["core/include/unroll/ir/op_table.def"])
        if not rows:
            self.error("core/include/unroll/ir/op_table.def", "has no rows this script can read")
        shape_rules = self.joined(r"core/ir/shapes/shape_rules\w*\.cc")
        gradients = self.joined(r"core/autodiff/rules_\w+\.cc")
        reference = self.joined(r"backends/reference/\w+\.cc")
        bodies = self.joined(r"core/ir/composites/\w+\.cc")
        cases = self.joined(r"tests/conformance/cases_\w+\.cc")
        reference_page = self.texts.get("docs/conventions.md", "")
        for op, tier, has_rule, gradient in rows:
            row = re.compile(r"\{Op::" + op + r",")
            word = re.compile(r"\b" + op + r"\b")
            wanted = {
                "case in tests/conformance/cases_*.cc": bool(word.search(cases)) or op == "gradient",
                "line in the op reference of docs/conventions.md": f"`{op}`" in reference_page,
            }
            if tier == "composite":
                wanted["row in core/ir/composites"] = bool(row.search(bodies))
            elif op != "gradient":
                wanted["kernel in backends/reference"] = bool(re.search(r"\bOp::" + op + r"\b", reference))
            if not has_rule:
                wanted["shape rule in core/ir/shapes/shape_rules*.cc"] = bool(row.search(shape_rules))
            if gradient == "yes" and tier != "composite":
                wanted["gradient row in core/autodiff/rules_*.cc"] = bool(row.search(gradients))
            elif row.search(gradients):
                self.error(op, "has a gradient row but says none in the table")
            for what, there in wanted.items():
                if not there:
                    self.error(op, f"has no {what}")

    def run(self):
        self.check_top_level()
        self.check_includes()
        self.check_cycles()
        self.check_umbrella()
        self.check_backend_names()
        self.check_length()
        self.check_rooms()
        self.check_text()
        self.check_calls()
        self.check_captures()
        self.check_type_names()
        self.check_op_tables()
        self.check_ops()
        return self.errors


def types_of(code):
    """(namespace, type) of what a header defines outside of other types."""
    space = []
    for line in code.splitlines():
        if opened := OPENS_NAMESPACE.match(line):
            space.append(opened.group(1))
        elif line.startswith("}") and not line.startswith("};") and space:
            space.pop()
        elif defined := DEFINES_TYPE.match(line):
            yield "::".join(space), defined.group(1)


def rows_of(table):
    """(name, tier, the row has the shape rule, gradient) of each op of op_table.def."""
    table = re.sub(r"^#define[^\n]*(?:\\\n[^\n]*)*", "", COMMENT.sub("", table), flags=re.M)
    rows = []
    for macro, name, columns in re.findall(r"^UNROLL_(\w+)\((\w+),\s*([^()]*)", table, re.M):
        columns = [c.strip() for c in columns.split(",")]
        if macro == "OP":
            tier, kind, gradient = columns[0], columns[1], columns[4]
            rows.append((name, tier, tier == "composite" or kind in ("binary", "compare", "logical"), gradient))
        elif macro in ("UNARY", "BINARY"):
            rows.append((name, "primitive", True, columns[1]))
        elif macro == "COMPOSITE":
            rows.append((name, "composite", True, columns[2]))
    return rows


def is_data(name):
    return "/data/" in name and name.endswith((".csv", ".txt")) or "/corpus/" in name


def stem(name):
    return name.rsplit(".", 1)[0]


def strongly_connected(edges):
    """The strongly connected components of a graph {node: its successors} (Tarjan 1972)."""
    index, low, stack, groups = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            groups.append(stack[at:])
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return groups


def path_of(target):
    return f"core/include/{target}" if target.startswith("unroll/") else target


def folder_of(name):
    return name.rsplit("/", 1)[0]


def cycles_of(pairs):
    edges = {}
    for name, target in pairs:
        if name != target:
            edges.setdefault(name, set()).add(target)
    return [frozenset(group) for group in strongly_connected(edges) if len(group) > 1]


def include_refusal(name, target):
    """Why the file `name` may not include "target", or None."""
    from_parts, parts = name.split("/"), target.split("/")
    refuse = {"unroll": core_refusal, "core": core_refusal, "backends": backend_refusal, "frontends": frontend_refusal}
    if parts[0] == "tests":
        return "nothing but tests sees tests"
    if name.startswith(PUBLIC) and parts[0] != "unroll":
        return "a public header includes public headers only"
    return refuse[parts[0]](name, from_parts, target, parts) if parts[0] in refuse else None


def core_refusal(name, from_parts, target, parts):
    room, is_public = room_of(path_of(target)), parts[0] == "unroll"
    if from_parts[0] == "backends":
        seen = BACKENDS_MAY_SEE if is_public else {"support", "parallel"}
        return None if room in seen else "a backend sees public headers, core/support and core/parallel"
    if from_parts[0] == "frontends":
        known = is_public or room == "support" or target in FRONTENDS_SEAM
        return None if known else "frontends see public headers, core/support and FRONTENDS_SEAM"
    own = room_of(name)
    if from_parts[0] != "core" or own not in ROOMS or room not in ROOMS or ROOMS.index(room) <= ROOMS.index(own):
        return None
    return f"the order of rooms is {' <- '.join(ROOMS)}"


def backend_refusal(name, from_parts, target, parts):
    if from_parts[0] != "backends":
        return "only the registry sees backends"
    seen = (*SHARED_BY_BACKENDS, from_parts[1], BUILT_ON.get(from_parts[1]))
    if target == "backends/registry.h" or name == "backends/registry.cc" or parts[1] in seen:
        return None
    return "a backend sees itself, what backends share and the one it is built on"


def frontend_refusal(name, from_parts, target, parts):
    if from_parts[0] != "frontends":
        return "frontends is the outermost layer"
    seen = FRONTENDS_MAY_INCLUDE.get(from_parts[1], set()) | {from_parts[1]}
    return None if parts[1] in seen else f"frontends/{from_parts[1]} sees of frontends only {', '.join(sorted(seen))}"


def main():
    checker = Checker(sys.argv[1])
    errors = checker.run()
    for n, level in enumerate(checker.folder_order(), 1):
        print(f"level {n}:", *level)
    for line in checker.warnings:
        print("warning:", line)
    for line in errors:
        print("error:", line)
    print(f"layout: files={len(checker.texts)} errors={len(errors)} warnings={len(checker.warnings)}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
