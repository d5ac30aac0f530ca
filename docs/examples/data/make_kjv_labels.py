#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Creates kjv-restore.tsv from kjv-genesis-mark.txt: the lowercase words of each verse with their capitals and marks.

A label is x (unchanged), X (capitalized) or XX (all capitals), followed by the punctuation mark after the word, if any.
usage: make_kjv_labels.py [VERSES] > kjv-restore.tsv
"""
import pathlib
import re
import sys

WORD = re.compile(r"([A-Za-z][A-Za-z'-]*)([,.:;?!]?)")


def label(word, mark):
    capitals = "XX" if len(word) > 1 and word.isupper() else "X" if word[0].isupper() else "x"
    return capitals + mark


def main():
    verses = (pathlib.Path(__file__).parent / "kjv-genesis-mark.txt").read_text().splitlines()
    for verse in verses[:int(sys.argv[1]) if len(sys.argv) > 1 else None]:
        for word, mark in WORD.findall(verse):
            print(word.lower(), label(word, mark), sep="\t")
        print()


main()
