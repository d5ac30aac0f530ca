#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unroll.forecast: tables of every kind, and what the command gives for the same rows.
usage: check_forecasts.py UNROLL
"""
import csv
import importlib
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

one = table["units"][:40]
check(close(unroll.forecast(one, 2, settings=SETTINGS), unroll.forecast(np.array(one), 2, settings=SETTINGS)),
      "a list and an array are one series")
check(unroll.forecast(one, 2, level=[50], settings=SETTINGS).shape == (2, 3), "intervals of one series")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    bounds = unroll.forecast({"y": one}, 2, level=99, settings=SETTINGS)
check(all(map(math.isnan, bounds["y-lo-99"])) and any("no interval at 99 %" in str(w.message) for w in said),
      "an interval that the validation set cannot give is named")

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
        series = dated[dated.store == "S0"].set_index("month")["units"]
        answer = unroll.forecast(series, 2, settings=SETTINGS)
        check(list(answer.columns) == ["month", "units"] and len(answer) == 2, "a series of pandas with dates as index")
    if name == "polars":
        dated = make(module).with_columns(module.col("month").str.to_date())
        answer = unroll.forecast(dated, 3, id="store", settings=SETTINGS)
        check(answer["month"].dtype == module.Date, "dates of Polars stay dates")
finish()
