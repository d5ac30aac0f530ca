#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ablation of the full pointer-generator summarizer: what each change is expected to bring, and what it brings here.

usage: bench/summarizer_ablation.py --unroll build/frontends/cli/unroll [--minutes 3] [--threads 2] [--only batch,model]
Expectations are those of a guide to training this model with PyTorch on a laptop GPU of 8 GB; the baseline there takes
1.25 s per pair. `unroll ablation` measures target words per second, and each pair of a row has the same number of them.
An update has 4 pairs in every row, 1 x 4 or 4 x 1, so that all rows pay for the optimizer alike. Memory is the estimate
of a run, which the last column compares with 8 GB.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

from summarizer import CONFIG, SOURCE, TARGET, WORDS, write_pairs

SHORT_TARGET = 150
SMALL, SHORT = "embedding=112,hidden=224", f"source_tokens=512,target_tokens={SHORT_TARGET - 1}"
# word, what it is, expected speedup, changes
CHANGES = [
    ("batch", "batch 4 x 1 instead of 1 x 4", "2.5 - 3.0", "batch=4,accumulate=1"),
    ("lengths", "source 512, target 150", "1.3 - 1.4", SHORT),
    ("model", "embedding 96, hidden 192", "1.15 - 1.2", "embedding=96,hidden=192"),
    ("loading", "a second thread prepares batches", "1.05 - 1.1", "prefetch=2"),
    ("precision", "bf16", "-", "precision=bf16"),
    ("conservative", "all of fast.toml", "2.8 - 3.2", f"batch=4,accumulate=1,prefetch=2,{SMALL},{SHORT}"),
    ("aggressive", "fast.toml in bf16", "4.0 - 4.5",
     f"batch=4,accumulate=1,prefetch=2,precision=bf16,{SMALL},{SHORT}"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unroll", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0, help="for all rows together")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="comma-separated: " + ",".join(word for word, *_ in CHANGES))
    o = parser.parse_args()
    wanted = o.only.split(",") if o.only else [word for word, *_ in CHANGES]
    rows = [row for row in CHANGES if row[0] in wanted]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.toml"
        write_pairs(config.with_name("pairs.tsv"))
        text = CONFIG.format(words=WORDS, source=SOURCE, steps=TARGET - 1, batch=1, chunk=128)
        config.write_text(text + "accumulate = 4\nprefetch = 0\nvalidation_batches = 1\n", encoding="utf-8")
        command = [o.unroll.resolve(), "ablation", config, *(change for *_, change in rows), "--json", "--seeds", 1,
                   "--minutes", o.minutes, "--threads", o.threads, "--set", "data.validation=0.02"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"summarizer_ablation.py: {done.stderr.strip()}")
    found = {row["name"]: row for row in json.loads(done.stdout)["variants"]}

    def pairs_per_second(change):
        return found[change]["items_per_second"]["mean"] / (SHORT_TARGET if SHORT in change else TARGET)

    base = pairs_per_second("baseline")
    print("| change | expected | measured | pairs/s | memory | fits 8 GB |\n" + "|---" * 6 + "|")
    for _, what, expected, change in [("", "baseline", "1", "baseline"), *rows]:
        row = found[change]
        fits = "yes" if row["bytes"] < 8e9 else "no"
        if row["failed"]:
            print(f"| {what} | {expected} | {row['verdict']} | - | {row['bytes'] / 2**30:.2f} GiB | {fits} |")
            continue
        rate = pairs_per_second(change)
        print(f"| {what} | {expected} | {rate / base:.2f} | {rate:.2f} | {row['bytes'] / 2**30:.2f} GiB | {fits} |")


if __name__ == "__main__":
    main()
