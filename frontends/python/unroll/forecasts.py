# SPDX-License-Identifier: Apache-2.0
"""Forecasts and backtests of data frames."""
import csv
import logging
import os
import tempfile
from collections.abc import Mapping

import numpy as np

from . import _arguments, _core
from ._arguments import require


def forecast(frame, horizon, *, future=None, id="", date="", columns=None, level=(), settings=None):
    """Train a model on the series of a table and return their next values, as a table of the same kind.

    frame       a DataFrame of pandas or Polars, a Table of Arrow, or a dict of columns. In long format (one series
                below the other) a column names the series of each row. A Series or array of one dimension is one
                series.
    horizon     number of values to forecast
    future      a table of the same kind with the covariates that settings name in "data.future_covariates", in the
                `horizon` rows behind those of the frame, with their ids and dates
    id          the column that names the series of each row; "": unique_id, item_id or series_id, if there is one
    date        the column of the dates; "": the first one that begins with a date; "none": rows are one step apart
    columns     the columns to forecast; None: the last one
    level       percentages of prediction intervals: 80 adds the columns "y-lo-80" and "y-hi-80"
    settings    keys of the config, such as {"data.period": 12, "train.max_updates": 1000}

    What is found in the table and decided is logged by the logger "unroll" at level INFO.

    All rows are known to the model: data.validation of them decide its last update, and there is no test set.
    unroll.backtest measures forecasts.
    """
    levels = _levels(level, "unroll.forecast: level")
    table = _Table(frame, "unroll.forecast")
    if future is not None:
        table.extend(_Table(future, "unroll.forecast"))
    found = table.call("unroll.forecast", horizon, {"id": id, "date": date, "test": 0}, columns,
                       lambda text: _core._forecast(text, _arguments.settings(settings), _shares(levels)))
    for note in found["notes"]:
        logging.getLogger("unroll").info(note)
    return table.like(_columns(found, levels), [found["id"], found["date"]])


def backtest(frame, horizon, folds=5, *, refit=True, id="", date="", columns=None, level=(), settings=None):
    """Forecast the last values of the series of a table with a rolling origin, as `unroll backtest`.

    frame, horizon, id, date, columns, settings     as for unroll.forecast
    level       percentages of prediction intervals: 80 adds the columns "unroll-lo-80" and "unroll-hi-80"
    folds       parts into which the forecasts of the test set (data.test, by default 0.2 of each series) are cut
    refit       train anew on the rows before each fold; False: once, on the rows before the test set

    Return a table of the same kind, with a row for each value of each forecast, in the form of cross_validation of
    statsforecast, mlforecast and neuralforecast: unique_id, ds, cutoff (the last row that the forecast knows), y,
    unroll (the model), and a column for each baseline. A frame without dates has row numbers from 0 as ds and cutoff.
    """
    require(isinstance(folds, (int, np.integer)) and folds > 0, "unroll.backtest: folds", "a number above 0", folds)
    levels = _levels(level, "unroll.backtest: level")
    table = _Table(frame, "unroll.backtest")
    found = table.call("unroll.backtest", horizon, {"id": id, "date": date}, columns,
                       lambda text: _core._backtest(text, _arguments.settings(settings), int(folds), bool(refit),
                                                    _shares(levels)))
    table.is_one = False  # the answer has several columns
    place = list if found["is_dated"] else lambda texts: [int(text) for text in texts]
    answer = {"unique_id": found["series"], "ds": place(found["at"]), "cutoff": place(found["origin"]),
              "y": found["value"]} | dict(zip(found["methods"], found["forecasts"].T))
    answer |= dict(zip(_bounds("unroll", levels), found["bounds"].T))
    return table.like(answer, [], dates=["ds", "cutoff"] if found["is_dated"] else [])


def _levels(level, what):
    levels = [level] if isinstance(level, (int, float)) else list(level)
    for one in levels:
        require(isinstance(one, (int, float)) and 0 < one < 100, what, "percentages between 0 and 100", one)
    return levels


def _shares(levels):
    return [one / 100 for one in levels]


def _bounds(name, levels):
    return [f"{name}-{side}-{level:g}" for level in levels for side in ("lo", "hi")]


def _columns(found, levels):
    """Columns by name: the id, the date or step, and each series with its intervals."""
    all = {found["id"]: found["ids"]} if found["id"] else {}
    if found["date"]:
        all[found["date"]] = found["dates"]
    else:
        all["step"] = [int(step) for step in found["dates"]]
    names = [column for name in found["series"] for column in (name, *_bounds(name, levels))]
    return all | dict(zip(names, found["values"].T))


