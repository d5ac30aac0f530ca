#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare forecasts of eight public series: unroll, seasonal naive, statsforecast and PyTorch.

usage: bench/forecast/data.py FOLDER
       bench/forecast/walk.py FOLDER --unroll build/frontends/cli/unroll [--sets airline,co2] [--seeds 3]
           [--variant 'model.hidden=64 train.lr=0.002' ...] [--peers ets,theta,arima,mstl,lstm]

A row is the config of `unroll new forecast` with only data.horizon set (and data.columns for several series), or one
with the keys of a --variant; {m} and {horizon} in a variant stand for those of the set. Every method forecasts from
every origin in the last 20 % of a series whose horizon fits. Peers are fitted once to the rows before, except mstl.

The set bikes-covariates has columns that are known ahead, for
    --variant 'data.future_covariates={covariates}'
and for the peers lstm-known and lstm-unknown.

A cell is the mean MASE over origins, distances, series and seeds. The scale of MASE is the mean error of the seasonal
naive forecast one step ahead on the first 70 % of a series, where unroll trains by default: the mase of `unroll eval`.
--scale 0.8 uses all rows before the origins. Errors count where the value is known; methods read the previous value
in place of a missing one. CPU seconds are those of training and all forecasts, for one seed: of unroll with the start
of its processes, of peers without imports. The log has seconds too, which depend on what else runs.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

import data

VALIDATION, TEST = 0.1, 0.2  # the shares that unroll takes by default


