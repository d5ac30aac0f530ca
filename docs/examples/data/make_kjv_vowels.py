#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Creates kjv-vowels.tsv from kjv-genesis-mark.txt: pairs of a lowercase phrase without and with vowels.

A phrase is the text between two punctuation marks, 3 to 7 words long. Duplicates are removed.
usage: make_kjv_vowels.py > kjv-vowels.tsv
"""
import pathlib
import re


def main():
    text = (pathlib.Path(__file__).parent / "kjv-genesis-mark.txt").read_text().lower()
    seen = {}
    for phrase in re.split(r"[^a-z' ]+", text.replace("\n", ".")):
        words = re.sub(r"[^a-z ]", "", phrase).split()
        source = " ".join(re.sub("[aeiou]", "", word) for word in words)
        if 3 <= len(words) <= 7 and len(source) > 4:
            seen.setdefault(" ".join(source.split()), " ".join(words))
    for source, target in seen.items():
        print(source, target, sep="\t")


main()
