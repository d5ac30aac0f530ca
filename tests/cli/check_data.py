#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data files as people have them, from `unroll new --data` to `unroll eval`. usage: check_data.py UNROLL"""
import datetime
import gzip
import tempfile

from command import call, ok, refused, run_checks
from small_runs import KINDS, config

SMALL = ["--set", "model.hidden=4", "--set", "train.max_updates=3", "--set", "run.estimate_seconds=0"]


def trained(folder, kind, data, *settings):
    config = folder / "own.toml"
    ok("new", kind, config, "--data", data, *settings)
    done = ok("train", config, "--out", folder / "run", *SMALL)
    return [line for line in done.messages() if line.startswith("data: ")]


def measurements(folder):
    """measurements with a header and a species train and are scored without a hand on the config"""
    rows = ["length;width;species"]
    rows += [f"{i % 3 * 10 + i % 5};{1000 + i % 7};{['setosa', 'virginica', 'versicolor'][i % 3]}" for i in range(90)]
    (folder / "iris.csv").write_text("\n".join(rows) + "\n")
    said = trained(folder, "classify", folder / "iris.csv")
    assert "90 rows, header found, columns length, width, species; label 'species', 3 classes" in said[0], said
    assert "normalize = true" in (folder / "own.toml").read_text()
    for split in ["train", "validation", "test"]:
        assert ok("eval", folder / "run", "--split", split, "--json").json()["baselines"]["most_frequent"]
    (folder / "new.csv").write_text("\n".join([rows[0], *rows[40:60]]) + "\n")
    again = ok("train", folder / "own.toml", "--out", folder / "again", *SMALL, "--set", "data.test=new.csv")
    assert "110 rows" in again.err, again.err
    ok("eval", folder / "again")
    # Files after `new` start at the current folder.
    ok("new", "classify", "sub/two.toml", "--data", "iris.csv", "--set", "data.test=new.csv", cwd=folder)
    again = ok("train", folder / "sub/two.toml", "--out", folder / "two", *SMALL)
    assert "110 rows" in again.err, again.err
    refused(2, "train", folder / "own.toml", "--out", folder / "old", "--set", "data.held_out=0.1",
            says=["data.validation and data.test"])


def long_rows(folder):
    """advice for rows of many steps that the model does not learn begins with data.steps"""
    rows = [",".join(str(i * j * 7919 % 13) for j in range(60)) + f",{'ab'[i * i % 7 % 2]}" for i in range(1, 90)]
    (folder / "rows.csv").write_text("\n".join(rows) + "\n")
    ok("new", "classify", folder / "own.toml", "--data", folder / "rows.csv")
    wider = "Try fewer, wider steps than 60 (`data.steps = 1` reads a row at once), "
    for steps, begins in ((60, wider), (1, "Try `unroll")):
        run = folder / str(steps)
        ok("train", folder / "own.toml", "--out", run, *SMALL, "--max-updates", 1, "--set", f"data.steps={steps}",
           "--set", "train.lr=1e-9")
        told = " ".join(ok("eval", run, "--split", "train").messages())
        assert "advice: no learning: accuracy is " in told and begins in told, told


def days(folder):
    """a packed daily series with a hole says so, and the baselines are those of the split"""
    first = datetime.date(2022, 1, 1)
    rows = ["date,sales"] + [f"{first + datetime.timedelta(i)},{'NaN' if i == 9 else 100 + i % 7}" for i in range(300)
                             if not 40 <= i < 65]
    with gzip.open(folder / "sales.csv.gz", "wt") as file:
        file.write("\n".join(rows) + "\n")
    said = trained(folder, "forecast", folder / "sales.csv.gz", "--set", "data.period=7", "--set", "data.window=7")
    assert "a row every 1 day" in said[0] and "25 dates are missing (2022-02-10 to 2022-03-06)" in said[1], said
    assert "1 value is missing" in said[2], said
    baselines = [ok("eval", folder / "run", "--split", split, "--json").json()["baselines"]
                 for split in ["train", "test"]]
    assert baselines[1]["seasonal_naive"]["mae"] == 0 and baselines[0] != baselines[1], baselines
    refused(3, "train", folder / "own.toml", "--out", folder / "strict", "--set", "data.missing=error",
            says=["data.missing", "docs/data.md#forecast"])


