#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes kjv-vowels.tsv of kjv-genesis-mark.txt: phrases in small letters, the same without their vowels in front.

A phrase is what stands between two marks, 3 to 7 words of it; each is taken once.
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
