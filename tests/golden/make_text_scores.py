#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes text_scores.tsv.gz: pairs of texts with the scores of sacrebleu 2.6 and rouge-score 0.1.2. Needs
`pip install sacrebleu rouge-score`; the tests do not.

A line: text, reference, the numbers of the pair, then BLEU and chrF of all pairs so far. Numbers of a pair: BLEU, chrF;
precision, recall and F of ROUGE-1, ROUGE-2 and ROUGE-L; the same nine with stemming.
usage: make_text_scores.py DESCRIPTIONS.tsv.gz OUTPUT.tsv.gz
"""
import gzip
import random
import sys

import sacrebleu
from rouge_score import rouge_scorer

PAIRS = [
    ("In the beginning God created the heaven and the earth.",
     "In the beginning God created the heaven and the earth."),
    ("In the begining God made heaven and earth", "In the beginning God created the heaven and the earth."),
    ("the the the the the the the", "the cat is on the mat"),
    ("And God said, Let there be light: and there was light.",
     "God said: \"Let there be light\"; and there was light."),
    ("It costs 1,234.50 dollars, or 3.5% more (about 10-12).", "It costs 1,234.5 dollars or 3.5 % more (ca. 10-12)!"),
    ("nothing in common here at all", "quite another sentence, this"),
    ("one", "one"),
    ("one two three", "one two three four five six seven"),
    ("a b c d e f g h", "h g f e d c b a"),
    ("&quot;R&amp;D&quot; <skipped> costs $5...", "\"R&D\" costs $5,..."),
    ("caf\u00e9 na\u00efve \u2014 it's", "cafe na\u00efve -- it's"),
    ("", "an empty answer"),
    ("...", ",,,"),
    ("e.g. U.S.A., 3,000.", "e.g. U.S.A. , 3,000 ."),
    ("And the evening and the morning were the second day", "And the evening and the morning were the first day."),
    ("a\u3000b\u00a0c\u2003d", "a b c d"),
    ("\u0130stanbul 300\u212a", "i stanbul 300k"),
    ("skies dying tied flies agreed hopping falling fizzed sized", "sky die tie fly agree hop fall fizz size"),
    ("relational conditionally vietnamization analogously hopefulness",
     "relate condition vietnam analogi hopeful formally"),
    ("adjustable revival homologous effective bowdlerize rolled controlling",
     "adjust reviv homologou effect bowdlerise roll control"),
    ("inning innings news howe proceeds succeed canning oxen ad ing ied lies",
     "innings inning new how proceed succeeding can ox add ings ies lie"),
]


def changed(words, draw):
    """Drops, repeats and swaps words, so that n-grams are lost, gained and clipped."""
    words = [w for w in words if draw.random() > 0.15]
    words = [w for w in words for _ in range(1 + (draw.random() < 0.1))]
    for _ in range(len(words) // 5):
        i, j = draw.randrange(len(words)), draw.randrange(len(words))
        words[i], words[j] = words[j], words[i]
    return words


def pairs_of(path, n):
    draw = random.Random(1)
    rows = [line.rstrip("\n").split("\t") for line in gzip.open(path, "rt", encoding="utf-8")]
    for row in draw.sample([r for r in rows if len(r) >= 3], n):
        words = row[1].split()[:draw.randrange(1, 16)]
        if draw.random() < 0.5:
            words = changed(row[2].split(), draw) + words[:2]
        yield " ".join(words), row[2]


def main():
    pairs = PAIRS + list(pairs_of(sys.argv[1], 1000 - len(PAIRS)))
    kinds = ["rouge1", "rouge2", "rougeL"]
    scorers = [rouge_scorer.RougeScorer(kinds, use_stemmer=stem) for stem in (False, True)]
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    with gzip.GzipFile(sys.argv[2], "wb", mtime=0) as file:
        sums = None
        for text, reference in pairs:
            bleu_counts = bleu._extract_corpus_statistics([text], [[reference]])[0]
            chrf_counts = chrf._extract_corpus_statistics([text], [[reference]])[0]
            both = [bleu_counts, chrf_counts]
            sums = both if sums is None else [[a + b for a, b in zip(x, y)] for x, y in zip(sums, both)]
            numbers = [bleu.corpus_score([text], [[reference]]).score, chrf.corpus_score([text], [[reference]]).score]
            for scorer in scorers:
                scores = scorer.score(reference, text)
                numbers += [v for k in kinds for v in (scores[k].precision, scores[k].recall, scores[k].fmeasure)]
            numbers += [bleu._aggregate_and_compute([sums[0]]).score, chrf._aggregate_and_compute([sums[1]]).score]
            file.write("\t".join([text, reference, *(f"{x:.9g}" for x in numbers)]).encode() + b"\n")


main()
