#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the prose of README, docs, config meanings, option help and public headers: American spelling, no listed
unclear phrase, no endless sentence.

usage: check_style.py SOURCE_ROOT
"""
import pathlib
import re
import sys

MOST_WORDS = 40  # of one sentence; aim for 20

BRITISH = re.compile(
    r"\b(optimis|normalis|initialis|tokenis|recognis|quantis|regularis|materialis|serialis|parallelis|summaris|"
    r"minimis|maximis|randomis|generalis|standardis|synchronis|visualis|colour|behaviour|neighbour|favour|labell|"
    r"modell|cancell(?!ation)|centre|learnt|analyse)\w*", re.I)

# Phrases that a reader has to decode. Each was once in these texts.
UNCLEAR = [
    "gives on", "at a stand", "apart by", "so many", "has it", "what is odd", "must be had",
    "is told", "are told", "wins", "faster and later", "has been had", "is to be had", "what pays", "held-out tenth",
    "are there for", "what each change", "to blame", "beside the baseline", "what becomes", "a line of numbers in",
    "of its own at most", "all else", "once for all steps", "simple methods", "says so itself",
    "in the place of", "and said to be", "found out", "as they come", "stand in training", "wrong way round",
]
UNCLEAR = re.compile(r"\b(" + "|".join(re.escape(phrase) for phrase in UNCLEAR) + r")\b", re.I)


def paragraphs_of_page(text):
    """(line, words) of each paragraph, list item and table cell of a Markdown page, without code."""
    text = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    block, start = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        fresh = re.match(r"\s*([-*] |\d+\. |#|\||$|<!--)", line)
        if fresh and block:
            yield start, " ".join(block)
            block = []
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                yield number, cell.strip()
        elif line.strip() and not line.startswith("<!--"):
            if not block:
                start = number
            block.append(re.sub(r"^\s*([-*]|\d+\.|#+) ", "", line).strip())


def paragraphs_of_header(text):
    """(line, words) of each comment of a header: neighboring comment lines without code are one."""
    block, start = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        whole = re.match(r"\s*// ?(.*)", line)
        if (not whole or whole[1].startswith("  ")) and block:
            yield start, " ".join(block)
            block = []
        if whole and not whole[1].startswith("  "):
            if not block:
                start = number
            block.append(whole[1])
        elif not whole and "//" in line:
            yield number, line[line.index("//") + 2:].strip()


def strings_of_source(text):
    """(line, words) of each string literal, such as the meanings of config keys."""
    for literal in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
        yield text.count("\n", 0, literal.start()) + 1, literal[1].replace("\\n", ". ")


def plain(text):
    """Inline code counts as one word; a link counts as its text."""
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("**", "")


def sentences(text):
    return re.split(r"(?<=[.!?:;])\s+|\.\.\. ", re.sub(r"\b(e\.g|i\.e|et al|vs|eq)\. ", r"\1 ", text))


def faults(text):
    prose = plain(text)
    for word in BRITISH.finditer(prose):
        yield f"British spelling '{word[0]}'"
    for phrase in UNCLEAR.finditer(prose):
        yield f"unclear phrase '{phrase[0]}'"
    for sentence in sentences(prose):
        words = re.findall(r"[A-Za-z][\w'’-]+|\b[aI]\b", sentence)
        if len(words) > MOST_WORDS:
            yield f"a sentence of {len(words)} words: '{' '.join(words[:8])} ...'"


def main(root):
    pages = [root / "README.md", *sorted((root / "bench").rglob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    headers = sorted((root / "core/include/unroll").rglob("*.h"))
    cli = root / "frontends/cli"
    helps = [root / "frontends/config/config_keys.cc", cli / "options/command_options.cc"]
    helps += sorted((cli / "commands").glob("*.cc"))
    wrong = []
    for path in pages + headers + helps:
        parts = {".h": paragraphs_of_header, ".md": paragraphs_of_page, ".cc": strings_of_source}[path.suffix]
        for number, text in parts(path.read_text()):
            wrong += [f"{path.relative_to(root)}:{number}: {fault}" for fault in faults(text)]
    for fault in wrong:
        print(fault)
    print(f"{len(pages)} pages, {len(headers)} headers, {len(helps)} help files: {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