class _Table:
    """A table of any library, which is written as CSV, and answers of its kind."""

    def __init__(self, frame, caller):
        self.kind = type(frame).__module__.split(".")[0]
        self.is_one = getattr(frame, "ndim", 2) == 1 or (self.kind == "builtins" and isinstance(frame, (list, tuple)))
        self.frame = frame
        if self.kind == "pandas":
            self.frame = frame.to_frame(frame.name or "value") if self.is_one else frame
            if self.frame.index.name or self.frame.index.dtype.kind == "M":
                self.frame = self.frame.rename_axis(self.frame.index.name or "date").reset_index()
        elif self.is_one:
            self.frame = {"value": list(frame)}
        require(hasattr(self.frame, "columns") or isinstance(self.frame, Mapping), f"{caller}: frame",
                "a table of pandas, Polars or Arrow, a dict of columns, or one series", frame)

    def extend(self, other):
        """Add the rows of another table of the same kind. Columns that it lacks are empty there."""
        require(self.kind == other.kind and not self.is_one, "unroll.forecast: future", "a table like the frame",
                other.frame)
        if self.kind == "pandas":
            import pandas
            self.frame = pandas.concat([self.frame, other.frame], ignore_index=True)
        elif self.kind == "polars":
            import polars
            self.frame = polars.concat([self.frame, other.frame], how="diagonal_relaxed")
        elif self.kind == "pyarrow":
            import pyarrow
            self.frame = pyarrow.concat_tables([self.frame, other.frame], promote_options="default")
        else:
            n = len(next(iter(other.frame.values())))
            self.frame = {name: [*values, *other.frame.get(name, [None] * n)] for name, values in self.frame.items()}

    def call(self, caller, horizon, data, columns, core):
        """The result of core(config) for this table as data file."""
        require(isinstance(horizon, (int, np.integer)) and horizon > 0, f"{caller}: horizon", "a number above 0",
                horizon)
        data = {"horizon": int(horizon)} | data
        if columns is not None:
            data["columns"] = [columns] if isinstance(columns, str) else list(columns)
        with tempfile.TemporaryDirectory() as folder:
            data["path"] = os.path.join(folder, "frame.csv")
            self.write(data["path"])
            return core('[task]\nkind = "forecast"\n[data]\n' +
                        "".join(f"{key} = {_arguments.value_text(key, value)}\n" for key, value in data.items()))

    def write(self, path):
        if self.kind == "pandas":
            self.frame.to_csv(path, index=False)
        elif self.kind == "polars":
            self.frame.write_csv(path)
        elif self.kind == "pyarrow":
            import pyarrow.csv
            pyarrow.csv.write_csv(self.frame, path)
        else:
            with open(path, "w", newline="", encoding="utf-8") as file:
                rows = csv.writer(file)
                rows.writerow(self.frame)
                rows.writerows(zip(*self.frame.values(), strict=True))

    def like(self, columns, keys, dates=()):
        """The answer. The columns `keys` have the types of those in the frame; `dates` become dates, if it has such."""
        keys = [key for key in keys if key in self.frame] if self.kind == "pandas" else keys
        if self.kind == "pandas":
            import pandas
            answer = pandas.DataFrame(columns)
            dated = [dtype for dtype in self.frame.dtypes if dtype.kind == "M"]
            types = {key: self.frame[key].dtype for key in keys} | {key: dated[0] for key in dates if dated}
            for key, dtype in types.items():
                if dtype.kind == "M":  # the offsets of one time zone may differ
                    answer[key] = pandas.to_datetime(answer[key], utc=getattr(dtype, "tz", None) is not None)
                answer[key] = answer[key].astype(dtype)
            return answer
        if self.kind == "polars":
            import polars
            answer = polars.DataFrame(columns)
            dated = [dtype for dtype in self.frame.dtypes if dtype == polars.Date or isinstance(dtype, polars.Datetime)]
            answer = answer.with_columns(self._cast(answer[name], dated[0]) for name in dates if dated)
            return answer.with_columns(self._cast(answer[name], self.frame[name].dtype)
                                       for name in keys if name)
        if self.kind == "pyarrow":
            import pyarrow
            return pyarrow.table(columns)
        if not self.is_one:
            return {name: np.asarray(values).tolist() for name, values in columns.items()}
        values = np.array([columns[name] for name in list(columns)[1:]]).T
        return values[:, 0] if values.shape[1] == 1 else values

    @staticmethod
    def _cast(texts, dtype):
        import polars
        if dtype == polars.Date:
            return texts.str.to_date()
        return texts.str.to_datetime().cast(dtype) if isinstance(dtype, polars.Datetime) else texts.cast(dtype)
