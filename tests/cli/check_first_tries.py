#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What newcomers try first with a forecast or a table, and where they stumbled. usage: check_first_tries.py UNROLL"""
import datetime
import math
import tempfile

from command import ok, refused, run_checks

FEW = ["--set", "model.hidden=4", "--set", "train.max_updates=5", "--set", "run.estimate_seconds=0"]


def monthly(folder, rows=144, first="month,passengers"):
    values = [100 + 2 * t + 20 * math.sin(t * math.pi / 6) + t * t % 7 for t in range(rows)]
    cells = [f"{1949 + t // 12}-{t % 12 + 1:02},{value:.1f}" for t, value in enumerate(values)]
    (folder / "air.csv").write_text("\n".join([first, *cells]) + "\n")
    ok("new", "forecast", folder / f"{rows}.toml", "--data", folder / "air.csv")
    return folder / f"{rows}.toml"


def first_example(folder):
    """the example of `new forecast` is forecast better than by every baseline after 100 updates"""
    ok("new", "forecast", folder / "first", "--set", "train.max_updates=100")
    ok("train", folder / "first/config.toml", "--out", folder / "run")
    found = ok("eval", folder / "run", "--json").json()
    errors = {name: of["mase"] for name, of in found["baselines"].items()}
    assert len(errors) == 4 and found["metrics"]["mase"] < min(errors.values()), found


def seasons(folder):
    """the step of the dates sets the season and the horizon, and both are printed"""
    day = datetime.timedelta(1)
    for days, season in ((1 / 24, 24), (1, 7), (7, 52), (30.4375, 12), (91.3125, 4)):
        dates = [(datetime.datetime(1990, 1, 15) + i * days * day) for i in range(max(400, 15 * season))]
        if days > 7:
            dates = [date.replace(day=1, hour=0, minute=0) for date in dates]
        rows = [f"{date:%Y-%m-%d %H:%M},{i % season + i * i % 5}" for i, date in enumerate(dates)]
        config = folder / f"{season}.toml"
        (folder / "s.csv").write_text("\n".join(["date,value", *rows]) + "\n")
        ok("new", "forecast", config, "--data", folder / "s.csv")
        said = " ".join(ok("train", config, "--out", folder / f"run{season}", *FEW).messages())
        assert f"data.period = {season} (" in said and f"data.horizon = {season}" in said, (days, said)


def unnamed(folder):
    """the header of an unnamed pandas series, `,0`, is no row"""
    config = monthly(folder, first=",0")
    said = ok("train", config, "--out", folder / "run", *FEW).messages()
    assert "144 rows, header found" in said[0] and "a row every 1 month" in said[0], said


def no_test_set(folder):
    """an empty test set is a warning of train and data check, and refused by eval"""
    config = monthly(folder)
    for settings in (["--set", "data.validation=0", "--set", "data.test=0"], ["--set", "data.horizon=36"]):
        findings = ok("data", "check", config, "--json", *settings).json()["findings"]
        assert any("the test set is empty" in finding["what"] for finding in findings), findings
        run = folder / settings[-1]
        said = " ".join(ok("train", config, "--out", run, *FEW, *settings).messages())
        assert "warning: the test set is empty" in said, said
        refused(2, "eval", run, says=["the test set is empty"])


def long_season(folder):
    """without a season in the training set there is no mase, which is said"""
    said = " ".join(ok("train", monthly(folder), "--out", folder / "run", *FEW, "--set", "data.period=200",
                       "--set", "data.horizon=5").messages())
    assert "there is no mase: data.period = 200 is not shorter than the training set" in said, said


def tables(folder):
    """rows of different lengths are refused with the line, and predictions name their rows"""
    rows = [",".join(str((i * j * 7) % 11) for j in range(1, 5)) + f",{i % 5}" for i in range(60)]
    (folder / "t.csv").write_text("\n".join(["a,b,c,d,y", *rows]) + "\n")
    ok("new", "regress", folder / "t.toml", "--data", folder / "t.csv")
    ok("train", folder / "t.toml", "--out", folder / "run", *FEW)
    lines = ok("predict", folder / "run", "--input", folder / "t.csv", "--format", "csv").out.splitlines()
    assert lines[0].split(",")[0] == "row" and lines[60].startswith("60,"), lines[:2]
    (folder / "t.csv").write_text("\n".join(["a,b,c,d,y", *rows[:9], "1,2,3", *rows]) + "\n")
    refused(3, "train", folder / "t.toml", "--out", folder / "bad", says=["line 11", "3 cells"])


def more_rows(folder):
    """a run is not resumed with other data"""
    config = monthly(folder)
    ok("train", config, "--out", folder / "run", *FEW)
    refused(2, "train", monthly(folder, rows=150), "--out", folder / "run", "--resume", *FEW,
            says=["Use the data that the run began with, or start in another folder"])


with tempfile.TemporaryDirectory() as work:
    run_checks([first_example, seasons, unnamed, no_test_set, long_season, tables, more_rows], work)
