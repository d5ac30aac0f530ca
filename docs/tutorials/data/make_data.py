#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write reviews.tsv, temperature.csv and stores.csv beside this file, the same bytes each time.

usage: make_data.py

reviews.tsv: 900 short generated reviews of coffee machines, `label<TAB>text`. temperature.csv: daily highs in Seattle
(docs/examples/data/seattle-weather.csv) with 25 days left out and 12 empty cells, as files from a logger have them.
stores.csv: generated monthly sales of 20 stores of different size and age, in long format.
"""
import csv, math, pathlib, random

HERE = pathlib.Path(__file__).parent
PARTS = ["the grinder", "the milk frother", "the water tank", "the display", "the delivery", "the support team",
         "the lid",
         "the manual", "the drip tray", "the filter"]
GOOD = ["works perfectly", "is easy to clean", "feels solid", "is better than I hoped", "never lets me down",
        "is quiet and quick", "was a pleasant surprise", "is worth every cent"]
BAD = ["broke after a week", "leaks all over the counter", "is far too loud", "feels cheap", "stopped working",
       "is impossible to clean", "was a big disappointment", "is a waste of money"]
PLAIN = ["We bought it in March.", "It came in a brown box.", "My sister has the older model.",
         "It stands next to the sink.",
         "We drink three cups a day.", "The color is black.", "It replaced a machine from 2015."]
ENDINGS = {"positive": ["I would buy it again.", "Highly recommended!", "Five stars.", "My family loves it."],
           "negative": ["I sent it back.", "Do not buy this.", "One star.", "I want my money back!"]}


def review(draw, label):
    claims = {"positive": GOOD, "negative": BAD}[label]
    other = {"positive": BAD, "negative": GOOD}[label]
    first, second, third = draw.sample(PARTS, 3)
    text = [f"{first.capitalize()} {draw.choice(claims)}."]
    if draw.random() < 0.6: text.append(draw.choice(PLAIN))
    if draw.random() < 0.3: text.append(f"True, {second} {draw.choice(other)}, but {third} {draw.choice(claims)}.")
    if draw.random() < 0.5: text.append(draw.choice(ENDINGS[label]))
    return " ".join(text)


def sales(draw, store):
    """The rows of a store up to December 2025."""
    level, growth, season, peak = draw.lognormvariate(5, 1.5), draw.gauss(0.004, 0.004), draw.uniform(0.1, 0.4), 11.5
    drift = 0
    for t in range(84 - draw.randrange(45), 0, -1):
        month = 84 - t
        drift = 0.8 * drift + draw.gauss(0, 0.05)
        units = level * math.exp(growth * month + season * math.cos((month % 12 - peak) * math.pi / 6) + drift)
        yield f"S{store:02},{2019 + month // 12}-{month % 12 + 1:02},{units:.0f}\n"


def main():
    draw = random.Random(0)
    with (HERE / "reviews.tsv").open("w", newline="") as out:
        written = set()
        while len(written) < 900:  # no review twice
            label = draw.choice(["positive", "negative"])
            text = review(draw, label)
            if text not in written: out.write(f"{label}\t{text}\n")
            written.add(text)
    rows = list(csv.DictReader((HERE / "../../examples/data/seattle-weather.csv").open()))
    left_out = set(draw.sample(range(1, len(rows) - 1), 25))
    empty = set(draw.sample(sorted(set(range(1, len(rows) - 1)) - left_out), 12))
    with (HERE / "temperature.csv").open("w", newline="") as out:
        out.write("date,high\n")
        for i, row in enumerate(rows):
            if i not in left_out: out.write(f"{row['date']},{'' if i in empty else row['temp_max']}\n")
    with (HERE / "stores.csv").open("w", newline="") as out:
        out.write("store,month,units\n")
        out.writelines(row for store in range(1, 21) for row in sales(draw, store))


main()