class Series:
    """The columns of a set as lists, None where a value is missing, and the origins of the forecasts."""

    def __init__(self, folder, name):
        self.name, self.path = name, pathlib.Path(folder).resolve() / f"{name}.csv"
        self.columns, self.horizon, self.m, self.seasons = (data.SETS | data.SETS_WITH_COVARIATES)[name]
        with open(self.path, newline="") as file:
            self.header, *self.rows = csv.reader(file)
        places = [self.header.index(column) for column in self.columns]
        self.values = [[float(row[at]) if row[at] else None for row in self.rows] for at in places]
        self.filled = [filled(values) for values in self.values]
        self.first = len(self.rows) - math.ceil(TEST * len(self.rows))
        self.trained = self.first - math.ceil(VALIDATION * len(self.rows))
        self.origins = range(self.first, len(self.rows) - self.horizon + 1)

    def scales(self, share):
        """The mean error of the seasonal naive forecast one step ahead in the first share of the rows, by column."""
        end = self.first if share == 0.8 else self.trained
        return [statistics.fmean(abs(known[t] - full[t - self.m]) for t in range(self.m, end) if known[t] is not None)
                for known, full in zip(self.values, self.filled)]

    def errors(self, forecast):
        """The mean absolute error of each column; forecast(t) gives [column][distance] from the rows before t."""
        sums, counts = [0.0] * len(self.columns), [0] * len(self.columns)
        for t in self.origins:
            for s, path in enumerate(forecast(t)):
                for h in range(self.horizon):
                    value = self.values[s][t + h]
                    if value is not None:
                        sums[s] += abs(path[h] - value)
                        counts[s] += 1
        return [total / count for total, count in zip(sums, counts)]

    def seasonal_naive(self, t):
        return [[full[t + h - (h // self.m + 1) * self.m] for h in range(self.horizon)] for full in self.filled]


def filled(values):
    """The previous value in place of a missing one."""
    last, all_known = next(v for v in values if v is not None), []
    for value in values:
        last = last if value is None else value
        all_known.append(last)
    return all_known


def call(*line):
    done = subprocess.run([str(part) for part in line], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(map(str, line))}\n{done.stderr.strip()}")
    return done.stdout


class Unroll:
    """Runs of one variant of the config on one set."""

    def __init__(self, o, series, variant, work):
        self.o, self.series = o, series
        self.config, self.run = work / "config.toml", work / "run"
        keys = [f"data.horizon={series.horizon}"]
        if len(series.columns) > 1:
            keys.append(f"data.columns={json.dumps(series.columns)}")
        variant = variant.replace("{m}", str(series.m)).replace("{horizon}", str(series.horizon))
        keys += [key.replace("{covariates}", json.dumps(data.COVARIATES)) for key in shlex.split(variant)]
        call(o.unroll, "new", "forecast", self.config, "--data", series.path, "--quiet",
             *(part for key in keys for part in ("--set", key)))
        self.settings = tomllib.loads(self.config.read_text())["data"]

    def train(self, seed):
        call(self.o.unroll, "train", self.config, "--out", self.run, "--seed", seed, "--threads", self.o.threads,
             "--quiet")

    def evaluate(self):
        """The mean absolute error of each column by `unroll eval`, whose test set is the last 20 %."""
        found = json.loads(call(self.o.unroll, "eval", self.run, "--json", "--quiet", "--threads", self.o.threads))
        self.note_other_origins(found)
        metrics, columns = found["metrics"], self.series.columns
        return [metrics["mae"]] if len(columns) == 1 else [metrics[f"mae.{column}"] for column in columns]

    def note_other_origins(self, found):
        """The errors of the seasonal naive forecast are equal only if the origins are."""
        theirs = found.get("baselines", {}).get("seasonal_naive", {}).get("mae")
        if theirs is None or self.settings.get("period") != self.series.m or len(self.series.columns) > 1:
            return
        (ours,) = self.series.errors(self.series.seasonal_naive)
        if abs(theirs / ours - 1) > 1e-6:
            print(f"{self.series.name}: eval's seasonal naive has mae {theirs}, expected {ours}", file=sys.stderr)

    def predict(self):
        """The same errors by one `unroll predict` for each origin."""
        history, answer = self.run.parent / "history.csv", self.run.parent / "answer.csv"

        def forecast(t):
            with open(history, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([self.series.header, *self.series.rows[:t]])
            call(self.o.unroll, "predict", self.run, "--input", history, "--output", answer, "--quiet",
                 "--horizon", self.series.horizon, "--threads", self.o.threads)
            with open(answer, newline="") as file:
                rows = list(csv.DictReader(file))
            return [[float(row[column]) for row in rows] for column in self.series.columns]
        return self.series.errors(forecast)

    def errors(self):
        whole = self.settings.get("test") == TEST and not self.o.predict
        return self.evaluate() if whole else self.predict()


def now():
    """Seconds, and CPU seconds of this process and of those that it waited for."""
    return time.perf_counter(), sum(os.times()[:4])


def since(begin, runs=1):
    return [(after - before) / runs for before, after in zip(begin, now())]


def measure_unroll(o, series, variant):
    """Errors of each seed, and the mean of their seconds and CPU seconds."""
    errors, begin = [], now()
    for seed in range(o.seeds):
        with tempfile.TemporaryDirectory() as work:
            unroll = Unroll(o, series, variant, pathlib.Path(work))
            unroll.train(seed)
            errors.append(unroll.errors())
    return errors, *since(begin, o.seeds)


def measure_naive(series):
    begin = now()
    return [series.errors(series.seasonal_naive)], *since(begin)


def measure_peer(o, series, peer):
    """In a process of its own with a limit of time; peers.py prints what measure_unroll returns."""
    script = pathlib.Path(__file__).with_name("peers.py")
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NIXTLA_NUMBA_RELEASE_GIL": "1"}
    try:
        done = subprocess.run([o.python, script, peer, series.path.parent, series.name, str(o.seeds)], text=True,
                              capture_output=True, timeout=o.limit, env={**os.environ, **one})
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"not finished after {o.limit:.0f} s") from error
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return json.loads(done.stdout)


def cell(o, series, name, measured):
    """MASE of each seed and the time; None with a message if the method fails."""
    try:
        errors, seconds, cpu = measured()
    except RuntimeError as error:
        print(f"{series.name}, {name}: {error}", file=sys.stderr)
        return None
    scales = series.scales(o.scale)
    mase = [statistics.fmean(e / scale for e, scale in zip(of_seed, scales)) for of_seed in errors]
    each = " ".join(f"{value:.3f}" for value in mase)
    print(f"{series.name}, {name}: MASE {each}; {seconds:.1f} s, CPU {cpu:.1f} s", file=sys.stderr)
    return {"mase": mase, "seconds": seconds, "cpu_seconds": cpu, "mae": errors}


def table(title, sets, rows, text):
    print(f"\n| {title} | " + " | ".join(sets) + " |\n|" + "---|" * (len(sets) + 1))
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(text(of_set) if of_set else "–" for of_set in cells.values()) + " |")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="what data.py wrote")
    parser.add_argument("--unroll", help="the command; without it only the other methods run")
    parser.add_argument("--sets", default=",".join(data.SETS))
    parser.add_argument("--variant", action="append", default=[], help="keys of one more row, after the defaults")
    parser.add_argument("--no-default", action="store_true", help="leave out the row of the defaults")
    parser.add_argument("--peers", default="", help="ets, theta, arima, mstl, lstm ..., as in peers.py")
    parser.add_argument("--python", default=sys.executable, help="Python with the packages of the peers")
    parser.add_argument("--limit", type=float, default=600, help="most seconds of a peer on one set")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.7, choices=[0.7, 0.8])
    parser.add_argument("--predict", action="store_true", help="forecast each origin by `unroll predict`, not by eval")
    parser.add_argument("--json", help="file for the errors of each seed and column")
    return parser.parse_args()


def methods_of(o):
    """Pairs of a name and what measures a set."""
    methods = [("seasonal naive", measure_naive)]
    for variant in ([] if o.no_default else [""]) + o.variant if o.unroll else []:
        methods.append((f"unroll {variant or 'default'}",
                        lambda series, variant=variant: measure_unroll(o, series, variant)))
    for peer in filter(None, o.peers.split(",")):
        methods.append((peer, lambda series, peer=peer: measure_peer(o, series, peer)))
    return methods


def main():
    o = options()
    sets, rows = o.sets.split(","), {}
    for name in sets:
        series = Series(o.folder, name)
        for method, measure in methods_of(o):
            rows.setdefault(method, {})[name] = cell(o, series, method, lambda: measure(series))
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1) + "\n")
    table("MASE", sets, rows, lambda of: f"{statistics.fmean(of['mase']):.2f}")
    random = {name: cells for name, cells in rows.items() if any(of and len(of["mase"]) > 1 for of in cells.values())}
    if random:
        table("range of seeds", sets, random, lambda of: f"{min(of['mase']):.2f}–{max(of['mase']):.2f}")
    table("CPU seconds", sets, rows, lambda of: f"{of['cpu_seconds']:.3g}")


if __name__ == "__main__":
    main()
