#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes text_scores.tsv: pairs of texts and, for each line alone and for all lines up to it, the scores of sacrebleu
and rouge-score. Needs `pip install sacrebleu rouge-score`; the tests do not.

A line: text, reference, then bleu, rouge1, rouge2, rougeL of the pair, then bleu of all pairs so far, as repr gives
them.
usage: make_text_scores.py > text_scores.tsv
"""
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
]


def main():
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    for i, (text, reference) in enumerate(PAIRS):
        rouge = scorer.score(reference, text)
        alone = sacrebleu.corpus_bleu([text], [[reference]]).score
        so_far = sacrebleu.corpus_bleu([p[0] for p in PAIRS[:i + 1]], [[p[1] for p in PAIRS[:i + 1]]]).score
        numbers = [alone, *(rouge[k].fmeasure for k in ("rouge1", "rouge2", "rougeL")), so_far]
        print(text, reference, *map(repr, numbers), sep="\t")


main()