def dates(folder):
    """dates as people write them reach the forecast, and what cannot be read is a warning of train and data check"""
    first = datetime.date(2022, 1, 1)
    day = [first + datetime.timedelta(i) for i in range(120)]
    rows = [f"{d:%m/%d/%Y},{100 + i % 7}" for i, d in enumerate(day)]
    (folder / "us.csv").write_text("\n".join(["when,sales", *rows]) + "\n")
    size = ["--set", "data.period=7", "--set", "data.window=7"]
    said = trained(folder, "forecast", folder / "us.csv", *size)
    assert "dates in 'when' read as MM/DD/YYYY from 01/01/2022, a row every 1 day" in said[0], said
    # Ten days can be read in two ways by themselves; the model knows which one.
    (folder / "few.csv").write_text("\n".join(["when,sales", *rows[90:100]]) + "\n")
    answer = ok("predict", folder / "run", "--input", folder / "few.csv").out.splitlines()
    assert answer[0] == "when,sales" and answer[1].startswith("04/11/2022,"), answer

    def check(name, lines, code, says):
        (folder / name).write_text("\n".join(lines) + "\n")
        ok("new", "forecast", folder / f"{name}.toml", "--data", folder / name, *size)
        report = call("data", "check", folder / f"{name}.toml", "--json")
        found = " ".join(finding["what"] for finding in report.json()["findings"])
        assert report.code == code and all(words in found for words in says), (report.code, found)
        if code == 0:
            train = ok("train", folder / f"{name}.toml", "--out", folder / f"{name}.run", *SMALL)
            messages = " ".join(train.messages())
            assert all(words in messages for words in ["warning: ", *says]), messages
    check("short.csv", ["when,sales", *[f"{d:%b-%y},{i % 7}" for i, d in enumerate(day)]], 0,
          ["column 'when' looks like dates ('Jan-22')", "four digits", 'data.date = "none"'])
    weekdays = [f"{d:%d/%m/%y},{i % 7}" for i, d in enumerate(day) if d.weekday() < 5]
    (folder / "weekdays.csv").write_text("\n".join(["when,sales", *weekdays]) + "\n")
    ok("new", "forecast", folder / "weekdays.toml", "--data", folder / "weekdays.csv", *size, "--set",
       "data.date_format=%d/%m/%y")
    said = " ".join(ok("train", folder / "weekdays.toml", "--out", folder / "weekdays", *SMALL).messages())
    assert "a row every 1 day (Mon Tue Wed Thu Fri)" in said and "read as %d/%m/%y (years 1969 to 2068)" in said, said
    # The last row is that of Friday, 29 April. A file of twelve days has the calendar and the format of the model too.
    (folder / "days.csv").write_text("\n".join(["when,sales", *weekdays[-12:]]) + "\n")
    for name in ("weekdays.csv", "days.csv"):
        answer = ok("predict", folder / "weekdays", "--input", folder / name).out.splitlines()
        assert answer[1].startswith("02/05/22,"), answer
    (folder / "newest.csv").write_text("\n".join(["when,sales", *rows[::-1]]) + "\n")
    ok("new", "forecast", folder / "newest.toml", "--data", folder / "newest.csv", *size)
    said = ok("train", folder / "newest.toml", "--out", folder / "newest", *SMALL).messages()
    assert any("newest rows come first" in line for line in said), said
    newest = ok("predict", folder / "run", "--input", folder / "newest.csv").out
    assert newest == ok("predict", folder / "run", "--input", folder / "us.csv").out
    check("last.csv", ["sales,year", *[f"{i % 7},{1969 + i / 2}" for i in range(120)]], 3,
          ["the last column, 'year', looks like dates", 'data.column = "sales"'])
    panel = [f"{company},{d:%b %d %Y},{i % 7}" for company in ("A", "B") for i, d in enumerate(day)]
    check("panel.csv", ["company,when,price", *panel], 3, ["several series, named in 'company'", 'data.id = "company"'])


