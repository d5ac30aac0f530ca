#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare forecasts of the M1, M3 and Tourism competitions: seasonal naive, statsforecast,
neuralforecast and unroll.

usage: bench/forecast/data.py FOLDER
       bench/forecast/panels.py FOLDER [--groups m3-monthly,tourism-monthly] [--methods naive,ets,theta,unroll]

A cell is the mean MASE of the series of a group, over the official horizon. The scale of a series is its mean error of
the seasonal naive forecast one step ahead in the training part; a season is one step in groups that are not monthly or
quarterly. The seasonal naive forecast must have 1.631 in tourism-monthly and 1.146 in m3-monthly; --check tests this
and exits with code 9 if it has not.

CRPS is the mean over series of the continuous ranked probability score in the same scale, from the quantiles 0.1 to
0.9: twice the mean pinball loss.
"""
import argparse
import csv
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import data

COMMAND = "unroll"
LEVELS = (20, 40, 60, 80)  # of the intervals around the median whose bounds are the quantiles
PUBLISHED = {"tourism-monthly": 1.631, "m3-monthly": 1.146}


class Panel:
    """The series of a group: training and test values by name."""

    def __init__(self, folder, group):
        self.horizon, self.m = data.PANELS[group]
        self.train_path, test = (pathlib.Path(folder) / f"{group}-{part}.csv" for part in ("train", "test"))
        self.train, self.test = self.read(self.train_path), self.read(test)

    @staticmethod
    def read(path):
        series = {}
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                series.setdefault(row["unique_id"], []).append(float(row["y"]))
        return series

    def scale(self, name):
        x, m = self.train[name], self.m
        return statistics.fmean(abs(a - b) for a, b in zip(x[m:], x))

    def mase(self, name, forecast):
        errors = (abs(a - b) for a, b in zip(self.test[name], forecast, strict=True))
        return statistics.fmean(errors) / self.scale(name)

    def crps(self, name, quantiles):
        """quantiles has the values of the horizon by probability."""
        losses = [max(p * (actual - value), (p - 1) * (actual - value))
                  for p, values in quantiles.items() for actual, value in zip(self.test[name], values, strict=True)]
        return 2 * statistics.fmean(losses) / self.scale(name)

    def mean(self, score, forecasts):
        """The mean over all series; forecasts has what the score takes by name."""
        each = [score(name, forecasts[name]) for name in self.train]
        if not all(map(math.isfinite, each)):
            raise RuntimeError(f"{sum(not math.isfinite(value) for value in each)} series have no finite forecast")
        return statistics.fmean(each)


def quantiles_of(found, median, name):
    """The quantiles of a table with columns such as lo-80 and hi-80 behind a name."""
    values = {0.5: median}
    for level in LEVELS:
        values[0.5 - level / 200], values[0.5 + level / 200] = (found[f"{name}{side}-{level}"] for side in ("lo", "hi"))
    return values


def naive(panel):
    m = panel.m
    return {name: [x[len(x) - m + h % m] for h in range(panel.horizon)] for name, x in panel.train.items()}, None


def statsforecast(model):
    """A method with AutoETS or AutoTheta, fitted to each series on one thread."""
    def forecasts(panel):
        import numpy as np
        from statsforecast import models
        kind, values, quantiles = getattr(models, model), {}, {}
        for name, x in panel.train.items():
            found = kind(season_length=panel.m).forecast(y=np.array(x), h=panel.horizon, level=list(LEVELS))
            values[name] = found["mean"].tolist()
            quantiles[name] = quantiles_of(found, values[name], "")
        return values, quantiles
    return forecasts


def unroll(panel, *settings):
    """One model of all series, with the defaults: the config of `unroll new forecast` with the horizon, the season, and
    no test set, because the test values are in another file; and with these settings."""
    with tempfile.TemporaryDirectory() as folder:
        config, run = f"{folder}/config.toml", f"{folder}/run"
        keys = (f"data.horizon={panel.horizon}", f"data.period={panel.m}", "data.test=0", *settings)
        called("new", "forecast", config, "--data", panel.train_path, *(x for key in keys for x in ("--set", key)))
        called("train", config, "--out", run)
        levels = ",".join(map(str, (*LEVELS, 90)))
        rows = csv.DictReader(called("predict", run, "--input", panel.train_path, "--level", levels).splitlines())
        found, within = {}, []
        for row in rows:
            columns = found.setdefault(row["unique_id"], {name: [] for name in row})
            actual = panel.test[row["unique_id"]][len(columns["y"])]
            for name, values in columns.items():
                values.append(float(row[name] or "nan") if name.startswith("y") else row[name])
            if row["y-lo-90"]:
                within.append(float(row["y-lo-90"]) <= actual <= float(row["y-hi-90"]))
        forecasts = {name: of["y"] for name, of in found.items()}
        quantiles = {name: quantiles_of(of, of["y"], "y-") for name, of in found.items()}
        if within:
            print(f"{panel.train_path.stem}: {statistics.fmean(within):.1%} of {len(within)} values lie within the "
                  "90 % intervals", file=sys.stderr)
        return forecasts, quantiles


def called(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def neuralforecast(model, **more):
    """A network of neuralforecast with its defaults, trained on all series."""
    def forecasts(panel):
        import pandas
        from neuralforecast import NeuralForecast, models
        rows = [(name, t, y) for name, x in panel.train.items() for t, y in enumerate(x)]
        frame = pandas.DataFrame(rows, columns=["unique_id", "ds", "y"])
        network = getattr(models, model)(h=panel.horizon, enable_progress_bar=False, logger=False,
                                         enable_checkpointing=False, **more)
        engine = NeuralForecast(models=[network], freq=1)
        engine.fit(frame)
        found = engine.predict()
        groups, quantiles = list(found.groupby("unique_id")), None
        if f"{model}-median" in found:
            quantiles = {name: quantiles_of(of, of[f"{model}-median"], f"{model}-") for name, of in groups}
        return {name: of[model].tolist() for name, of in groups}, quantiles
    return forecasts


def deepar(panel):
    from neuralforecast.losses.pytorch import DistributionLoss
    loss = DistributionLoss("StudentT", level=list(LEVELS))
    return neuralforecast("DeepAR", input_size=-1, start_padding_enabled=True, loss=loss)(panel)


def distribution(name):
    return lambda panel: unroll(panel, f"model.distribution={name}")


METHODS = {"naive": naive, "ets": statsforecast("AutoETS"), "theta": statsforecast("AutoTheta"), "unroll": unroll,
           "unroll-quantiles": distribution("quantiles"), "unroll-student": distribution("student_t"),
           "lstm": neuralforecast("LSTM", input_size=-1, start_padding_enabled=True),
           "deepar": deepar}


def cpu_seconds():
    """Of this process and of those that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def cell(o, group, method):
    panel = Panel(o.folder, group)
    begin = time.perf_counter(), cpu_seconds()
    try:
        forecasts, quantiles = METHODS[method](panel)
        mase = panel.mean(panel.mase, forecasts)
        crps = panel.mean(panel.crps, quantiles) if quantiles else None
    except (RuntimeError, ImportError) as error:
        print(f"{group}, {method}: {error}", file=sys.stderr)
        return None
    seconds, cpu = time.perf_counter() - begin[0], cpu_seconds() - begin[1]
    scores = f"MASE {mase:.3f}" + (f", CRPS {crps:.3f}" if crps else "")
    print(f"{group}, {method}: {scores}; {seconds:.1f} s, CPU {cpu:.1f} s", file=sys.stderr)
    return {"mase": mase, "crps": crps, "seconds": seconds, "cpu_seconds": cpu}


