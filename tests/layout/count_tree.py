#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts how large and how readable the tree is, and holds the limits of LIMITS.

Usage: count_tree.py [--list WHAT] ROOT. Prints a table; --list prints the places of one row, such as "prose" or
"casts", and the counts by folder. Ends with 1 where a count is above its limit. A limit only ever goes down.
"""
import collections
import re
import sys

import check_layout
import count_changes

# A comment that opens like this describes a thing instead of naming it (docs/conventions.md, "Prose").
RIDDLE = re.compile(r"(?:What|Which|Whether|Where|How|Of)\b")
SENTENCE = re.compile(r"(?<=[.:;?!])\s+(?=[A-Z`])")
CAST = re.compile(r"static_cast<std::size_t>")
# Names that the field has other words for, with those words.
NAMES = {
    r"\w*[Ll]ever\w*": "ablation", r"\w*[Jj]udg\w*": "verifier, reference", r"\w*\b(?:Team|Lockstep)\b": "thread pool",
    r"(?:Rates|usual_rates)": "machine model", r"(?:next_)?site": "RNG stream", r"(?:DocumentReader)": "classifier",
    r"(?:Moment|go_back)": "snapshot", r"\w*[Rr]esidents\w*|Residency": "persistent buffers", r"UpdateRecipe": "config",
    r"\w*[Rr]ow_group\w*": "fused reduction", r"leaves": "micro-batch, partial sum",
    r"own_(?:loop|options|option)": "custom, backend-specific", r"(?:Stack)": "skip connection",
}
BANNED = re.compile(r"(?<![\w\"./-])(?:" + "|".join(NAMES) + r")(?![\w\"./-])")
FOLDERS = re.compile(r"(?:^|/)(?:answers|page|measure|deploy|study|diagnose|calls|choices|loops)(?:/|$)")
LONGEST = 50  # lines of a function
CONTROL = re.compile(r"\b(?:if|for|while|switch|catch|do|else)\b[^;{}]*$")
HEAD = re.compile(r"\)\s*(?:const|noexcept|override|final|mutable|&|->[^;{}()]*)*\s*$")
INITIALIZERS = re.compile(r"\)\s*(?:noexcept\s*)?:\s[^;]*$", re.S)
LITERAL = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*(?:.|\n)*?\*/')

LIMITS = {"lines outside tests": 127000, "folders in cycles": 0, "long functions": 0, "casts": 150, "prose": 0,
          "names": 0, "folder names": 0}


def comments_of(text):
    """(line, text) of each comment: lines of // that follow each other are one; a comment behind code is its own."""
    found, lines = [], text.splitlines()
    for i, line in enumerate(lines):
        at = line.find("//")
        if at < 0 or line[:at].count('"') % 2 or "SPDX" in line:
            continue
        own = not line[:at].strip()
        words = line[at + 2:].strip()
        if own and found and found[-1][2] and found[-1][0] + found[-1][3] == i:
            found[-1][1] += " " + words
            found[-1][3] += 1
        else:
            found.append([i, words, own, 1])
    return [(i + 1, words) for i, words, _, _ in found]


def riddles_of(name, text):
    for line, words in comments_of(text):
        for sentence in SENTENCE.split(words):
            if RIDDLE.match(sentence):
                yield f"{name}:{line}: {sentence[:80]}"


def blanked(text):
    """The code with literals and comments as blanks, line by line as before."""
    return LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def long_functions_of(name, text):
    code, open_braces, start = blanked(text), [], 0
    for at, c in enumerate(code):
        if c == "{":
            before = code[start:at]
            head = before.rstrip()
            is_function = not CONTROL.search(head) and bool(HEAD.search(head) or INITIALIZERS.search(head))
            is_function = is_function and "]" not in head[head.rfind("\n") + 1:].split("(")[0]
            open_braces.append((at, is_function and not any(f for _, f in open_braces)))
        elif c == "}" and open_braces:
            begin, is_function = open_braces.pop()
            lines = code.count("\n", begin, at) + 1
            if is_function and lines > LONGEST:
                yield f"{name}:{code.count(chr(10), 0, begin) + 1}: {lines} lines"
        if c in ";{}":
            start = at + 1


def names_of(name, code):
    for i, line in enumerate(code.splitlines(), 1):
        for found in BANNED.finditer(line):
            yield f"{name}:{i}: {found.group(0)}"


def casts_of(name, text):
    for m in CAST.finditer(check_layout.COMMENT.sub("", text)):
        yield f"{name}:{text.count(chr(10), 0, m.start()) + 1}"


# Rows that look at each file: what finds their places, given a file's name and text.
BY_FILE = {"long functions": long_functions_of, "casts": casts_of, "prose": riddles_of,
           "names": lambda name, text: names_of(name, blanked(text))}


def places_of(row, root, files):
    if row in BY_FILE:
        return [place for name, text in files.items() for place in BY_FILE[row](name, text)]
    if row == "folders in cycles":
        return [folder for group in check_layout.Checker(root).folder_cycles() for folder in group]
    if row == "folder names":
        return sorted({check_layout.folder_of(n) for n in files if FOLDERS.search(check_layout.folder_of(n))})
    return [f"{name}:{n}" for name, text in files.items() for n in range(1, text.count("\n") + 1)]


def main():
    root = sys.argv[-1]
    files = {n: t for n, t in count_changes.files_of(root).items() if not n.endswith("meson.build")}
    if "--list" in sys.argv:
        found = places_of(sys.argv[sys.argv.index("--list") + 1], root, files)
        print(*found, sep="\n")
        folders = collections.Counter(check_layout.folder_of(place.split(":")[0]) for place in found)
        print(*(f"{n:6} {folder}" for folder, n in folders.most_common()), sep="\n")
        return 0
    failed = False
    for row, limit in LIMITS.items():
        count = len(places_of(row, root, files))
        failed |= count > limit
        print(f"{row:24}{count:8}  at most {limit}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