def forms(folder):
    """a header of numbers is no class, a decimal comma is a warning, and predictions read back as numbers"""
    rows = [",".join(map(str, range(9)))]
    rows += [",".join(f"{i % 2 * 3 + j / 8 + i * 7 % 59 / 100:.3f}" for j in range(8)) + f",{i % 2 + 1}"
             for i in range(60)]
    (folder / "frame.csv").write_text("\n".join(rows) + "\n")
    said = trained(folder, "classify", folder / "frame.csv", "--set", "data.steps=1")
    assert "60 rows, header found" in said[0] and "label '8', 2 classes" in said[0], said
    assert "'0,1,2,3,4,5,...', is read as a header because its numbers are consecutive" in said[1], said
    answers = ok("predict", folder / "run", "--input", folder / "frame.csv", "--format", "csv").out.splitlines()
    assert len(answers) == 61 and {line.split(",")[1] for line in answers[1:]} <= {"1", "2"}, answers[:3]
    (folder / "comma.csv").write_text("".join(f"{12 + i % 3},{i * 7 % 10}\n" for i in range(90)))
    size = ["--set", "data.window=5", "--set", "data.period=3"]
    ok("new", "forecast", folder / "comma.toml", "--data", folder / "comma.csv", *size)
    what = "'12,0' in the first row is read as two columns, 12 and 0"
    findings = ok("data", "check", folder / "comma.toml", "--json").json()["findings"]
    assert [what in finding["what"] for finding in findings if finding["check"] == "format"] == [True], findings
    train = ok("train", folder / "comma.toml", "--out", folder / "comma", *SMALL)
    for call_with_data in (train, call("train", folder / "comma.toml", "--find-lr", *SMALL),
                           ok("ablation", folder / "comma.toml", "hidden=4", "--minutes", 0.001, "--seeds", 1)):
        warned = [line for line in call_with_data.messages() if line.startswith("warning: comma.csv: " + what)]
        assert len(warned) == 1, call_with_data.err
    rows = "x;y\n" + "".join(f"{'1.234' if i % 2 else 980 - i};{i % 2}\n" for i in range(60))
    for kind in ("classify", "regress"):
        own = folder / kind
        own.mkdir()
        (own / "groups.csv").write_text(rows)
        trained(own, kind, own / "groups.csv", "--set", "data.steps=1")
        findings = ok("data", "check", own / "own.toml", "--json").json()["findings"]
        what = "groups.csv: column 1 has '1.234', which is read as a decimal"
        assert any(what in finding["what"] for finding in findings), findings
        ok("predict", own / "run", "--input", own / "groups.csv")
    large = folder / "large"
    large.mkdir()
    (large / "large.csv").write_text("".join(["v\n", *[f"{999999999.66 + i % 5 / 100:.2f}\n" for i in range(120)]]))
    trained(large, "forecast", large / "large.csv", *size)
    answer = ok("predict", large / "run", "--input", large / "large.csv", "--format", "csv").out.splitlines()[1:]
    numbers = [line.split(",")[1] for line in answer]
    assert all("e" not in text and abs(float(text) - 999999999.68) < 0.5 for text in numbers), numbers


def texts(folder):
    """a text names the task that reads it, and the label in the wrong place the way to say where it is"""
    lines = [f"The plot number {i} was {'good' if i % 2 else 'bad'} to me.\t{'pos' if i % 2 else 'neg'}\n"
             for i in range(60)]
    (folder / "reviews.tsv").write_text("".join(lines))
    ok("new", "classify", folder / "wrong.toml", "--data", folder / "reviews.tsv")
    refused(3, "train", folder / "wrong.toml", "--out", folder / "wrong",
            says=['task.kind = "document"', "docs/data.md#classify"])
    ok("new", "document", folder / "swapped.toml", "--data", folder / "reviews.tsv")
    refused(3, "train", folder / "swapped.toml", "--out", folder / "swapped",
            says=["60 different labels in 60 rows", 'data.label = "last"', "docs/data.md#document"])
    said = trained(folder, "document", folder / "reviews.tsv", "--set", "data.label=last")
    assert said[0].endswith("60 rows, no header, 2 columns; 2 labels"), said


def data_check(folder):
    """data check tells what is odd; its exit code is 3 for what training refuses, with --strict for warnings too"""
    for kind in KINDS:
        report = ok("data", "check", config(folder / kind, kind), "--json").json()
        assert report["kind"] == kind and report["errors"] == 0 and report["figures"]["batches in training"] > 0, report
    source = folder / "classify/demo/config.toml"
    assert ok("data", "check", source, "--strict").out.startswith("kind")
    rows = (folder / "classify/demo/patterns.csv").read_text().splitlines()
    (folder / "classify/demo/bad.csv").write_text("\n".join(rows[:50] + ["nan," + rows[3].split(",", 1)[1]]))
    bad = call("data", "check", source, "--json", "--set", "data.path=bad.csv")
    assert bad.code == 3 and bad.json()["findings"][0]["level"] == "error", bad.out
    assert "line 51" in bad.json()["findings"][0]["what"], bad.out
    (folder / "classify/demo/twice.csv").write_text("\n".join(rows + rows))
    assert ok("data", "check", source, "--set", "data.path=twice.csv").out.count("warning") == 3
    assert call("data", "check", source, "--strict", "--set", "data.path=twice.csv").code == 3
    refused(3, "data", "check", source, "--set", "data.path=none.csv", says=["none.csv"])
    few = call("data", "check", folder / "forecast/demo/config.toml", "--json", "--set", "data.window=100000")
    assert few.code == 3 and "too few for a training window" in few.json()["findings"][0]["what"], few.out
    assert call("data", "look", source).code == 2


with tempfile.TemporaryDirectory() as work:
    run_checks([measurements, long_rows, days, dates, forms, texts, data_check], work)
