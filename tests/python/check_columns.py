#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model reads the columns that it was trained on, or an error names them. usage: check_columns.py UNROLL C_LIBRARY

Every task on tables x ways in which a file has other columns x the readers predict, eval of another test set and eval
of other data; predict and eval are compared with the file as it was, and with the Python module and the C library.
"""
import pathlib
import random
import tempfile
import traceback

from checks import check, finish
from readers import call, check_rows, check_series, evaluated, ok, predicted, same, train

DRAW = random.Random(5)
NAMES = {"classify": ["b", "a", "y"], "regress": ["b", "a", "y"], "forecast": ["date", "a", "b"]}
# The columns that a model needs of a file for predictions, and those that are needed to score it.
READ = {"classify": ["b", "a"], "regress": ["b", "a"], "forecast": ["date", "a"]}
JUDGED = {"classify": ["b", "a", "y"], "regress": ["b", "a", "y"], "forecast": ["date", "a"]}
SETTINGS = {"classify": [], "regress": [],
            "forecast": [("data.column", "a"), ("data.window", "4"), ("data.period", "5")]}


def columns_of(kind, n, begin):
    if kind == "forecast":
        return {"date": [f"2024-{1 + (begin + i) // 28:02}-{1 + (begin + i) % 28:02}" for i in range(n)],
                "a": [f"{10 + i % 7 + DRAW.random():.3f}" for i in range(n)],
                "b": [f"{900 - i % 3 + DRAW.random():.3f}" for i in range(n)]}
    return {"b": [f"{i % 3 + DRAW.random():.3f}" for i in range(n)],
            "a": [f"{100 * (i % 2) + DRAW.random():.3f}" for i in range(n)], "y": [str(i % 3) for i in range(n)]}


def csv_of(columns, header=True):
    lines = [",".join(columns)] if header else []
    return "\n".join(lines + [",".join(row) for row in zip(*columns.values())]) + "\n"


def changed_tables(columns, names):
    """(what was changed, the file, its columns)"""
    yield "as it was", csv_of(columns), list(names)
    for order in ([names[1], names[0], names[2]], [names[2], names[1], names[0]], [names[0], names[2], names[1]]):
        yield f"the order {order}", csv_of({name: columns[name] for name in order}), list(names)
    for name in names:
        rest = {other: cells for other, cells in columns.items() if other != name}
        yield f"{name} missing", csv_of(rest), list(rest)
        renamed = {"z" if other == name else other: cells for other, cells in columns.items()}
        yield f"{name} renamed", csv_of(renamed), list(renamed)
        numbered = {"1" if other == name else other: cells for other, cells in columns.items()}
        yield f"{name} renamed to a number", csv_of(numbered), list(numbered)
    ids = [str(1000 + i) for i in range(len(columns[names[0]]))]
    yield "an id in front", csv_of({"id": ids, **columns}), ["id", *names]
    yield "an id behind", csv_of({**columns, "id": ids}), ["id", *names]
    yield "no header", csv_of(columns, header=False), []
    yield "no header and an id", csv_of({"id": ids, **columns}, header=False), []


def named(error, missing):
    """The refusal names a column, or the header that the model needs."""
    if not missing or "no header line" in error:  # a header with a number is none
        return "header" in error
    return all(f"'{name}'" in error for name in missing)


def told(done):
    return done.stderr.replace("\n  ", " ")


def one_task(folder, kind):
    names = NAMES[kind]
    (folder / "train.csv").write_text(csv_of(columns_of(kind, 60, 0)))
    columns = columns_of(kind, 12, 60)
    text = csv_of(columns)
    (folder / "test.csv").write_text(text)
    run = train(folder, kind, folder / "train.csv", SETTINGS[kind] + [("data.test", "test.csv")])
    (check_series if kind == "forecast" else check_rows)(run, text)
    answer, verified = predicted(run, text), evaluated(run)
    for what, changed, has in changed_tables(columns, names):
        (folder / "changed.csv").write_text(changed)
        missing = [name for name in READ[kind] if name not in has] if has else []
        done = call("predict", run, "--json", text=changed)
        if has and not missing:
            right = done.returncode == 0 and predicted(run, changed) == answer
            check(right, f"{kind}, {what}: predict reads the named columns" + (done.stderr[-300:] if not right else ""))
        else:
            check(done.returncode in (2, 3) and not done.stdout and named(told(done), missing),
                  f"{kind}, {what}: predict names {missing or 'the header'}: {told(done)[-300:]!r}")
        for key in ("data.test", "data.path"):
            whole = ["--split", "test"] if key == "data.test" else ["--set", "data.test=" + str(folder / "changed.csv")]
            done = call("eval", run, "--json", *whole, "--set", f"{key}={folder / 'changed.csv'}")
            missing = [name for name in JUDGED[kind] if name not in has] if has else []
            if done.returncode == 0:
                same_loss = abs(evaluated(run, *whole, "--set", f"{key}={folder / 'changed.csv'}")["loss"] -
                                verified["loss"]) < 1e-6
                check(has and not missing and same_loss, f"{kind}, {what}: eval with {key} verifies the named columns")
            else:
                check(done.returncode in (2, 3) and (what != "as it was") and
                      (named(told(done), missing[:1]) or "same columns" in told(done)),
                      f"{kind}, {what}: eval with {key} names what differs: {told(done)[-300:]!r}")


def without_header(folder):
    """A training file without a header gives columns places: files of another width are refused"""
    columns = columns_of("classify", 60, 0)
    (folder / "train.csv").write_text(csv_of(columns, header=False))
    run = train(folder, "classify", folder / "train.csv", [])
    rows = csv_of({name: cells[:5] for name, cells in columns.items()}, header=False)
    alone = csv_of({name: columns[name][:5] for name in ("b", "a")}, header=False)
    chances = [[row["probability"] for row in predicted(run, text)] for text in (alone, rows)]
    same(*chances, "the features alone")
    wide = csv_of({"id": columns["b"][:5], **{name: cells[:5] for name, cells in columns.items()}}, header=False)
    done = call("predict", run, text=wide)
    assert done.returncode == 2 and "has 4 columns; the training file had 3" in done.stderr.replace("\n  ", " "), done


def documents(folder):
    """The test set of a task on texts has the header of the training file, or is refused"""
    lines = [f"{['good', 'bad'][i % 2]}\tthe plot {i} was {['fine', 'poor'][i % 2]}\n" for i in range(60)]
    swapped = ["\t".join(reversed(line.strip().split("\t"))) + "\n" for line in lines]
    (folder / "train.tsv").write_text("label\ttext\n" + "".join(lines))
    run = train(folder, "document", folder / "train.tsv", [])
    for what, text, code in (("the same", "label\ttext\n" + "".join(lines[:9]), 0),
                             ("another order", "text\tlabel\n" + "".join(swapped[:9]), 3),
                             ("no header", "".join(lines[:9]), 3)):
        (folder / "test.tsv").write_text(text)
        done = call("eval", run, "--set", f"data.test={folder / 'test.tsv'}")
        check(done.returncode == code and ("header" in done.stderr) == (code != 0), f"document, {what}: {done.stderr}")


with tempfile.TemporaryDirectory() as work:
    for name, function, *arguments in [(kind, one_task, kind) for kind in NAMES] + [
            ("without_header", without_header), ("documents", documents)]:
        folder = pathlib.Path(work) / name
        folder.mkdir()
        try:
            function(folder, *arguments)
            check(True, name)
        except Exception as error:
            check(False, f"{name}: {type(error).__name__} {error} {traceback.format_exc(limit=-1)}")
finish()
