#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Backtests, and forecasts by a baseline. usage: check_backtest.py UNROLL"""
import csv
import math
import signal
import subprocess
import tempfile
import time

from command import UNROLL, ok, refused, run_checks
from small_runs import config

SMALL = ["--set", "model.hidden=4", "--set", "train.max_updates=20", "--set", "train.validate_every=10", "--threads", 1]
BASELINES = ["persistence", "seasonal_naive", "theta", "linear_ar"]


def monthly(folder, rows=96):
    """A config for a series of months with a season of a year."""
    months = [f"{2015 + t // 12}-{t % 12 + 1:02},{100 + t + 20 * math.sin(t * math.pi / 6) + t * t * 31 % 17:.2f}"
              for t in range(rows)]
    (folder / "sales.csv").write_text("month,sales\n" + "\n".join(months) + "\n")
    ok("new", "forecast", folder / "c.toml", "--data", folder / "sales.csv", "--set", "data.horizon=3", "--set",
       "data.window=12", "--set", "data.difference=first")
    return folder / "c.toml"


def rows_of(path):
    return list(csv.DictReader(path.open()))


def same_as_eval(folder):
    """backtest --no-refit has the errors and the forecasts of eval, by fold, by steps ahead and for each row"""
    source, run, out = monthly(folder), folder / "run", folder / "f.csv"
    ok("train", source, "--out", run, *SMALL)
    wanted = ok("eval", run, "--json", "--forecasts", folder / "e.csv").json()
    found = ok("backtest", source, "--no-refit", "--folds", 3, "--json", "--forecasts", out, *SMALL).json()
    near = lambda a, b: math.isclose(a, b, rel_tol=1e-4)
    assert found["trained"] == "once" and len(found["fold"]) == 3 and len(found["steps_ahead"]) == 3, found
    for name, value in wanted["metrics"].items():
        assert near(found["metrics"][name], value), (name, found["metrics"], wanted["metrics"])
        for method, of_method in wanted["baselines"].items():
            assert near(found["baselines"][method][name], of_method[name]), (method, name)
    rows, of_eval = rows_of(out), rows_of(folder / "e.csv")
    assert list(rows[0]) == ["fold", "series", "origin", "at", "ahead", "value", "forecast", *BASELINES], rows[0]
    assert [{name: row[name] for name in of_eval[0]} for row in rows] == of_eval
    mae = lambda rows, method: sum(abs(float(row[method]) - float(row["value"])) for row in rows) / len(rows)
    for part in found["fold"]:
        own = [row for row in rows if part["name"].startswith(row["fold"] + ": after ")]
        assert near(part["metrics"]["mae"], mae(own, "forecast")), part
    for part in found["steps_ahead"]:
        own = [row for row in rows if row["ahead"] == part["name"]]
        assert near(part["baselines"]["linear_ar"]["mae"], mae(own, "linear_ar")), part


def tables(folder):
    """backtest trains for each fold, prints and draws errors by fold and steps ahead, and names the better baseline"""
    source = monthly(folder)
    done = ok("backtest", source, "--folds", 2, "--svg", folder / "e.svg", *SMALL)
    for text in ("anew for each fold", "1: after 2021-", "mase by steps ahead", "seasonal naive"):
        assert text in done.out, done.out
    assert "Errors by fold" in (folder / "e.svg").read_text()
    if "worse than a baseline" in done.err:
        assert "`unroll predict RUN --baseline " in " ".join(done.messages()), done.err
    refused(2, "backtest", source, "--folds", 50, *SMALL, says=["number of test windows", "Raise data.test"])
    refused(2, "backtest", source, "--set", f"data.test={folder / 'sales.csv'}", *SMALL, says=["a separate file"])
    (folder / "other").mkdir()
    refused(3, "backtest", config(folder / "other", "classify"), says=["backtest is for forecasts"])


def killed(folder):
    """a backtest that is stopped leaves the file of before, and no temporary one"""
    source, out = monthly(folder), folder / "f.csv"
    out.write_text("old\n")
    process = subprocess.Popen([UNROLL, "backtest", source, "--folds", "5", "--forecasts", out, "--set",
                                "train.max_updates=1000000", "--threads", "1"], stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143, process.stderr.read()
    assert out.read_text() == "old\n"
    assert sorted(path.name for path in folder.iterdir()) == ["c.toml", "f.csv", "sales.csv"]


def by_baseline(folder):
    """predict --baseline continues the file by a baseline, with dates and intervals"""
    source, run, data = monthly(folder), folder / "run", folder / "sales.csv"
    ok("train", source, "--out", run, *SMALL)
    last = [row["sales"] for row in rows_of(data)]
    predict = lambda *words: list(csv.DictReader(ok("predict", run, "--input", data, *words).out.splitlines()))
    naive = predict("--baseline", "persistence")
    assert [(row["month"], float(row["sales"])) for row in naive] == [
        (f"2023-{m:02}", float(last[-1])) for m in (1, 2, 3)], naive
    seasonal = predict("--baseline", "seasonal_naive", "--horizon", 14, "--format", "csv")
    assert [float(row["sales"]) for row in seasonal] == [float(x) for x in (last[-12:] * 2)[:14]], seasonal
    (bounds,) = predict("--baseline", "linear_ar", "--horizon", 1, "--level", 50)
    assert float(bounds["sales-lo-50"]) < float(bounds["sales"]) < float(bounds["sales-hi-50"]), bounds
    # The last forecast of the test set begins at the third row before the end.
    rows = rows_of(folder / "sales.csv")
    (folder / "shorter.csv").write_text("month,sales\n" + "".join(f"{r['month']},{r['sales']}\n" for r in rows[:-3]))
    ok("backtest", source, "--no-refit", "--folds", 1, "--forecasts", folder / "f.csv", *SMALL)
    for name in ("linear_ar", "theta"):
        wanted = [float(row[name]) for row in rows_of(folder / "f.csv")[-3:]]
        found = ok("predict", run, "--input", folder / "shorter.csv", "--baseline", name).out.splitlines()
        assert [float(line.split(",")[1]) for line in found[1:]] == wanted, (name, found, wanted)
    refused(2, "predict", run, "--input", data, "--baseline", "ets",
            says=["persistence, seasonal_naive, theta, linear_ar"])
    (folder / "few.csv").write_text("month,sales\n2020-01,3\n2020-02,4\n")
    refused(3, "predict", run, "--input", folder / "few.csv", "--baseline", "theta", says=["has 2 rows"])
    (folder / "other").mkdir()
    ok("train", config(folder / "other", "classify"), "--out", folder / "c", "--max-updates", 1)
    refused(2, "predict", folder / "c", "--baseline", "persistence", says=["is for forecasts", "the task classify"])


with tempfile.TemporaryDirectory() as work:
    run_checks([same_as_eval, tables, killed, by_baseline], work)
