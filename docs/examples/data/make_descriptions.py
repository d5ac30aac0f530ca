#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws debian-descriptions.tsv.gz, a sample of the package descriptions of Debian 12 and their synopses.

    python make_descriptions.py ALL.tsv.gz

ALL.tsv.gz has a line `split<TAB>description<TAB>synopsis` per package of Debian 12 (main), in which packages whose
descriptions begin alike are in one split. The sample has 10,000 training, 300 validation and 300 test rows, without
descriptions of more than 800 characters.
"""
import gzip
import pathlib
import random
import sys

SIZES, LONGEST = {"train": 10000, "validation": 300, "test": 300}, 800
rows = {split: [] for split in SIZES}
with gzip.open(sys.argv[1], "rt", encoding="utf-8") as lines:
    for line in lines:
        split, description, _ = line.split("\t")
        if len(description) <= LONGEST:
            rows[split].append(line)
draw = random.Random(0)
sample = "".join(line for split, size in SIZES.items() for line in draw.sample(rows[split], size))
path = pathlib.Path(__file__).parent / "debian-descriptions.tsv.gz"
path.write_bytes(gzip.compress(sample.encode(), 9, mtime=0))
print(path.name, path.stat().st_size, "bytes")