def wrong(rows):
    """Groups in which the seasonal naive forecast has another error than the published one."""
    cells = rows.get("naive", {})
    return [group for group, value in PUBLISHED.items() if group in cells and abs(cells[group]["mase"] - value) > 5e-4]


def table(title, rows, text):
    groups = list(next(iter(rows.values())))
    print(f"\n| {title} | " + " | ".join(groups) + " |\n|" + "---|" * (len(groups) + 1))
    for method, cells in rows.items():
        print(f"| {method} | " + " | ".join(text(of) if of else "–" for of in cells.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="what data.py wrote")
    parser.add_argument("--groups", default=",".join(data.PANELS))
    parser.add_argument("--methods", default="naive", help=", ".join(METHODS))
    parser.add_argument("--unroll", default="unroll", help="the command")
    parser.add_argument("--check", action="store_true", help="compare naive with the published errors")
    parser.add_argument("--json", help="file for the results")
    o = parser.parse_args()
    global COMMAND
    COMMAND = o.unroll
    rows = {}
    for group in o.groups.split(","):
        for method in o.methods.split(","):
            rows.setdefault(method, {})[group] = cell(o, group, method)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1) + "\n")
    table("MASE", rows, lambda of: f"{of['mase']:.3f}")
    table("CRPS", rows, lambda of: f"{of['crps']:.3f}" if of["crps"] else "–")
    table("CPU seconds", rows, lambda of: f"{of['cpu_seconds']:.3g}")
    if o.check and (groups := wrong(rows)):
        print(f"seasonal naive differs from the published errors in {', '.join(groups)}", file=sys.stderr)
        return 9
    return 0


if __name__ == "__main__":
    sys.exit(main())
