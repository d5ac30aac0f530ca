#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Splits without an example are named, with shares and sizes, by every command that meets one.
usage: check_splits.py UNROLL"""
import tempfile

from command import call, ok, refused, run_checks
from small_runs import KINDS, config

SMALL = ["--set", "model.hidden=4", "--max-updates", 2, "--set", "run.estimate_seconds=0", "--threads", 1]


def said(result):
    return " ".join(result.messages())


def found(source, *settings):
    """What `data check` finds about splits, as (level, text)."""
    report = call("data", "check", source, "--json", *settings).json()
    return [(f["level"], f["what"]) for f in report["findings"] if f["check"] == "splits"]


def empty(folder):
    """all tasks: eval refuses an empty split; train and data check report it, and options that have no effect then"""
    for kind in KINDS:
        (folder / kind).mkdir()
        source, run = config(folder / kind, kind), folder / kind / "run"
        none = ["--set", "data.test=0", "--set", "data.validation=0"]
        trained = said(ok("train", source, "--out", run, *SMALL, *none, "--set", "train.patience=3"))
        for name in ("validation", "test"):
            assert f"warning: the {name} set is empty: it has 0 of " in trained, trained
            assert f"data.{name} = 0.0" in trained, trained
            refused(2, "eval", run, "--split", name,
                    says=[f"the {name} set is empty", f"data.{name} = 0", "(training "])
            assert any(level == "warning" and f"the {name} set is empty" in what
                       for level, what in found(source, *none)), found(source, *none)
        assert "train.patience = 3 does nothing without a validation set" in trained, trained
        assert ok("eval", run, "--split", "train", "--json").json()["loss"] > 0
        assert found(source) == [], found(source)


def short_series(folder):
    """forecast: a share that is shorter than the horizon leaves no window, and each message has both numbers"""
    (folder / "short.csv").write_text("value\n" + "".join(f"{i % 7}.{i % 3}\n" for i in range(100)))
    ok("new", "forecast", folder / "c.toml", "--data", folder / "short.csv")
    settings = ["--set", "data.window=10", "--set", "data.horizon=30", "--set", "data.period=7"]
    trained = said(ok("train", folder / "c.toml", "--out", folder / "run", *SMALL, *settings))
    words = ["it has 20 of 100 values (training 70, validation 10, test 20)", "data.test = 0.2", "data.horizon = 30"]
    assert all(text in trained for text in words), trained
    refused(2, "eval", folder / "run", says=words)
    assert any(all(text in what for text in words) for _, what in found(folder / "c.toml", *settings))
    # Too few for training.
    says = ["70 of 100 values are left for training", "data.validation takes 10", "data.test 20", "window of 60",
            "horizon of 30"]
    refused(2, "train", folder / "c.toml", "--out", folder / "none", *settings, "--set", "data.window=60", says=says)


def long_period(folder):
    """forecast: a season that is longer than the training set leaves no mase, which train and data check say"""
    (folder / "short.csv").write_text("value\n" + "".join(f"{i % 7}.{i % 3}\n" for i in range(100)))
    ok("new", "forecast", folder / "c.toml", "--data", folder / "short.csv", "--set", "data.period=200", "--set",
       "data.window=5")
    says = "there is no mase: data.period = 200 is not shorter than the training set (70 values)"
    assert says in said(ok("train", folder / "c.toml", "--out", folder / "run", *SMALL))
    assert says in said(ok("data", "check", folder / "c.toml"))
    assert says in said(ok("eval", folder / "run"))


def measures(folder):
    """a small test set of numbers is scored by its absolute error, one of classes by its accuracy"""
    for kind, words in (("regress", "the mean absolute error"), ("classify", "an accuracy")):
        (folder / "few.csv").write_text("a,b,y\n" + "".join(f"{i},{i % 5},{i % 2}\n" for i in range(60)))
        ok("new", kind, folder / f"{kind}.toml", "--data", folder / "few.csv")
        assert words in said(ok("train", folder / f"{kind}.toml", "--out", folder / kind, *SMALL))


def paths(folder):
    """a data file that is not there is refused with the folder that its path starts at and the file that was meant"""
    source = config(folder)
    (folder / "here.csv").write_text("1,2\n")
    for key in ("data.path", "data.test", "data.validation"):
        done = call("train", source, "--out", folder / "run", "--set", f"{key}=here.csv", cwd=folder)
        assert done.code == 3, done.err
        text = said(done)
        assert f'{key} = "here.csv"' in text and "starts at the folder of the config" in text, text
        assert f"write {folder / 'here.csv'}" in text, text


with tempfile.TemporaryDirectory() as work:
    run_checks([empty, short_series, long_period, measures, paths], work)
