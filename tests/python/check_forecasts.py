#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unroll.forecast: tables of every kind, and what the command gives for the same rows.
usage: check_forecasts.py UNROLL
"""
import csv
import importlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import unroll

from checks import check, finish, refused

UNROLL = sys.argv[1]
SETTINGS = {"data.period": 6, "data.window": 6, "model.hidden": 4, "train.max_updates": 20}


def stores():
    """Three stores of different size, in long format."""
    rows = [(f"S{s}", f"20{20 + t // 12}-{t % 12 + 1:02}-01", round(10**s * (5 + math.sin(t) + t % 6), 3))
            for s in range(3) for t in range(40 + 5 * s)]
    return dict(zip(("store", "month", "units"), map(list, zip(*rows))))


def of_command(table, horizon, level):
    """The rows of `unroll predict`, for a run with the same settings."""
    with tempfile.TemporaryDirectory() as folder:
        data, run = pathlib.Path(folder) / "data.csv", f"{folder}/run"
        with data.open("w", newline="") as file:
            csv.writer(file).writerows([table, *zip(*table.values())])
        keys = SETTINGS | {"data.id": "store", "data.horizon": horizon, "data.test": 0}
        call = lambda *words: subprocess.run([UNROLL, *words], check=True, capture_output=True, text=True).stdout
        call("new", "forecast", f"{folder}/c.toml", "--data", data, *(w for k, v in keys.items()
                                                                      for w in ("--set", f"{k}={v}")))
        call("train", f"{folder}/c.toml", "--out", run, "--set", "train.validate_every=20")
        return list(csv.DictReader(call("predict", run, "--input", data, "--level", str(level)).splitlines()))


def close(a, b):
    return np.allclose(np.array(a, float), np.array(b, float), rtol=1e-5)


table = stores()
given = unroll.forecast(table, 3, id="store", level=50, settings=SETTINGS)
wanted = of_command(table, 3, 50)
check(list(given) == ["store", "month", "units", "units-lo-50", "units-hi-50"], "columns of a dict")
check([*zip(given["store"], given["month"])] == [(row["store"], row["month"]) for row in wanted], "ids and dates")
for name in list(given)[2:]:
    check(close(given[name], [row[name] for row in wanted]), f"{name} is that of the command")

noise = [t * t * 31 % 101 for t in range(83)]
priced = {"t": list(range(80)), "units": [200 + t - 2 * noise[t] for t in range(80)], "price": noise[:80]}
ahead = {"t": [80, 81, 82], "price": noise[80:]}
known = SETTINGS | {"data.future_covariates": ["price"], "data.column": "units", "data.difference": "first"}
found = unroll.forecast(priced, 3, future=ahead, settings=known)["units"]
check(all(abs(value - 200 - t + 2 * noise[t]) < 5 for t, value in zip(ahead["t"], found)), "prices ahead are read")
refused(unroll.UsageError, "a forecast of 3 steps reads the covariate", unroll.forecast, priced, 3, settings=known)

one = table["units"][:40]
check(close(unroll.forecast(one, 2, settings=SETTINGS), unroll.forecast(np.array(one), 2, settings=SETTINGS)),
      "a list and an array are one series")
check(unroll.forecast(one, 2, level=[50], settings=SETTINGS).shape == (2, 3), "intervals of one series")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    bounds = unroll.forecast({"y": one}, 2, level=99, settings=SETTINGS)
check(all(map(math.isnan, bounds["y-lo-99"])) and any("no interval at 99 %" in str(w.message) for w in said),
      "an interval that the validation set cannot give is named")

# Backtests, in the form of cross_validation of Nixtla's libraries.
with tempfile.TemporaryDirectory() as folder:
    data, out = pathlib.Path(folder) / "data.csv", pathlib.Path(folder) / "f.csv"
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([table, *zip(*table.values())])
    words = [w for k, v in (SETTINGS | {"data.id": "store", "data.horizon": 3}).items() for w in ("--set", f"{k}={v}")]
    call = lambda *words: subprocess.run([UNROLL, *words], check=True, capture_output=True, text=True)
    call("new", "forecast", f"{folder}/c.toml", "--data", data, *words, "--set", "train.validate_every=20")
    call("backtest", f"{folder}/c.toml", "--folds", "2", "--forecasts", out, "--level", "60")
    wanted = list(csv.DictReader(out.open()))
    run = unroll.train(f"{folder}/c.toml", out=f"{folder}/run")
    of_command = json.loads(call("eval", f"{folder}/run", "--json").stdout)
    of_python = unroll.evaluate(f"{folder}/run")
    check(of_python["metrics"] == of_command["metrics"] and of_python["baselines"] == of_command["baselines"]
          and of_python["loss"] == of_command["loss"], "evaluate gives the metrics and baselines of eval")
    check(unroll.evaluate(pathlib.Path(folder) / "run", split="train")["loss"] != of_python["loss"], "of another split")
    refused(unroll.UsageError, "split must be train, validation or test; got 'best'", unroll.evaluate, f"{folder}/run",
            split="best")
    refused(unroll.UsageError, "the test set is empty", unroll.evaluate, f"{folder}/run", settings={"data.test": 0})
    history = table["units"][:30]
    check((run.model.predict(np.array(history))[0] == run.model.predict([history])[0]).all()
          and (run.model.predict(history)[0] == run.model.predict([history])[0]).all(),
          "an array or list of numbers is one history")
    history[3] = math.nan
    check(np.isfinite(run.model.predict(np.array(history))[0]).all(), "NaN in a history is filled")
found = unroll.backtest(table, 3, 2, id="store", settings=SETTINGS | {"train.validate_every": 20}, level=60)
check(list(found) == ["unique_id", "ds", "cutoff", "y", "unroll", "persistence", "seasonal_naive", "theta",
                      "unroll-lo-60", "unroll-hi-60"], "columns of a backtest")
for name, of in {"unique_id": "series", "ds": "at", "cutoff": "origin"}.items():
    check(found[name] == [row[of] for row in wanted], f"{name} of a backtest")
for name, of in {"y": "value", "unroll": "forecast", "seasonal_naive": "seasonal_naive", "theta": "theta",
                 "unroll-lo-60": "forecast-lo-60", "unroll-hi-60": "forecast-hi-60"}.items():
    check(close(found[name], [row[of] for row in wanted]), f"{name} of a backtest is that of the command")
found = unroll.backtest(np.array(one), 2, folds=1, refit=False, settings=SETTINGS)
check(found["ds"][0] == found["cutoff"][0] + 1 and len(found["linear_ar"]) == len(found["y"]),
      "a backtest of one series")
refused(unroll.DTypeError, "[unroll.backtest: folds]", unroll.backtest, table, 3, 0)
refused(unroll.DTypeError, "[unroll.backtest: level]", unroll.backtest, table, 3, level=100)
refused(unroll.UsageError, "number of test windows", unroll.backtest, table, 3, 500, id="store", settings=SETTINGS)

refused(unroll.DTypeError, "[unroll.forecast: frame]", unroll.forecast, 3, 1)
refused(unroll.DTypeError, "[unroll.forecast: horizon]", unroll.forecast, table, 0)
refused(unroll.DTypeError, "[unroll.forecast: level]", unroll.forecast, table, 1, level=[100])
refused(unroll.UsageError, "'shop'", unroll.forecast, table, 1, id="shop")

for name, make in {"pandas": lambda m: m.DataFrame(table), "polars": lambda m: m.DataFrame(table),
                   "pyarrow": lambda m: m.table(table)}.items():
    try:
        module = importlib.import_module(name)
    except ImportError:
        print(f"skip {name} is not installed")
        continue
    frame = unroll.forecast(make(module), 3, id="store", level=50, settings=SETTINGS)
    check(type(frame) is type(make(module)), f"a frame of {name} gives one of {name}")
    for column, values in given.items():
        found = frame[column].to_pylist() if name == "pyarrow" else frame[column].to_list()
        check(found == values if column in ("store", "month") else close(found, values), f"{column} of {name}")
    if name == "pandas":
        dated = make(module).assign(month=module.to_datetime(table["month"]))
        answer = unroll.forecast(dated, 3, id="store", settings=SETTINGS)
        check(answer["month"].dtype == dated["month"].dtype, "dates of pandas stay dates")
        answer = unroll.backtest(dated, 3, 1, refit=False, id="store", settings=SETTINGS)
        check(answer["ds"].dtype.kind == "M" and (answer["cutoff"] < answer["ds"]).all(),
              "dates of a backtest are dates")
        series = dated[dated.store == "S0"].set_index("month")["units"]
        answer = unroll.forecast(series, 2, settings=SETTINGS)
        check(list(answer.columns) == ["month", "units"] and len(answer) == 2, "a series of pandas with dates as index")
        hours = module.date_range("2024-10-25 12:00", periods=40, freq="h", tz="Europe/Berlin")
        zoned = module.Series(range(37), index=hours[:37])  # the clock is changed in the rows to forecast
        berlin = SETTINGS | {"data.timezone": "Europe/Berlin"}
        answer = unroll.forecast(zoned, 3, settings=berlin)
        check(answer["date"].to_list() == hours[37:].to_list(), "dates of pandas go on in their time zone")
        answer = unroll.backtest(zoned, 3, 1, refit=False, settings=berlin)
        check(answer["ds"].iloc[-1] == hours[36], "dates of a backtest are in their time zone")
    if name == "polars":
        dated = make(module).with_columns(module.col("month").str.to_date())
        answer = unroll.forecast(dated, 3, id="store", settings=SETTINGS)
        check(answer["month"].dtype == module.Date, "dates of Polars stay dates")
        answer = unroll.backtest(dated, 3, 1, refit=False, id="store", settings=SETTINGS)
        check(answer["ds"].dtype == module.Date, "dates of a backtest of Polars are dates")
finish()
