#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what a change costs: the files that name one example of a kind are those that adding another must touch.

Usage: count_changes.py [--list] [--limits] ROOT. Prints a table; --list names the files; with --limits it ends with 1
where a count is above the limit that LIMITS has for it. Tests and docs are not counted; build files are.

A file counts where it declares or dispatches the example by its identifier or as a word of a table. MENTIONS has the
files that only use a name: what they say would still be right without it.
"""
import pathlib
import re
import statistics
import sys

import check_layout

COUNTED = re.compile(r"^(core|backends|frontends)/.*(\.(cc|h|def|cu|comp)|meson\.build)$")
# A backend that runs ops by kernels of its own: counted apart, one file each.
FAST_BACKENDS = re.compile(r"^backends/(?!common/|reference/)")
# Hints at commands and keys by the words of other tools; the loss by which changes are compared; formats that refuse by
# name the ops that they lack.
MENTIONS = {"frontends/cli/options/mistakes.cc", "frontends/config/key_names.cc", "core/train/experiments/ablation.cc",
            "frontends/onnx/write/emit_plain.cc"}
# Where the word is a column, a list of header words or a distance in a drawing, and not the task.
OTHER_SENSE = {"label": {"frontends/cli/report/plan_picture.cc", "frontends/cli/tasks/task_row.cc",
                         "core/data/corpus/pairs.cc", "core/tasks/classify/classify.cc"}}
# What stands in a config of many keys as one line each, and is no part of reading them.
SETS_MANY = {"frontends/cli/commands/new.cc"}


def op(name):
    return re.compile(rf"\bOp::{name}\b|UNROLL_(?:OP|UNARY|BINARY|COMPOSITE)\({name}\b|\bValue {name}\(")


def command(name):
    # add_explain adds the option --explain of other commands
    adds = f"add_{name}_command" if name == "explain" else f"add_{name}"
    return re.compile(rf"\b{adds}\b|\b{name}_command\b|'{name}\.cc'|UNROLL_COMMAND\({name}\b")


def key(path, field):
    return re.compile(rf"\"{re.escape(path)}\"|\b{field}\b")


def task(name, title, *own):
    dispatched = rf"== \"{name}\"|\{{\"{name}\", [\"&\w]|\bX\({name}\b|'(tasks/|{name}/)?{name}\w*\.cc'"
    return re.compile(rf"\bk_{name}\b|\bmake_{name}\b|\b{title}Options\b|{dispatched}|\b{name}_(\w+_)?(options|row)\b|"
                      rf"\b({'|'.join(own)})\b")


# kind: examples, each with the pattern that finds it
KINDS = {
    "primitive": {name: op(name) for name in ("sign", "log1p", "erf", "argmax")},
    "composite": {name: op(name) for name in ("mse", "mae", "huber", "pinball", "bce")},
    "task": {  # not forecast, summarize and language_model, which have files for readers and samplers of their own
        "label": task("label", "Label", "Labeler", "LabelNetwork"),
        "document": task("document", "Document", "DocumentReader", "DocumentNetwork"),
        "classify": task("classify", "Classify", "Classifier"),
        "regress": task("regress", "Regress", "Regressor"),
        "translate": task("translate", "Translate", "Translator"),
    },
    "config key": {
        path: key(path, path.split(".")[1])
        for path in ("train.max_rollbacks", "train.watch_every", "train.sampling_batches", "train.validation_batches",
                     "model.temporal_penalty", "data.document_start", "data.carry_state", "run.tensorboard",
                     "train.min_lr")
    },
    "command": {},  # every one, see commands_of
    "pass": {name: re.compile(rf"\b{name}\b|'{name}\.cc'")
             for name in ("sink_slices", "chunk_scans", "fold", "defer", "inline_steps")},
}
LIMITS = {
    "files to add a primitive": 5, "files to add a composite": 2, "files to add a task": 6,
    "files to add a config key": 2, "files to add a command": 2, "files to add a pass": 3,
    "back edges": 0, "cycles of includes": 0, "folders in cycles": 0,
}


def files_of(root):
    top = pathlib.Path(root).resolve()
    files = {}
    for folder in ("core", "backends", "frontends"):
        for path in check_layout.files_of([top / folder]):
            name = path.relative_to(top).as_posix()
            if COUNTED.match(name) and not name.endswith(check_layout.GENERATED):
                files[name] = path.read_text(encoding="utf-8")
    return files


def commands_of(files):
    text = "\n".join(t for n, t in files.items() if n.startswith("frontends/cli/"))
    return {name: command(name) for name in sorted(set(re.findall(r"^UNROLL_COMMAND\((\w+)\)$", text, re.M)))}


# Where the places of a kind can be.
PLACES = {"command": "frontends/cli/", "pass": "core/"}


def touched(code, kind, example, pattern):
    found, part = [], example.rsplit(".", 1)[-1].lower()[:5]
    for name, text in code.items():
        if name in MENTIONS or name in OTHER_SENSE.get(example, ()):
            continue
        if not name.startswith(PLACES.get(kind, "")) or kind == "config key" and name in SETS_MANY:
            continue
        own = kind == "command" and name == f"frontends/cli/commands/{example}.cc"
        own |= kind == "task" and name.startswith(f"core/tasks/{example}/")
        if own or part in text.lower() and pattern.search(text):
            found.append(name)
    return sorted(found)


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    root = next(a for a in sys.argv[1:] if not a.startswith("--"))
    files = files_of(root)
    code = {name: check_layout.COMMENT.sub("", text) for name, text in files.items()}
    rows = []
    for kind, examples in KINDS.items():
        counts = []
        for example, pattern in (examples or commands_of(code)).items():
            names = touched(code, kind, example, pattern)
            if not names:
                continue
            fast = [n for n in names if FAST_BACKENDS.match(n)] if kind in ("primitive", "composite") else []
            counts.append(len(names) - len(fast))
            if "--list" in options:
                print(f"{kind} {example}: {len(names) - len(fast)}+{len(fast)}", *names, sep="\n  ")
        rows.append((f"files to add a {kind}", statistics.median_high(counts), f"{min(counts)} to {max(counts)}"))
    checker = check_layout.Checker(root)
    sources = {n: t for n, t in files.items() if not n.endswith("meson.build")}
    folders = {}
    for name in sources:
        folders.setdefault(name.rsplit("/", 1)[0], []).append(name)
    largest = max(sources, key=lambda n: sources[n].count("\n"))
    fullest = max(folders, key=lambda f: len(folders[f]))
    rows.append(("back edges", len(checker.back_edges()), ""))
    rows.append(("cycles of includes", len(checker.cycles()), ""))
    rows.append(("folders in cycles", sum(map(len, checker.folder_cycles())), ""))
    rows.append(("lines of the largest file", sources[largest].count("\n"), largest))
    rows.append(("files of the fullest folder", len(folders[fullest]), fullest))
    rows.append(("folders of more than 20 files", sum(len(names) > 20 for names in folders.values()), ""))
    rows.append(("lines outside tests", sum(t.count("\n") for t in sources.values()), ""))
    for part in ("core", "backends", "frontends"):
        rows.append((f"  {part}", sum(t.count("\n") for n, t in sources.items() if n.startswith(part)), ""))
    failed = False
    for what, count, detail in rows:
        limit = LIMITS.get(what) if "--limits" in options else None
        failed |= limit is not None and count > limit
        print(f"{what:34}{count:8}  {detail}" + (f"  at most {limit}" if limit is not None else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
