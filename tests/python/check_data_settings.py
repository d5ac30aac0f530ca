#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every reader treats its input as training did, for every key of [data].
usage: check_data_settings.py UNROLL C_LIBRARY

Each row of the tables below changes one key from its default, trains, and compares what eval, predict, stream, the
Python module and the C library give for the test set, a file of its own.
"""
import datetime
import math
import pathlib
import random
import re
import tempfile
import traceback
import zoneinfo

from checks import check, finish
from readers import call, check_rows, check_series, evaluated, ok, predicted, same, train

DRAW = random.Random(7)


def rows_of(n, separator=",", names=("a", "b", "c", "d"), gaps="", label="y", first=False):
    """A table with features of different sizes and a label 0, 1 or 2; lines without and with a header."""
    lines = []
    for i in range(n):
        cells = [f"{(i % 3 + 1) * (k + 1) + DRAW.random():.3f}" for k in range(len(names))]
        if gaps and i % 4 == 1:
            cells[i % len(names)] = gaps
        answer = [str(i % 3)]
        lines.append(separator.join(answer + cells if first else cells + answer))
    header = [label, *names] if first else [*names, label]
    return separator.join(header), lines


# setting, how the file differs
ROW_SETTINGS = [
    (("data.steps", "2"), {}), (("data.columns", "c,a"), {}),
    (("data.separator", ","), {"names": ("a;x", "b", "c", "d")}),
    (("data.decimal", "."), {}), (("data.thousands", "_"), {}),
    (("data.header", "yes"), {"names": ("1", "2", "3", "4"), "label": "5"}), (("data.header", "no"), {"header": False}),
    (("data.missing", "mean"), {"gaps": "NA"}), (("data.missing", "previous"), {"gaps": "NA"}),
    (("data.missing", "interpolate"), {"gaps": "NA"}),
    (("data.missing_values", "void"), {"gaps": "void", "held": ["--set", "data.missing=mean"]}),
    (("data.divide", "10"), {}), (("data.normalize", "true"), {}),
    (("data.split_seed", "3"), {}), (("data.memory_limit", "1KiB"), {}), (("data.validation", "0.3"), {}),
]
TARGET = {"classify": "data.label", "regress": "data.targets"}


def one_row_setting(folder, kind, setting, changes):
    header, more = changes.pop("header", True), changes.pop("held", [])
    head, lines = rows_of(60, **changes)
    _, test = rows_of(12, **changes)
    (folder / "train.csv").write_text("\n".join([head] * header + lines) + "\n")
    text = "\n".join([head] * header + test) + "\n"
    (folder / "test.csv").write_text(text)
    held = ["--set", "data.test=test.csv", "--set", "data.normalize=false", *more]
    run = train(folder, kind, folder / "train.csv", [setting], held)
    check_rows(run, text, header=header)


START = datetime.date(2024, 1, 1)
ON_CLOCK = datetime.datetime(2024, 10, 25, 12, tzinfo=datetime.timezone.utc)  # two days before a change of the clock


def series_of(n, begin, separator=",", gaps="", dates="days", header="date,booked,a,b", series=()):
    lines, day = [header] if header else [], START + datetime.timedelta(begin)
    for i in range(n):
        while dates == "weekdays" and day.weekday() > 4:
            day += datetime.timedelta(1)
        a, b = 20 + (i + begin) % 7 + DRAW.random(), 500 - 3 * ((i + begin) % 5) + DRAW.random()
        hour = (ON_CLOCK + datetime.timedelta(hours=i + begin)).astimezone(zoneinfo.ZoneInfo("Europe/Berlin"))
        shown = f"{hour:%Y-%m-%d %H:%M}" if dates == "hours" else str(day)
        cells = [*series, shown, str(day + datetime.timedelta(365)), f"{a:.3f}", f"{b:.3f}"]
        if gaps and i % 5 == 2:
            cells[-1] = gaps
        lines.append(separator.join(cells))
        day += datetime.timedelta(1)
    return "\n".join(lines) + "\n"


SERIES_SETTINGS = [
    (("data.date", "none"), {"dates": "weekdays"}), (("data.date", "booked"), {}), (("data.column", "a"), {}),
    (("data.columns", "b,a"), {}), (("data.missing", "interpolate"), {"gaps": "NA"}), (("data.missing", "error"), {}),
    (("data.missing", "previous"), {"gaps": "NA"}),
    (("data.missing_values", "void"), {"gaps": "void"}), (("data.window", "3"), {}), (("data.horizon", "2"), {}),
    (("data.stride", "2"), {}), (("data.period", "7"), {}), (("data.difference", "first,2"), {}),
    (("data.scale", "window"), {}), (("data.id", "shop"), {"header": "shop,date,booked,a,b", "series": ["A"]}),
    (("data.past_covariates", "a"), {}), (("data.future_covariates", "a"), {}), (("data.calendar", "weekday"), {}),
    (("data.categories", "a"), {"also": [("data.past_covariates", "a")]}), (("data.non_negative", "yes"), {}),
    (("data.static_covariates", "shop"), {"header": "shop,date,booked,a,b", "series": ["A"]}),
    (("data.date_format", "%Y-%m-%d"), {}), (("data.decimal", "."), {}), (("data.thousands", "_"), {}),
    (("data.timezone", "Europe/Berlin"), {"dates": "hours"}),
    (("data.separator", ","), {"header": "date;x,booked,a,b"}), (("data.header", "no"), {"header": ""}),
    (("data.header", "yes"), {"header": "2001-01-01,booked,a,b"}), (("data.memory_limit", "1KiB"), {}),
]


def one_series_setting(folder, setting, changes):
    also = changes.pop("also", [])
    (folder / "train.csv").write_text(series_of(60, 0, **changes))
    text = series_of(9, 84, **changes)
    (folder / "test.csv").write_text(text)
    usual = [("data.window", "4"), ("data.horizon", "1"), ("data.period", "5"), ("data.difference", "none"),
             ("data.scale", "series"), ("data.test", "test.csv")]
    if setting[0] == "data.id":
        usual.remove(("data.scale", "series"))  # each window has its own
    run = train(folder, "forecast", folder / "train.csv", usual + also + [setting])
    check_series(run, text, header=changes.get("header", "date") != "")


def document(i):
    return ["good", "bad"][i % 2], f"The {['fine', 'poor'][i % 2]} Plot {i % 7} was \u00e9{i % 3}. I saw it."


# setting, the lines of a file
DOCUMENT_SETTINGS = [
    (("data.label", "last"), lambda label, text: f"{text}\t{label}", ""),
    (("data.text", "2"), lambda label, text: f"{label}\t{text}", ""),
    (("data.header", "yes"), lambda label, text: f"{label}\t{text}", "A\tB\n"),
    (("data.separator", "|"), lambda label, text: f"{label}|{text}", ""),
    (("data.vocabulary", "5"), lambda label, text: f"{label}\t{text}", ""),
    (("data.min_count", "20"), lambda label, text: f"{label}\t{text}", ""),
]


def one_document_setting(folder, setting, line, head):
    write = lambda numbers: head + "".join(line(*document(i)) + "\n" for i in numbers)
    (folder / "train.tsv").write_text(write(range(60)))
    (folder / "test.tsv").write_text(write(range(100, 112)))
    run = train(folder, "document", folder / "train.tsv", [setting, ("data.test", "test.tsv")])
    texts = [document(i) for i in range(100, 112)]
    answers = predicted(run, "".join(text + "\n" for _, text in texts), "--top-k", 2)
    chances = [{row["label"]: row["probability"] for row in answer["top"]} for answer in answers]
    same(sum(-math.log(c[label]) for c, (label, _) in zip(chances, texts)) / 12, evaluated(run)["loss"], "loss")


def every_key_is_tried():
    """No key of [data] of these tasks is missing in the tables, apart from those that say where the data are."""
    tried = {s[0][0] for s in ROW_SETTINGS + SERIES_SETTINGS + DOCUMENT_SETTINGS} | set(TARGET.values())
    apart = {"data.path", "data.test"}
    reference, section = ok("new", "--reference"), ""
    for line in reference.splitlines():
        section = line[4:-1] if line.startswith("## [") else section
        row = [cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)]
        if section != "data" or len(row) < 7 or row[1] in ("key", "---"):
            continue
        readers = row[5].split(", ")
        if any(kind in readers for kind in ("classify", "regress", "forecast", "document", "all tasks")):
            key = f"data.{row[1]}"
            check(key in tried | apart, f"{key} is tried")


def refusals(folder):
    """A setting other than the model's is refused, not ignored"""
    head, lines = rows_of(60)
    (folder / "train.csv").write_text("\n".join([head, *lines]) + "\n")
    run = train(folder, "classify", folder / "train.csv", [], ["--set", "data.normalize=false"])
    for setting in ("data.divide=3", "data.normalize=true", "data.missing=mean", "data.steps=2", "data.label=a",
                    "data.columns=a,b"):
        done = call("eval", run, "--set", setting)
        assert done.returncode == 2 and setting.split("=")[0] in done.stderr, (setting, done.stderr)
        done = call("predict", run, "--set", setting, text=head)
        assert done.returncode == 2 and setting in done.stderr, (setting, done.stderr)


def tried(work, name, function, *arguments):
    folder = pathlib.Path(work) / re.sub(r"\W+", "-", name)
    folder.mkdir()
    try:
        function(folder, *arguments)
        check(True, name)
    except Exception as error:
        check(False, f"{name}: {type(error).__name__} {error} {traceback.format_exc(limit=-1)}")


with tempfile.TemporaryDirectory() as work:
    every_key_is_tried()
    tried(work, "refusals", refusals)
    for kind, key in TARGET.items():
        for setting, changes in ROW_SETTINGS + [((key, "y"), {"first": True})]:
            tried(work, f"{kind} {setting[0]} = {setting[1]}", one_row_setting, kind, setting, dict(changes))
    for setting, changes in SERIES_SETTINGS:
        tried(work, f"forecast {setting[0]} = {setting[1]}", one_series_setting, setting, changes)
    for setting, line, head in DOCUMENT_SETTINGS:
        tried(work, f"document {setting[0]} = {setting[1]}", one_document_setting, setting, line, head)
finish()
