#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Creates kjv-books.tsv from kjv-genesis-mark.txt: passages of four verses, labeled with their part of the book.

Genesis has three parts, split after verse 299 (nations of chapter 11) and verse 1,084 (before Joseph). The labels are
beginnings, fathers, joseph and mark. Capitalized words within a sentence (mostly names) are removed, because they would
identify the part on their own.
usage: make_kjv_books.py VERSES_OF_GENESIS > kjv-books.tsv   (1533)
"""
import pathlib
import re
import sys


def main():
    verses = (pathlib.Path(__file__).parent / "kjv-genesis-mark.txt").read_text().splitlines()
    genesis = int(sys.argv[1])
    ends = {"beginnings": 299, "fathers": 1084, "joseph": genesis, "mark": len(verses)}
    begin = 0
    for label, end in ends.items():
        for at in range(begin, end - 3, 4):
            # A verse that ends with a comma or a colon goes on in the next: it ends with a full stop here.
            text = [re.sub(r"[^.!?]$", ".", verse.strip()) for verse in verses[at:at + 4]]
            plain = [re.sub(r"(?<=[a-z,;:] )[A-Z][\w']*", "", verse) for verse in text]
            print(label, " ".join(" ".join(plain).split()), sep="\t")
        begin = end


main()
