#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ablations. usage: check_ablation.py UNROLL"""
import json
import random
import subprocess
import tempfile
import time

from command import UNROLL, ok, refused, run_checks
from small_runs import config

# Less than the measurements before the first run take: each run makes the one update that all make at least, however
# busy the machine is, and its losses are the same each time.
ONE_UPDATE = ["--minutes", 0.001]


def ablation(folder):
    """ablation compares a config with each change and with all of them, in a table, as JSON and in ablation.json"""
    source = config(folder)
    common = [*ONE_UPDATE, "--seeds", 2, "--set", "model.hidden=8", "--threads", 1]
    done = ok("ablation", source, "batch=8", "hidden=16,train.lr=0.01", "--json", "--out", folder / "out", *common)
    report = done.json()
    rows = {row["name"]: row for row in report["variants"]}
    assert list(rows) == ["baseline", "batch=8", "hidden=16,train.lr=0.01", "all"], done.out
    assert rows["all"]["settings"] == ["train.batch=8", "model.hidden=16", "train.lr=0.01"], done.out
    for row in rows.values():
        assert len(row["runs"]) == 2 and all(run["points"] for run in row["runs"]), row
        for figure in ("items_per_second", "epoch_seconds", "loss_at_items", "loss_at_seconds"):
            assert 0 < row[figure]["low"] <= row[figure]["mean"] * (1 + 1e-12), row
        assert row["bytes"] > 1000
    assert rows["baseline"]["verdict"] == "baseline" and "at_seconds" not in rows["baseline"], rows["baseline"]
    assert all(row["at_seconds"] in ("within", "lower", "higher") for name, row in rows.items() if name != "baseline")
    least = min(run["points"][-1]["items"] for row in rows.values() for run in row["runs"])
    assert report["items"] == least and json.loads((folder / "out/ablation.json").read_text()) == report
    assert done.err.count("change=batch=8 seed=") == 2, done.err
    assert "hidden = 16" in (folder / "out/all/config.toml").read_text()
    assert (folder / "out/batch=8/seed-1/metrics.jsonl").exists()
    table = ok("ablation", source, "batch=8", "batch=12", *common).out
    assert {"batch=8", "batch=12"} <= set(table.split()), table
    assert "loss at equal time" in table and "\n  all" not in table, table
    for change, says in (("bach=8", "'batch'"), ("batch", "no ="), ("batch=none", "integer"), ("epochs=3", "--minutes"),
                        ("cell=abacus", "abacus"), ("batch=8 batch=8", "twice"), ("hidden=8", "says already"),
                        ("batch=4,batch=8", "train.batch is set twice"),
                        ("batch=8,model.hidden=8", "model.hidden=8 is what the config says already"),
                        ("projection=4 cell=rnn", "projection")):
        done = refused(2, "ablation", source, *change.split(), *common, says=[says])
        assert "change=" not in done.err, "it was refused after a run"
    refused(2, "ablation", source, "batch=8", "--out", folder / "out", *common, says=["not empty"])
    refused(5, "ablation", source, "batch=8", "--backend", "abacus", *common, says=["abacus", "reference"])


def target_of_another_scale(folder):
    """a change of the target's scale is compared in units of the data, and every run is a run folder"""
    rng, level, rows = random.Random(3), 0.0, ["value"]
    for _ in range(400):  # a random walk: its changes are far smaller than its levels are from their mean
        level += rng.gauss(0, 1)
        rows.append(f"{level:.4f}")
    (folder / "walk.csv").write_text("\n".join(rows) + "\n")
    source = folder / "walk.toml"
    source.write_text("""[task]
kind = "forecast"
[data]
path = "walk.csv"
window = 4
horizon = 1
period = 1
difference = "none"
scale = "series"
[model]
hidden = 8
autoregression = false
[train]
lr = 0.01
seed = 5
""")
    out = folder / "out"
    common = [*ONE_UPDATE, "--threads", 1]
    report = ok("ablation", source, "difference=first", "period=7", "horizon=2", "--json", "--out", out, "--seeds", 2,
                *common).json()
    rows = {row["name"]: row for row in report["variants"]}
    base, change = rows["baseline"], rows["difference=first"]
    assert report["metric"] == "mae" and not report["higher_is_better"], report["metric"]
    assert change["loss_at_items"]["mean"] > base["loss_at_items"]["mean"], (base, change)
    assert change["metric_at_items"]["mean"] < base["metric_at_items"]["mean"], (base, change)
    assert "better at equal time" in change["verdict"] and "worse" not in change["verdict"], change["verdict"]
    assert rows["horizon=2"]["verdict"] == "not compared: data.horizon changes what is predicted", rows["horizon=2"]
    assert {path.name for path in (out / "difference=first").glob("seed-*")} == {"seed-5", "seed-6"}
    for name in rows:
        found = ok("eval", out / name / "seed-6", "--json").json()
        assert "mae" in json.dumps(found), found
        text = (out / name / "seed-6/config.toml").read_text()
        assert "seed = 6 " in text and 'schedule = "constant"' in text, text
    assert 'difference = "first"' in (out / "difference=first/seed-5/config.toml").read_text()
    table = ok("ablation", source, "difference=first", "--seeds", 1, *common).out
    assert "mase at equal time" in table and "lower is better" in table, table


def ablation_file_refused(folder):
    """an ablation.json that cannot be written is exit code 6, and the table and the runs are there all the same"""
    out = folder / "out"
    command = [UNROLL, "ablation", config(folder), "hidden=8", "--out", out, *map(str, ONE_UPDATE), "--seeds", "1",
               "--set", "model.hidden=16", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not out.exists():
        time.sleep(0.001)
    (out / "ablation.json").mkdir()
    printed, told = process.communicate(timeout=60)
    assert process.returncode == 6 and "ablation.json" in told.replace("\n  ", " ").splitlines()[-1], told
    assert [row["name"] for row in json.loads(printed)["variants"]] == ["baseline", "hidden=8"]
    assert (out / "baseline/config.toml").exists() and not list(out.glob("*.tmp"))


with tempfile.TemporaryDirectory() as work:
    run_checks([ablation, target_of_another_scale, ablation_file_refused], work)
